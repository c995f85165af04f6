"""What a bookie counts of itself, and shows."""

import json
from contextlib import aclosing
from http import HTTPStatus

import pytest

from tests.bookie.running import (
    KEY,
    LEDGER,
    OTHER_KEY,
    Outcomes,
    frame,
    lac_packet,
    open_fragment,
    opening,
)
from tests.bookie.running import running as running_bookie
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.life.life import Conditions
from zonekeeper.bookie.life.pages import PagesView
from zonekeeper.bookie.serving.measuring import OK, MeasuredBookie, Measures
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.running import page_identity
from zonekeeper.wire.running.looking import Page
from zonekeeper.wire.running.page_identity import ProcessIdentity, ProcessKind


def count_of(measures: Measures, operation: str) -> int:
    return measures.seconds[operation].samples()[0][-1]


async def test_appends_are_counted_when_their_outcome_is_told() -> None:
    async with running_bookie(MemoryFileSystem()) as bookie:
        measures = Measures()
        measured = MeasuredBookie(bookie, measures)
        heard = Outcomes()
        await open_fragment(measured, opening())
        sent = [frame(0, 1), frame(2), frame(2, data=b"other")]

        measured.append(
            [
                *(carriers.Append(number=n, frame=each) for n, each in enumerate(sent)),
                carriers.WriteLac(number=3, ledger_id=LEDGER, packet=lac_packet(1)),
            ],
            heard,
        )
        assert measures.appended_entries == 0
        outcomes = [await heard.of(number) for number in range(4)]

        assert [type(outcome) for outcome in outcomes] == [
            type(None),
            type(None),
            errors.EntryMismatch,
            type(None),
        ]
        assert measures.outcomes == {
            ("open", OK): 1,
            ("append", OK): 2,
            ("append", "EntryMismatch"): 1,
            ("write-lac", OK): 1,
        }
        assert measures.appended_entries == 3
        assert measures.appended_bytes == sent[0].size_bytes + sent[1].size_bytes
        assert count_of(measures, "append") == 3


async def test_reads_and_refusals_are_counted_by_their_outcome() -> None:
    async with running_bookie(MemoryFileSystem()) as bookie:
        measures = Measures()
        measured = MeasuredBookie(bookie, measures)
        heard = Outcomes()
        await open_fragment(measured, opening())
        measured.append([carriers.Append(number=0, frame=frame(0, 1, lac=0))], heard)
        await heard.of(0)
        request = service.ReadRequest(
            ledger_id=LEDGER, first_entry_id=EntryId(0), last_entry_id=EntryId(9), bytes_max=99
        )

        await measured.read(request)
        async with aclosing(
            measured.tail(
                service.TailRequest(
                    ledger_id=LEDGER, first_entry_id=EntryId(0), bytes_max=1, quiet_ms=50
                )
            )
        ) as updates:
            assert len((await anext(updates)).frames) == 1
        with pytest.raises(errors.UnauthorizedAccess):
            await measured.fence(LEDGER, OTHER_KEY)
        await measured.fence(LEDGER, KEY)
        await measured.read_lac(LEDGER)
        await measured.force(LEDGER)

        assert measures.read_entries == 2 + 1
        assert measures.outcomes["fence", OK] == 1
        assert measures.outcomes["fence", "UnauthorizedAccess"] == 1
        assert {name for name, _ in measures.outcomes} == {
            "open",
            "append",
            "read",
            "fence",
            "read-lac",
            "force",
        }


def test_a_bookie_that_comes_up_shows_what_is_missing() -> None:
    view = PagesView("bk-a-0", "1", Conditions("storage", "serving"), Measures())
    pages = view.pages()

    assert pages["/healthz"]().status is HTTPStatus.OK
    assert pages["/readyz"]().status is HTTPStatus.SERVICE_UNAVAILABLE
    assert (
        'zonekeeper_bookie_info{bookie="bk-a-0",version="1",zone=""} 1\n'
        in pages["/metrics"]().text
    )
    assert "zonekeeper_bookie_ready 0\n" in pages["/metrics"]().text
    shown = json.loads(pages["/state"]().text)
    assert shown["notReady"] == {"serving": "not yet", "storage": "not yet"}
    mine = ProcessIdentity(kind=ProcessKind.BOOKIE, name=BookieId("bk-a-0"))
    assert page_identity.of_state(shown) == mine


def test_a_remark_is_shown_and_takes_no_readiness() -> None:
    conditions = Conditions("storage")
    pages = PagesView("bk-a-0", "1", conditions, Measures()).pages()
    conditions.remark("zone", "not named")
    assert pages["/readyz"]() == Page(
        "storage: not yet\nzone: not named\n", HTTPStatus.SERVICE_UNAVAILABLE
    )

    conditions.met("storage")

    assert pages["/readyz"]() == Page("ready\nzone: not named\n")
    assert "zonekeeper_bookie_ready 1\n" in pages["/metrics"]().text
    shown = json.loads(pages["/state"]().text)
    assert (shown["notReady"], shown["remarks"]) == ({}, {"zone": "not named"})
    conditions.remark("zone", None)
    assert pages["/readyz"]() == Page("ready\n")
