"""Options of the sink: what Spark adds is taken, what would do nothing is refused."""

import pytest

from zonekeeper.pipeline.sink import sink_options
from zonekeeper.placement.base.fields import InvalidFieldsError

GIVEN = {"metadata": "zk://host:2181/ledgers", "log": "orders/eu"}


def said(**given: str) -> str:
    with pytest.raises(InvalidFieldsError) as refused:
        sink_options.parse(given)
    return str(refused.value)


def test_the_options_of_a_connection_are_those_of_the_source() -> None:
    found = sink_options.parse(
        {**GIVEN, "passwordfile": "/a", "zone": "b", "checkpointlocation": "/c", "queryName": "d"}
    )

    assert (found.log, found.connection.metadata) == ("orders/eu", GIVEN["metadata"])
    assert (found.connection.password_file, found.connection.zone) == ("/a", "b")


def test_all_faults_are_named_at_once() -> None:
    found = said(**{"from": "latest", "path": "/p", "password": "secret-word"})
    for fault in ("metadata", "log", "from", "path", "password"):
        assert fault in found
    assert "secret-word" not in found
    assert "is no name of a log" in said(metadata=GIVEN["metadata"], log="../x")


def test_overwrite_is_refused_in_words() -> None:
    text = str(sink_options.refuse_overwrite("orders/eu"))
    assert "log orders/eu is only appended to" in text
    assert '.mode("append")' in text
