"""What is told as options is read exactly, and what is wrong is named, all of it at once."""

import pickle
from pathlib import Path

import pytest

from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.pipeline.base.connection_options import ConnectionOptions
from zonekeeper.pipeline.reading import options
from zonekeeper.pipeline.reading.options import ReadOptions
from zonekeeper.pipeline.reading.wanted import (
    AtSequence,
    LedgersInRange,
    LedgersWith,
    OneLedger,
    OneLog,
    OnTrimmed,
    ReadEdge,
)
from zonekeeper.placement.base.fields import InvalidFieldsError
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.grpc.tls import TlsFiles

URI = "sqlite:///srv/meta.db"
CONNECTION = ConnectionOptions(metadata=URI)


def problems(**given: str) -> list[str]:
    with pytest.raises(InvalidFieldsError) as refused:
        options.parse(given)
    return str(refused.value).splitlines()


def test_a_ledger_of_a_cluster_is_enough() -> None:
    assert options.parse({"metadata": URI, "ledger": "7"}) == ReadOptions(
        connection=CONNECTION, wanted=OneLedger(ledger=LedgerId(7))
    )


def test_all_of_a_ledger_can_be_told_in_any_case() -> None:
    read = options.parse(
        {
            "METADATA": URI,
            "Ledger": "9223372036854775807",
            "first": "0",
            "last": "007",
            "passwordfile": "/secrets/password",
            "tlsAuthority": "/tls/ca.pem",
            "tlsCertificate": "/tls/tls.crt",
            "TLSKEY": "/tls/tls.key",
            "zone": "a",
            "partitions": "10000",
            "rowsperbatch": "1",
        }
    )

    assert read == ReadOptions(
        connection=ConnectionOptions(
            metadata=URI,
            password_file="/secrets/password",
            tls=TlsFiles(
                authority=Path("/tls/ca.pem"),
                certificate=Path("/tls/tls.crt"),
                key=Path("/tls/tls.key"),
            ),
            zone="a",
        ),
        wanted=OneLedger(ledger=LedgerId((1 << 63) - 1), first=0, last=7),
        partitions=10_000,
        rows_per_batch=1,
    )
    assert pickle.loads(pickle.dumps(read)) == read


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("7-900", LedgersInRange(first=LedgerId(7), last=LedgerId(900))),
        ("7-7", LedgersInRange(first=LedgerId(7), last=LedgerId(7))),
        ("job=etl-7", LedgersWith(key="job", value=b"etl-7")),
        ("job=", LedgersWith(key="job", value=b"")),
        ("a=b=c", LedgersWith(key="a", value=b"b=c")),
    ],
)
def test_several_ledgers_are_a_range_or_those_with_custom_metadata(
    text: str, wanted: LedgersInRange | LedgersWith
) -> None:
    assert options.parse({"metadata": URI, "ledgers": text}).wanted == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("900-7", "is no range of ids"),
        ("0-9223372036854775808", "is no range of ids"),
        ("7", "give ledger 7"),
        ("", "is neither a range nor key=value; write 7-900"),
        ("=x", "is neither a range nor key=value"),
        ("7-", "is neither a range nor key=value"),
    ],
)
def test_other_texts_for_several_ledgers_are_refused(text: str, said: str) -> None:
    (problem,) = problems(metadata=URI, ledgers=text)

    assert problem.startswith("ledgers: ")
    assert said in problem


def test_all_of_a_log_can_be_told() -> None:
    read = options.parse(
        {
            "metadata": URI,
            "log": "orders/eu-1",
            "from": "17:204:3",
            "to": "sequence:900",
            "cursor": "billing",
            "onTrimmed": "Earliest",
            "maxRowsPerTrigger": "5",
            "maxBytesPerTrigger": "6",
        }
    )

    assert read.wanted == OneLog(
        name="orders/eu-1",
        first=MessageId(LedgerId(17), EntryId(204), 3),
        last=AtSequence(900),
        cursor="billing",
        on_trimmed=OnTrimmed.EARLIEST,
        max_rows=5,
        max_bytes=6,
    )
    assert options.parse({"metadata": URI, "log": "x", "from": "latest"}).wanted == OneLog(
        name="x", first=ReadEdge.LATEST
    )


@pytest.mark.parametrize(
    ("first", "last", "is_wrong"),
    [
        ("sequence:5", "sequence:4", True),
        ("sequence:5", "sequence:5", False),
        ("17:3:0", "17:2:9", True),
        ("17:3:0", "17:3:0", False),
        ("1970-01-02", "1970-01-01", True),
        ("1970-01-01", "1970-01-01", False),
        ("sequence:5", "17:3:0", False),
        ("17:3:0", "1970-01-01", False),
        ("latest", "sequence:4", False),
    ],
)
def test_a_span_of_a_log_does_not_go_backwards(first: str, last: str, *, is_wrong: bool) -> None:
    given = {"metadata": URI, "log": "x", "from": first, "to": last}
    if not is_wrong:
        assert isinstance(options.parse(given).wanted, OneLog)
        return
    (said,) = problems(**given)
    assert said.startswith("to: ")
    assert "stands before from" in said


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("log", "no such//name", "log: "),
        ("from", "204", "write sequence:204"),
        ("to", "earliest", "write latest"),
        ("cursor", "a/b", "is no name of a cursor"),
        ("onTrimmed", "skip", "must be fail or earliest"),
        ("maxRowsPerTrigger", "0", "must be a whole number from 1"),
        ("maxBytesPerTrigger", "x", "must be a whole number from 1"),
    ],
)
def test_what_is_wrong_with_a_log_is_named(name: str, text: str, said: str) -> None:
    (problem,) = problems(**{"metadata": URI, "log": "orders", name: text})

    assert problem.startswith(f"{name}: ")
    assert said in problem


