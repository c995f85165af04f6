"""Bugs that few histories show, each in the history that shows it.

A scenario passes with the real code, and fails when its bug is planted. Some of these bugs the
simulator finds, too; a directed test says at once what is wrong. So it is with the tests of
scenarios elsewhere (``SHOWN_BY``): each has its number of docs/scenarios.md, and fails by the bug
that the scenario is about.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import pytest

from tests.bookie.running import open_fragment
from tests.client.lab import Lab, play
from tests.client.sessions import test_fences, test_recovery, test_recovery_races
from tests.client.writing import test_writer_core
from tests.simulation.mutants import MUTANTS
from tests.simulation.patching import Patch, patched
from tests.support.checkout_root import ROOT
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem, no_troubles
from zonekeeper.bookie.ledgers import admission
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.client.sessions import recovery
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.seating import Seating
from zonekeeper.client.writing.seats import Seat
from zonekeeper.metadata.formats.ledger_metadata import LedgerState
from zonekeeper.metadata.stores.memory import Passage
from zonekeeper.wire.formats import entries
from zonekeeper.wire.formats import errors as wire_errors

Scenario = Callable[[Lab], Awaitable[None]]

_LOST = wire_errors.Timeout("the request was lost")


async def three_entries(client: clients.Client) -> Writer:
    """A writer with three entries that are acknowledged, and of which all are told."""
    writer = await client.create()
    for number in range(3):
        writer.append_nowait(b"entry %d" % number)
    await writer.flush()
    await asyncio.sleep(0.2)
    return writer


async def is_fenced(writer: Writer) -> bool:
    """Does the writer learn that its ledger was taken, instead of an acknowledgement?"""
    try:
        async with asyncio.timeout(30):
            await writer.flush()
    except errors.Fenced:
        return True
    return False


async def s13_a_read_fences_where_the_fence_was_lost(lab: Lab) -> None:
    """An entry is on one bookie, whose answer is late; the other two deny it, and one of them has
    not heard the fence. The add that is on its way to it must find it fenced by that denial."""
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await three_entries(first)
        has_it, fenced, unfenced = writer.ensemble
        lab.door(fenced).holding = lab.door(unfenced).holding = True
        writer.append_nowait(b"on its way")
        await asyncio.sleep(0.1)
        lab.door(unfenced).fence_error = _LOST
        lab.door(has_it).hold_reads = asyncio.Event()
        reader = await second.open(writer.ledger_id, recover=True)
        assert reader.last_confirmed == 2
        lab.door(unfenced).release()
        await asyncio.sleep(0.1)
        assert writer.last_confirmed == 2
        lab.door(fenced).release()
        assert await is_fenced(writer)


class Heard:
    """What a writer that knows nothing of a fence is told of one append."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[wire_errors.ProtocolError | None] = asyncio.Future()

    @property
    def peer(self) -> object:
        return self

    def acked(self, numbers: Sequence[int]) -> None:
        del numbers
        self.answer.set_result(None)

    def refused(self, number: int, error: wire_errors.ProtocolError) -> None:
        del number
        self.answer.set_result(error)


async def s15_a_fence_outlives_the_power(lab: Lab) -> None:
    """All bookies were fenced, and lose power: an add must still be refused."""
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await three_entries(first)
        door = lab.door(writer.ensemble[0])
        opening, append = door.openings[0], door.appended[0]
        await second.open(writer.ledger_id, recover=True)
        await lab.machines[writer.ensemble[0]].crash()
        await lab.machines[writer.ensemble[0]].start()
        bookie, heard = lab.door(writer.ensemble[0]).bookie, Heard()
        await open_fragment(bookie, opening)
        bookie.append([append], heard)
        assert isinstance(await heard.answer, wire_errors.Fenced)


async def s16_a_ledger_that_nobody_has_seen_is_fenced(lab: Lab) -> None:
    """A recovery closes a ledger before its first add arrives anywhere."""
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        reader = await second.open(writer.ledger_id, recover=True)
        assert reader.last_confirmed == -1
        writer.append_nowait(b"too late")
        assert await is_fenced(writer)


async def s17_one_fence_of_three_is_not_enough(lab: Lab) -> None:
    """The fence reaches one bookie, and the other two can still acknowledge what comes."""
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await three_entries(first)
        for who in writer.ensemble[1:]:
            lab.door(who).fence_error = _LOST
        with pytest.raises(errors.RecoveryFailed):
            await second.open(writer.ledger_id, recover=True)
        assert (await first.metadata(writer.ledger_id)).state is LedgerState.IN_RECOVERY


