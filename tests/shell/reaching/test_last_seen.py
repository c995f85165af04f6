"""The file that remembers where processes are: its format, its limits, and its end of life."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.errors import BadStoreUriError
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.shell.reaching import last_seen
from zonekeeper.shell.reaching.last_seen import KnownProcess, LastSeen, NothingSeen
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running.page_identity import ProcessKind

STORE = "zk://zk-0:2181/ledgers"
NOW = 1_700_000_000_000


def bookie(name: str, *, port: int = 8080, seen_ms: int = NOW) -> KnownProcess:
    return KnownProcess(
        kind=ProcessKind.BOOKIE,
        name=BookieId(name),
        zone=ZoneName("a"),
        upgrade_domain=UpgradeDomain("ud-0"),
        http=Address(f"{name}.bookies", port),
        address=f"{name}.bookies:3181",
        seen_ms=seen_ms,
    )


AUTO = KnownProcess(
    kind=ProcessKind.AUTORECOVERY,
    name=BookieId("auto-0"),
    zone=None,
    upgrade_domain=None,
    http=Address("[::1]", 8081),
    address=None,
    seen_ms=NOW,
)


def sight(*processes: KnownProcess, at: int = NOW, instance: str = "one") -> LastSeen:
    return LastSeen(store=STORE, instance=instance, seen_ms=at, processes=processes)


GOLDEN = (
    b'{"format":1,"instance":"one","processes":[{"address":null,"http":"[::1]:8081",'
    b'"kind":"autorecovery","name":"auto-0","seenMs":1700000000000,"upgradeDomain":null,'
    b'"zone":null},{"address":"bk-0.bookies:3181","http":"bk-0.bookies:8080","kind":"bookie",'
    b'"name":"bk-0","seenMs":1700000000000,"upgradeDomain":"ud-0","zone":"a"}],'
    b'"seenMs":1700000000000,"store":"zk://zk-0:2181/ledgers"}'
)


def test_the_bytes_stay_as_they_are() -> None:
    seen = sight(AUTO, bookie("bk-0"))
    assert last_seen.render(seen) == GOLDEN
    assert last_seen.parse(GOLDEN, STORE) == seen


def test_what_a_newer_program_adds_is_ignored() -> None:
    data = json.loads(GOLDEN)
    data["more"] = {"x": 1}
    data["processes"][1]["colour"] = "blue"
    data["processes"] += [{"kind": "ghost", "name": "g", "seenMs": 1}, 7, {"kind": "bookie"}]
    found = last_seen.parse(json.dumps(data).encode(), STORE)
    assert found == sight(AUTO, bookie("bk-0"))


@pytest.mark.parametrize("value", ["bk-0", "bk-0:0", "a b:1", "x:99999", "/:1", ""])
def test_an_endpoint_that_cannot_be_one_is_left_out(value: str) -> None:
    data = json.loads(GOLDEN)
    data["processes"][1]["http"] = value
    found = last_seen.parse(json.dumps(data).encode(), STORE)
    assert [one.http for one in found.processes] == [AUTO.http, None]


@pytest.mark.parametrize("seen_ms", [-1, last_seen.WALL_MS_END, 1.5, True, None])
def test_a_process_without_a_time_that_is_one_is_left_out(seen_ms: object) -> None:
    data = json.loads(GOLDEN)
    data["processes"][1]["seenMs"] = seen_ms
    assert last_seen.parse(json.dumps(data).encode(), STORE) == sight(AUTO)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{",
        GOLDEN[:-1],
        GOLDEN.replace(b'"format":1', b'"format":2'),
        GOLDEN.replace(b"zk-0:2181", b"zk-1:2181"),
        GOLDEN.replace(b'"seenMs":1700000000000,"store"', b'"seenMs":-1,"store"'),
        GOLDEN.replace(b'"seenMs":1700000000000,"store"', b'"seenMs":253402300800000,"store"'),
        GOLDEN + b" " * last_seen.BYTES_MAX,
        json.dumps({**json.loads(GOLDEN), "processes": {}}).encode(),
    ],
)
def test_a_damaged_or_foreign_file_says_nothing_and_is_written_anew(
    raw: bytes, tmp_path: Path
) -> None:
    with pytest.raises(UnreadableError):
        last_seen.parse(raw, STORE)
    assert last_seen.remember(tmp_path, sight(AUTO)) is None
    (file,) = tmp_path.iterdir()
    file.write_bytes(raw)
    found = last_seen.recall(tmp_path, STORE)
    assert isinstance(found, NothingSeen)
    assert str(file) in found.why

    assert last_seen.remember(tmp_path, sight(AUTO)) is None
    assert last_seen.recall(tmp_path, STORE) == sight(AUTO)


def test_only_the_owner_can_read_the_file_and_no_part_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "endpoints"
    assert last_seen.remember(folder, sight(AUTO)) is None
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_file_that_says_the_same_is_written_again_after_a_minute(tmp_path: Path) -> None:
    def kept() -> int:
        found = last_seen.recall(tmp_path, STORE)
        assert isinstance(found, LastSeen)
        return found.seen_ms

    def at(seen_ms: int, *, port: int = 8080) -> LastSeen:
        return sight(bookie("bk-0", port=port, seen_ms=seen_ms), at=seen_ms)

    last_seen.remember(tmp_path, at(NOW))
    last_seen.remember(tmp_path, at(NOW + last_seen.FRESH_MS - 1))
    assert kept() == NOW
    last_seen.remember(tmp_path, at(NOW + 1, port=9090))  # it differs
    assert kept() == NOW + 1
    last_seen.remember(tmp_path, at(NOW + 1 + last_seen.FRESH_MS, port=9090))
    assert kept() == NOW + 1 + last_seen.FRESH_MS
    last_seen.remember(tmp_path, at(NOW, port=9090))  # the clock was set back
    assert kept() == NOW


def test_a_process_that_is_gone_is_remembered_for_a_while() -> None:
    old = sight(AUTO, bookie("bk-0"), bookie("bk-1"), bookie("bk-2"))
    later = NOW + last_seen.KEPT_MS
    again = bookie("bk-0", port=9090, seen_ms=later)
    new = sight(again, at=later)
    assert last_seen.merged(old, new, {BookieId("bk-2")}) == sight(
        AUTO, again, bookie("bk-2"), at=later
    ), "bk-1 was removed"
    assert last_seen.merged(old, new, ()).processes == (AUTO, again)
    assert len(last_seen.merged(old, new).processes) == 4, "nobody says who was removed"
    much_later = replace(new, seen_ms=later + 1)
    assert last_seen.merged(old, much_later) == much_later
    assert last_seen.merged(old, replace(new, seen_ms=NOW - 1)).processes == (again,)


def test_nothing_of_another_cluster_is_kept() -> None:
    new = sight(bookie("bk-1"), instance="two")
    assert last_seen.merged(sight(bookie("bk-0")), new) == new


def test_the_file_and_the_folder_have_limits(tmp_path: Path) -> None:
    many = [bookie(f"bk-{number}", seen_ms=NOW - number) for number in range(1_001)]
    whole = last_seen.merged(NothingSeen(""), sight(*many))
    assert len(whole.processes) == last_seen.PROCESSES_MAX
    assert BookieId("bk-1000") not in {one.name for one in whole.processes}

    long = [replace(one, zone=ZoneName("z" * 250), address="h" * 290) for one in many]
    assert last_seen.remember(tmp_path, sight(*long)) is None
    found = last_seen.recall(tmp_path, STORE)
    assert isinstance(found, LastSeen)
    assert 0 < len(found.processes) < last_seen.PROCESSES_MAX
    assert found.processes[0].name == "bk-0"

    part = tmp_path / "x.json1.part"
    part.write_bytes(b"")
    os.utime(part, (0, 0))
    for number in range(last_seen.FILES_MAX + 3):
        store = f"zk://host-{number}:2181/ledgers"
        assert last_seen.remember(tmp_path, replace(sight(AUTO), store=store)) is None
    assert len(list(tmp_path.iterdir())) == last_seen.FILES_MAX
    assert not part.exists()


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    folder = tmp_path / "file" / "endpoints"
    assert str(folder) in (last_seen.remember(folder, sight(AUTO)) or "")
    assert isinstance(last_seen.recall(folder, STORE), NothingSeen)


def test_what_is_forgotten_is_gone(tmp_path: Path) -> None:
    last_seen.remember(tmp_path, sight(AUTO))
    assert last_seen.forget(tmp_path, STORE)
    assert not last_seen.forget(tmp_path, STORE)
    assert isinstance(last_seen.recall(tmp_path, STORE), NothingSeen)


def test_a_store_is_named_without_its_options() -> None:
    assert last_seen.store_name("zk://h1,h2:2182/x?auth-file=/s") == "zk://h1:2181,h2:2182/x"
    one, two = (last_seen.store_name(f"sqlite:///m.db?root=/{root}") for root in "ab")
    assert one != two
    with pytest.raises(BadStoreUriError):
        last_seen.store_name("memory:")


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/zonekeeper/endpoints"),
        ({"XDG_CACHE_HOME": "c", "HOME": "/h"}, "/h/.cache/zonekeeper/endpoints"),
        ({"HOME": "/h"}, "/h/.cache/zonekeeper/endpoints"),
        ({}, "/nonexistent/.cache/zonekeeper/endpoints"),
    ],
)
def test_the_folder_is_the_user_s_cache(environment: dict[str, str], folder: str) -> None:
    assert last_seen.cache_folder(environment) == Path(folder)
