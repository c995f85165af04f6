"""Store addresses: what is read from them, and what is refused with a useful word."""

import re
from pathlib import Path

import pytest

from zonekeeper.metadata.store import errors
from zonekeeper.metadata.stores import uri
from zonekeeper.metadata.stores.opening import open_store


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("zk://h", uri.ZooKeeperAddress(servers=("h:2181",))),
        ("zk://h/", uri.ZooKeeperAddress(servers=("h:2181",))),
        ("zk://h:1/ledgers", uri.ZooKeeperAddress(servers=("h:1",))),
        (
            "zk://h:1,10.0.0.1,[::1]:3,[fe80::1]/team/logs",
            uri.ZooKeeperAddress(
                servers=("h:1", "10.0.0.1:2181", "[::1]:3", "[fe80::1]:2181"), root="/team/logs"
            ),
        ),
        (
            "zk://a:1;b:2/ledgers",  # Apache's way to write it
            uri.ZooKeeperAddress(servers=("a:1", "b:2")),
        ),
        (
            "zk://h?auth-file=/etc/zk",
            uri.ZooKeeperAddress(
                servers=("h:2181",), auth_file=Path("/etc/zk"), acl=uri.AddressAcl.CREATOR
            ),
        ),
        (
            "zk://h?auth-file=/etc/zk&acl=open",
            uri.ZooKeeperAddress(servers=("h:2181",), auth_file=Path("/etc/zk")),
        ),
        ("zk://h?tls=on", uri.ZooKeeperAddress(servers=("h:2181",), tls=uri.Tls())),
        (
            "zk://h?tls-ca=/ca&tls-cert=/c&tls-key=/k",
            uri.ZooKeeperAddress(
                servers=("h:2181",),
                tls=uri.Tls(ca=Path("/ca"), certificate=Path("/c"), key=Path("/k")),
            ),
        ),
        ("sqlite:///a/b%20c.db", uri.SqliteAddress(path=Path("/a/b c.db"))),
        ("sqlite:///a.db?root=/x/y", uri.SqliteAddress(path=Path("/a.db"), root="/x/y")),
        ("memory:", uri.MemoryAddress()),
        ("memory:?root=/x", uri.MemoryAddress(root="/x")),
    ],
)
def test_an_address_is_read(text: str, address: uri.Address) -> None:
    assert uri.parse(text) == address


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "zk://"),
        ("zk", "zk://"),
        ("/var/lib/meta.db", "sqlite:///"),
        ("http://h/x", "zk://"),
        ("etcd://h/x", "memory:"),
        ("zk+hierarchical://h/ledgers", "write 'zk://'"),
        ("zk:///ledgers", "host:port"),
        ("zk://,h/ledgers", "host:port"),
        ("zk://h:0", "port"),
        ("zk://h:65536", "port"),
        ("zk://h:x", "port"),
        ("zk://h:", "port"),
        ("zk://[::1/x", "host:port"),
        ("zk://h/ledgers/", "'.' or '..' part"),
        ("zk://h//ledgers", "'.' or '..' part"),
        ("zk://h/a/../b", "'.' or '..' part"),
        ("zk://h/zookeeper", "/zookeeper"),
        ("zk://h/zookeeper/x", "/zookeeper"),
        ("zk://h/ledgers.zonekeeper", "stands beside a root"),
        ("zk://h/x?root=/y", "unknown option 'root'"),
        ("zk://h/x?tls=off", "'tls'"),
        ("zk://h/x?tls", "name=value"),
        ("zk://h/x?tls=on&tls=on", "twice"),
        ("zk://h/x?auth-file=", "no value"),
        ("zk://h/x?auth-file=here", "absolute"),
        ("zk://h/x?acl=all", "'creator' or 'open'"),
        ("zk://h/x?tls-cert=/c", "need each other"),
        ("zk://h/x#y", "'#'"),
        ("sqlite://meta.db", "absolute"),
        ("sqlite:meta.db", "absolute"),
        ("sqlite:///a.db?root=x", "as a root"),
        ("sqlite:///a.db?root=/", "node of its own"),
        ("memory:x", "write 'memory:'"),
        ("memory://x", "write 'memory:'"),
    ],
)
def test_a_bad_address_is_refused_with_a_useful_word(text: str, word: str) -> None:
    with pytest.raises(errors.BadStoreUriError, match=re.escape(word)):
        uri.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "zk://user:hunter2@h/ledgers",
        "http://user:hunter2@h/ledgers",
        "zk+flat://user:hunter2@h/ledgers",
        "zk://h/ledgers?auth=user:hunter2",
        "zk://h/ledgers?user:hunter2",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(errors.BadStoreUriError) as refused:
        uri.parse(text)
    assert "hunter2" not in str(refused.value)


async def test_a_store_is_opened_by_its_address(tmp_path: Path) -> None:
    for text in ("memory:?root=/x", f"sqlite://{tmp_path}/meta.db?root=/x"):
        store = await open_store(text)
        assert store.root == "/x"
        await store.create("/x")
        await store.close()


async def test_what_is_no_address_is_not_opened() -> None:
    with pytest.raises(errors.BadStoreUriError):
        await open_store("ledgers")