async def s19_a_disk_error_denies_nothing(lab: Lab) -> None:
    """An entry that cannot be read on two bookies, while the third one is away, is not denied."""

    def fail_next_read(files: MemoryFileSystem) -> None:
        def fail_once(kind: str, name: str) -> None:
            if kind == "read":
                files.troubles = no_troubles
                raise OSError(5, "a bad sector", name)

        files.troubles = fail_once

    async with lab.client("first") as first, lab.client("second") as second:
        writer = await three_entries(first)
        writer.append_nowait(b"acknowledged")
        await writer.flush()
        writer.halt()
        await lab.machines[writer.ensemble[0]].crash()
        gate = asyncio.Event()
        for who in writer.ensemble[1:]:
            lab.door(who).hold_reads = gate
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(stays_open(second, writer))
            await asyncio.sleep(0.5)  # the fence is there; what comes now is the entries
            for who in writer.ensemble[1:]:
                fail_next_read(lab.machines[who].files)
            gate.set()


async def s50_limbo_denies_nothing(lab: Lab) -> None:
    """Two bookies came back without their data, and say so; the third one is away."""
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await three_entries(first)
        await lab.machines[writer.ensemble[0]].crash()
        for who in writer.ensemble[1:]:
            machine = lab.machines[who]
            await machine.crash()
            machine.files = MemoryFileSystem()
            await machine.start()
            await machine.doorway.bookie._settle(
                writer.ledger_id, admission.LimboWanted(in_limbo=True)
            )
        await stays_open(second, writer)


async def stays_open(client: clients.Client, writer: Writer) -> None:
    """A recovery does not close the ledger behind what was acknowledged."""
    try:
        reader = await client.open(writer.ledger_id, recover=True)
    except errors.RecoveryFailed:
        return
    last = reader.last_confirmed
    assert last >= writer.last_confirmed, f"closed at {last}, {writer.last_confirmed} was acked"


async def s23_new_ensembles_appear_with_the_end_alone(lab: Lab) -> None:
    """A recovery that replaced a bookie, and is not over, shows nothing of it."""
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await three_entries(first)
        writer.append_nowait(b"behind what was told")
        await writer.flush()
        writer.halt()
        ensemble = writer.ensemble
        lab.door(ensemble[2]).append_error = wire_errors.ReadOnly("full")
        for machine in lab.machines.values():
            machine.doorway.holding = machine.id != ensemble[2]
        async with asyncio.TaskGroup() as tasks:
            recovering = tasks.create_task(second.open(writer.ledger_id, recover=True))
            await asyncio.sleep(1)
            shown = await first.metadata(writer.ledger_id)
            for machine in lab.machines.values():
                machine.doorway.release()
        assert [fragment.ensemble for fragment in shown.fragments] == [ensemble]
        assert recovering.result().metadata.is_closed


async def s24_what_is_written_back_says_no_more_than_the_recovery_began_with(lab: Lab) -> None:
    """The tail is written back in three steps, and the next recovery must begin where this
    recovery began: what it had acknowledged is in no ensemble that is published yet."""
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await three_entries(first)
        for who in writer.ensemble[1:]:
            lab.door(who).holding = True
        for number in range(3):
            writer.append_nowait(b"on one bookie %d" % number)
            await asyncio.sleep(0.1)
        writer.halt()
        for who in writer.ensemble[1:]:
            lab.door(who).release()
        told = writer.last_confirmed
        for who in writer.ensemble:
            lab.door(who).appended.clear()
        with patched([(recovery, "WINDOW_ENTRIES", 1)]):
            reader = await second.open(writer.ledger_id, recover=True)
        assert reader.last_confirmed == 5
        written_back = [
            entries.header(packet).last_add_confirmed
            for who in writer.ensemble
            for append in lab.door(who).appended
            for _, packet in append.frame
        ]
        assert written_back
        assert set(written_back) == {told}


async def s27_nothing_is_confirmed_while_an_ensemble_changes(lab: Lab) -> None:
    """The first of two acknowledgements came from a bookie that is being replaced."""
    async with lab.client("first") as first:
        writer = await three_entries(first)
        leaves, comes, late = writer.ensemble
        lab.door(comes).holding = lab.door(late).holding = True
        writer.append_nowait(b"meanwhile")
        await asyncio.sleep(0.1)
        lab.stores[-1].weather = lambda kind: Passage(back_ms=2_000)
        lab.door(leaves).append_error = wire_errors.ReadOnly("full")
        writer.append_nowait(b"refused by who leaves")
        await asyncio.sleep(0.1)
        assert writer._session.core.changing
        lab.door(comes).release()
        await asyncio.sleep(0.1)
        assert writer.last_confirmed == 2
        lab.door(late).release()
        async with asyncio.timeout(30):
            await writer.flush()


SCENARIOS: dict[int, Scenario] = {
    1: s13_a_read_fences_where_the_fence_was_lost,
    2: s15_a_fence_outlives_the_power,
    3: s16_a_ledger_that_nobody_has_seen_is_fenced,
    4: s17_one_fence_of_three_is_not_enough,
    7: s19_a_disk_error_denies_nothing,
    8: s50_limbo_denies_nothing,
    12: s23_new_ensembles_appear_with_the_end_alone,
    14: s24_what_is_written_back_says_no_more_than_the_recovery_began_with,
    20: s27_nothing_is_confirmed_while_an_ensemble_changes,
}


