"""The options of export, import and mirror: all faults at once, in the words of their place."""

from collections.abc import Callable

import pytest

from zonekeeper.pipeline.base import connection_options
from zonekeeper.pipeline.base.option_texts import OptionTexts
from zonekeeper.pipeline.planning import copy_options, job_options
from zonekeeper.pipeline.reading.wanted import AtSequence, AtTime, OneLog
from zonekeeper.placement.base.fields import InvalidFieldsError

LOG = {"metadata": "zk://host:2181/ledgers", "log": "orders/eu"}
EXPORT = {**LOG, "output": "/x/orders.parquet"}
MIRROR = {**LOG, "checkpoint": "/c", "to-log": "orders/copy"}
TLS = {"tls-authority": "/a", "tls-certificate": "/c", "tls-key": "/k"}


def faults(parse: Callable[..., object], given: dict[str, str]) -> list[str]:
    with pytest.raises(InvalidFieldsError) as error:
        parse(given, job_options.of_python)
    return str(error.value).splitlines()


def test_an_export_is_of_the_whole_log_or_of_a_range() -> None:
    found = copy_options.parse_export(EXPORT)
    assert found.log == OneLog(name="orders/eu")
    assert (found.output, found.connection.tls) == ("/x/orders.parquet", None)
    given = {"first": "sequence:7", "last": "1970-01-01T00:00:01Z", "password-file": "/p"}
    found = copy_options.parse_export({**EXPORT, **given, "output": "/x/o.parquet/"})
    assert found.log == OneLog(name="orders/eu", first=AtSequence(7), last=AtTime(1_000))
    assert (found.output, found.connection.password_file) == ("/x/o.parquet", "/p")


def test_all_faults_are_named_at_once_as_their_place_spells_them() -> None:
    wrong = {
        "metadata": "zk//x",
        "log": "no name",
        "first": "7",
        "last": "earliest",
        "output": "/x/rows.csv",
        "tls-key": "/k",
        "password-file": " ",
        "rate": "7",
    }
    told = "\n".join(faults(copy_options.parse_export, wrong))
    for part in (
        "metadata: ",
        "log: ",
        "first: ",
        "last: ",
        "output: ",
        "tls_authority: not given",
        "password_file: empty",
        "rate: unknown",
    ):
        assert f"\n{part}" in f"\n{told}"
    with pytest.raises(InvalidFieldsError, match="--output: not given"):
        copy_options.parse_export(LOG)
    for path in (".parquet", "/x/.parquet"):
        assert len(faults(copy_options.parse_export, {**LOG, "output": path})) == 1


@pytest.mark.parametrize(
    ("parse", "needed"),
    [
        (copy_options.parse_export, ["log", "metadata", "output"]),
        (copy_options.parse_import, ["input", "log", "metadata"]),
        (copy_options.parse_mirror, ["checkpoint", "log", "metadata"]),
    ],
)
def test_what_is_needed_is_asked_for(parse: Callable[..., object], needed: list[str]) -> None:
    told = faults(parse, {})
    assert sorted(line.split(": not given: ")[0] for line in told) == needed


def test_an_import_has_the_folder_of_an_export() -> None:
    found = copy_options.parse_import({**LOG, "input": "/x/orders.parquet/"})
    assert (found.log, found.source) == ("orders/eu", "/x/orders.parquet")


def test_a_mirror_writes_into_another_log_or_another_cluster() -> None:
    found = copy_options.parse_mirror(MIRROR)
    assert (found.of, found.to, found.to_log) == (found.of, found.of, "orders/copy")
    assert (found.create, found.until_now, found.every_s) == (False, False, 10)
    to = {"to-metadata": "zk://other:2181/ledgers", "create": "yes", "every": "3"}
    to |= {f"to-{name}": f"/to{text}" for name, text in TLS.items()}
    given = {**LOG, **TLS, **to, "checkpoint": "/c", "to-password-file": "/to/p"}
    found = copy_options.parse_mirror(given)
    assert (found.to_log, found.create, found.every_s) == ("orders/eu", True, 3)
    assert found.of.tls is not None
    assert found.to.tls is not None
    assert (str(found.of.tls.key), str(found.to.tls.key)) == ("/k", "/to/k")
    assert (found.of.password_file, found.to.password_file) == (None, "/to/p")
    assert found.to.metadata == "zk://other:2181/ledgers"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"to-log": "orders/eu"}, "to_log: orders/eu: is the log that is followed"),
        ({"until-now": "maybe"}, 'until_now: "maybe": must be yes or no'),
        ({"create": "1"}, 'create: "1": must be yes or no'),
        ({"every": "0"}, 'every: "0": must be a whole number'),
        ({"every": "5", "until-now": "yes"}, "every: 5: is for a mirror that goes on"),
        ({"to-tls-key": "/k"}, "to_tls_authority: not given"),
        ({"to-metadata": "x"}, 'to_metadata: "x": cannot be used'),
        ({"to-log": "no name"}, "to_log: "),
    ],
)
def test_a_mirror_that_cannot_be_is_one_fault(given: dict[str, str], told: str) -> None:
    (line,) = faults(copy_options.parse_mirror, {**MIRROR, **given})
    assert line.startswith(told)


def test_the_source_and_the_sink_of_spark_read_the_same_connection() -> None:
    found = copy_options.parse_import({**LOG, **TLS, "password-file": "/p", "input": "/x"})
    given = copy_options.for_spark(found.connection)
    texts = OptionTexts(given, connection_options.SETTINGS)
    assert connection_options.given(texts) == found.connection
    assert copy_options.for_spark(copy_options.parse_mirror(MIRROR).of) == {
        "metadata": LOG["metadata"]
    }
