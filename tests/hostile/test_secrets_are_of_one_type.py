"""Each secret is a ``Secret`` from the place on where it is read or made."""

from base64 import b64encode
from pathlib import Path

import pytest

from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.formats import ledger_format
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.stores import credentials, uri
from zonekeeper.operator.certificates import secret_data
from zonekeeper.pipeline.base.connection_options import ConnectionOptions
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.hidden import Secret
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.shell.commands import ledger_options
from zonekeeper.shell.logs.log_access import LogAccess
from zonekeeper.wire.formats import digests
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.signing import pem
from zonekeeper.wire.signing.values import Validity

WORD = b"open sesame"
A_DAY = Validity(not_before_ms=0, not_after_ms=86_400_000)


def metadata() -> LedgerMetadata:
    return LedgerMetadata(
        ensemble_size=1,
        write_quorum=1,
        ack_quorum=1,
        fragments=(Fragment(EntryId(0), (BookieId("bk-a-0"),)),),
        digest=Digest.HMAC,
        password=WORD,
    )


def is_hidden(found: bytes) -> bool:
    return isinstance(found, Secret) and "sesame" not in f"{found}{found!r}"


def test_in_the_settings_of_a_client_and_in_the_metadata_of_a_ledger() -> None:
    read = ledger_format.parse(ledger_format.render(metadata()))
    assert read == metadata()
    for found in (ClientConfig(password=WORD).password, metadata().password, read.password):
        assert found == WORD
        assert is_hidden(found)
    assert is_hidden(ClientConfig().password)
    assert is_hidden(LogAccess().password)


def test_the_keys_that_are_made_of_a_password() -> None:
    assert type(digests.master_key(WORD)) is MasterKey
    assert isinstance(digests.master_key(WORD), Secret)
    held = vars(digests.digester(Digest.HMAC, WORD))
    assert [isinstance(each, Secret) for each in held.values()] == [True]


def test_where_a_command_or_an_executor_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_bytes(WORD + b"\n")
    assert ledger_options.password(file) == WORD
    assert is_hidden(ledger_options.password(file))
    monkeypatch.setenv(ledger_options.PASSWORD_VARIABLE, "open sesame")
    assert is_hidden(ledger_options.password(None))
    there = ConnectionOptions(metadata="zk://h", password_file=str(file))
    assert is_hidden(there.config().password)


def test_private_keys_and_what_a_secret_of_kubernetes_holds() -> None:
    _, key = pem.made_authority("log", A_DAY)
    assert key.startswith(b"-----BEGIN PRIVATE KEY-----")
    assert is_hidden(key)
    item = {"data": {"tls.key": b64encode(key).decode()}}
    assert secret_data.value(item, "tls.key") == key
    assert is_hidden(secret_data.value(item, "tls.key"))
    for spoilt in ({}, {"data": None}, {"data": {"tls.key": "!"}}):
        assert is_hidden(secret_data.value(spoilt, "tls.key"))


def test_what_a_process_proves_to_zookeeper(tmp_path: Path) -> None:
    file, own = tmp_path / "auth", tmp_path / "own"
    file.write_bytes(b"bookie:" + WORD + b"\n" + b"before:" + WORD + b"\n")
    address = uri.parse(f"zk://h:2181/ledgers?auth-file={file}&own-file={own}")
    assert isinstance(address, uri.ZooKeeperAddress)
    known = credentials.read(address)
    assert known.secrets[:2] == (b"bookie:" + WORD, b"before:" + WORD)
    assert len(known.secrets) == 3
    for secret in known.secrets:
        assert is_hidden(secret)
    assert "sesame" not in repr(known)
