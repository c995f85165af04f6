"""The rows of the placement audit: one a fragment, with what is known of it."""

import dataclasses
import random
from collections.abc import Mapping

from tests.pipeline.reports.test_fragment_losses import topology
from tests.replication.decisions.test_what_if import RULES, ledger
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.pipeline.reports import fragment_rows
from zonekeeper.pipeline.reports.fragment_rows import FragmentRows
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

NAMES = [
    *("ledger", "fragment", "last", "state", "ensemble", "write", "ack", "bytes", "bookies"),
    *("level", "reasons", "can_be_bettered", "undecided", "harm", "unwritable", "losses", "error"),
]


def rows(metadata: LedgerMetadata) -> list[Mapping[str, object]]:
    made = FragmentRows(topology(), RULES, random.Random(1))
    return [dict(zip(NAMES, row, strict=True)) for row in made.of_ledger(LedgerId(7), metadata)]


def losses_of(row: Mapping[str, object]) -> list[object]:
    losses = row["losses"]
    assert isinstance(losses, list)
    return losses


def two_fragments(*, closed: bool) -> LedgerMetadata:
    one = ledger("a-0", "b-0", "c-0", closed=closed)
    second = Fragment(EntryId(4), (BookieId("a-0"), BookieId("a-1"), BookieId("a-2")))
    fragments = (*one.fragments, second)
    return dataclasses.replace(one, fragments=fragments, length=1_000 if closed else 0)


def test_the_columns_are_those_of_the_rows() -> None:
    parts = fragment_rows.COLUMNS.replace("<kind:string,name:string,harm:string,", "<").split(", ")
    assert [part.split()[0] for part in parts] == NAMES


def test_each_fragment_of_a_closed_ledger_is_a_row() -> None:
    first, second = rows(two_fragments(closed=True))
    assert [first[name] for name in NAMES[:9]] == [
        *(7, 0, 3, "CLOSED", 3, 3, 2, 400, ["a-0", "b-0", "c-0"])
    ]
    assert (first["level"], first["reasons"], first["can_be_bettered"]) == ("STRICT", [], False)
    assert (first["harm"], first["unwritable"], first["error"]) == ("safe", False, None)
    assert ("zone", "a", "safe", False) in losses_of(first)
    assert (second["fragment"], second["last"], second["bytes"]) == (4, 9, 600)
    assert (second["level"], second["can_be_bettered"]) == ("FAIL", True)
    assert "in 1 zone (a), 2 are required" in str(second["reasons"])
    assert ("zone", "a", "unreadable", False) in losses_of(second)


def test_a_fragment_that_may_grow_is_judged_and_not_to_be_moved() -> None:
    _, growing = rows(two_fragments(closed=False))
    assert (growing["last"], growing["bytes"], growing["state"]) == (None, None, "OPEN")
    assert (growing["level"], growing["can_be_bettered"], growing["undecided"]) == (
        *("FAIL", None, None),
    )
    assert ("zone", "a", "unreadable", True) in losses_of(growing)


def test_a_fragment_without_entries_loses_nothing_and_is_not_to_be_moved() -> None:
    (empty,) = rows(ledger("a-0", "a-1", "a-2", last=-1))
    assert (empty["last"], empty["bytes"], empty["can_be_bettered"]) == (-1, 0, None)
    assert ("zone", "a", "safe", False) in losses_of(empty)


def test_a_ledger_that_cannot_be_read_is_a_row_that_says_so_in_one_line() -> None:
    row = fragment_rows.of_unreadable(LedgerId(7), ValueError("two\nlines"))
    found = dict(zip(NAMES, row, strict=True))
    assert found.pop("ledger") == 7
    assert found.pop("error") == "two lines"
    assert set(found.values()) == {None}