#: Of tests elsewhere that play a scenario of docs/scenarios.md: the bugs that they must show.
SHOWN_BY: dict[int, Sequence[Callable[[], None]]] = {
    1: [test_recovery.test_s14_every_read_of_a_recovery_carries_the_fence],
    2: [test_fences.test_s15_a_fence_outlives_the_power_of_the_bookies_that_gave_it],
    3: [test_recovery.test_s16_a_ledger_that_no_bookie_has_seen_is_fenced_too],
    5: [
        test_recovery_races.test_s22_a_recovery_that_died_half_way_is_taken_up_by_the_next,
        test_recovery_races.test_s23_recoveries_at_once_that_choose_other_bookies_agree,
    ],
    6: [test_recovery.test_s19_a_denial_a_failure_and_a_bad_disk_are_not_an_answer],
    12: [test_recovery_races.test_s23_recoveries_at_once_that_choose_other_bookies_agree],
    13: [test_recovery_races.test_s23_recoveries_at_once_that_choose_other_bookies_agree],
    14: [test_writer_core.test_s24_a_recovery_writes_with_the_lac_that_it_started_from],
    15: [test_recovery.test_s25_an_empty_last_fragment_starts_the_recovery_before_it],
    16: [test_recovery_races.test_s22_a_recovery_that_died_half_way_is_taken_up_by_the_next],
    17: [test_writer_core.test_s02_what_is_acked_out_of_order_is_confirmed_in_order],
    19: [
        test_writer_core.test_s27_an_ack_of_the_replaced_bookie_is_void_after_the_change,
        test_writer_core.test_s28_all_replaced_positions_are_voided_before_anything_is_confirmed,
    ],
    20: [
        test_writer_core.test_s27_nothing_is_confirmed_while_the_ensemble_changes,
        test_writer_core.test_s28_all_replaced_positions_are_voided_before_anything_is_confirmed,
    ],
}
_PLAYED: Final = [(number, played) for number, tests in SHOWN_BY.items() for played in tests]
#: The scenarios of writers, readers and recoveries.
_NUMBERS: Final = range(1, 37)


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda each: each.__name__)
def test_a_scenario_holds(scenario: Scenario) -> None:
    play(scenario)


@pytest.mark.parametrize("number", SCENARIOS)
def test_a_scenario_shows_its_bug(number: int) -> None:
    assert is_shown(number)


@pytest.mark.parametrize(
    ("number", "played"), _PLAYED, ids=[f"{number}-{each.__name__}" for number, each in _PLAYED]
)
def test_a_test_of_a_scenario_fails_by_the_bug_that_it_is_about(
    number: int, played: Callable[[], None]
) -> None:
    assert fails_with(MUTANTS[number].patches(), played)


def is_shown(number: int) -> bool:
    """Does the scenario of a bug fail when it is there?"""
    return fails_with(MUTANTS[number].patches(), partial(play, SCENARIOS[number]))


def fails_with(patches: Sequence[Patch], played: Callable[[], None]) -> bool:
    """Does something fail by what it asserts, or by a ledger that cannot be, and nothing else?"""
    shown = False
    try:
        with patched(patches):
            played()
    except* (AssertionError, pytest.fail.Exception, ValueError):
        shown = True
    return shown


@pytest.mark.parametrize(
    "played",
    [
        test_writer_core.test_s05_a_late_ack_of_a_replaced_bookie_does_not_count,
        test_writer_core.test_s06_acks_of_an_earlier_membership_do_not_count,
    ],
    ids=["s05", "s06"],
)
def test_acks_of_an_earlier_term_are_seen_if_they_count(played: Callable[[], None]) -> None:
    """Whose lane it was is not looked at: an ack counts for its place in the ensemble."""
    place_of: dict[tuple[int, ev.Term], int] = {}
    opens = Seating.open

    def note(self: Seating, seat: Seat) -> list[ev.Effect]:
        effects = opens(self, seat)
        place_of[id(self), seat.term] = seat.position
        return effects

    def whoever_sits_there(self: Seating, term: ev.Term) -> Seat | None:
        return self.seats[place_of[id(self), term]]

    patches = [(Seating, "open", note), (Seating, "of", whoever_sits_there)]
    assert fails_with(patches, played)


def test_each_scenario_of_writers_and_recoveries_has_a_directed_test_of_its_number() -> None:
    named = {
        int(number)
        for folder in ("client", "bookie", "simulation", "takeover")
        for path in (ROOT / "tests" / folder).rglob("*.py")
        for name in re.findall(r"def (?:test_)?((?:s\d\d_(?:and_)?)+)", path.read_text("utf-8"))
        for number in re.findall(r"s(\d\d)", name)
    }
    assert set(_NUMBERS) <= named