def test_exactly_one_thing_is_read() -> None:
    assert problems(metadata=URI, ledger="7", log="x") == [
        "ledger, ledgers or log: ledger and log: exactly one is required; write "
        '.option("ledger", 7), .option("ledgers", "7-900") or .option("log", "orders/eu")'
    ]
    assert len(problems(metadata=URI, ledger="7", ledgers="7-9", log="x")) == 1


@pytest.mark.parametrize(
    ("kind", "value", "name", "text", "fix"),
    [
        ("log", "x", "first", "1", "leave it out; log has from, to, cursor"),
        ("ledger", "7", "from", "earliest", "leave it out; ledger has first, last"),
        ("ledgers", "7-9", "last", "1", "; leave it out"),
        ("ledger", "7", "cursor", "c", "is an option of a log, not of ledger"),
    ],
)
def test_an_option_of_another_kind_is_refused(
    kind: str, value: str, name: str, text: str, fix: str
) -> None:
    (said,) = problems(**{"metadata": URI, kind: value, name: text})

    assert said.startswith(f"{name}: given: ")
    assert fix in said


def test_what_only_a_stream_has_is_refused_for_a_frame() -> None:
    given = {
        "metadata": URI,
        "log": "x",
        "cursor": "c",
        "onTrimmed": "earliest",
        "maxRowsPerTrigger": "1",
        "maxBytesPerTrigger": "1",
    }
    with pytest.raises(InvalidFieldsError) as refused:
        options.check_batch(options.parse(given))

    said = str(refused.value).splitlines()
    assert [line.partition(":")[0] for line in said] == [*given][2:]
    assert all("is an option of a stream" in line for line in said)
    options.check_batch(options.parse({"metadata": URI, "log": "x"}))
    options.check_batch(options.parse({"metadata": URI, "ledger": "7"}))


def test_everything_that_is_missing_is_named_with_an_example() -> None:
    assert problems() == [
        'metadata: not given: is required; write .option("metadata", "zk://host:2181/ledgers")',
        "ledger, ledgers or log: not given: exactly one is required; write "
        '.option("ledger", 7), .option("ledgers", "7-900") or .option("log", "orders/eu")',
        "a table in SQL: no option at all: keeps its OPTIONS only if it is created without "
        "columns; write CREATE TABLE t USING zonekeeper OPTIONS (...), or name them in the query: "
        "SELECT ... FROM t WITH (metadata = '...', ledger = 7)",
    ]
    assert len(problems(metadata=URI)) == 1


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("ledger", 0, (1 << 63) - 1),
        ("first", 0, (1 << 63) - 1),
        ("last", 0, (1 << 63) - 1),
        ("partitions", 1, 10_000),
        ("rowsPerBatch", 1, 100_000),
    ],
)
@pytest.mark.parametrize("text", ["-1", "", "1.5", "1e3", " 1", "٣", "true", "9" * 5_000])
def test_what_is_no_number_in_the_range_is_refused(
    name: str, least: int, most: int, text: str
) -> None:
    given = {"metadata": URI, "ledger": "7", name: text}

    (said,) = problems(**given)

    assert said.startswith(f"{name}: ")
    assert f"must be a whole number from {least} to {most}" in said
    for good in (least, most):
        options.parse({**given, name: str(good)})
    for bad in (least - 1, most + 1):
        problems(**{**given, name: str(bad)})


def test_a_range_does_not_go_backwards() -> None:
    assert problems(metadata=URI, ledger="7", first="5", last="4") == [
        "last: 4: must not be below first, which is 5; give the larger one as last"
    ]
    wanted = options.parse({"metadata": URI, "ledger": "7", "first": "5", "last": "5"}).wanted
    assert wanted == OneLedger(ledger=LedgerId(7), first=5, last=5)


def test_an_address_that_is_none_is_refused_without_showing_what_may_be_secret() -> None:
    (said,) = problems(metadata="zk://user:secret@host/ledgers", ledger="7")

    assert said.startswith("metadata: cannot be used: a store address holds no user or password")
    assert "secret" not in said


def test_an_option_that_there_is_not_is_refused_with_the_nearest_that_there_is() -> None:
    assert problems(metadata=URI, ledgr="7", path="/x") == [
        "ledgr: unknown: is no option of zonekeeper; did you mean ledger?",
        "path: unknown: is no option of zonekeeper; there are "
        + ", ".join(setting.name for setting in options.SETTINGS),
        "ledger, ledgers or log: not given: exactly one is required; write "
        '.option("ledger", 7), .option("ledgers", "7-900") or .option("log", "orders/eu")',
    ]


@pytest.mark.parametrize("name", ["password", "PassWord"])
def test_a_password_is_no_option_and_is_not_shown(name: str) -> None:
    (said,) = problems(metadata=URI, ledger="7", **{name: "sesame"})

    assert said.startswith(f"{name}: not shown: is no option of zonekeeper; ")
    assert "give the file's name as passwordFile" in said
    assert "sesame" not in said
