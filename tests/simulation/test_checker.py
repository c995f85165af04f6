"""The checker is checked: each bad history is refused for its reason, good ones are not."""

import dataclasses
import random

import pytest

from tests.simulation import checker, repair_rules
from tests.simulation import history as seen
from zonekeeper.metadata.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.placement.digests import Digest
from zonekeeper.placement.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.permission import RULE, Permission

LEDGER = LedgerId(7)
A, B, C, D = (BookieId(f"bk-{name}") for name in "abcd")

OPEN = LedgerMetadata(
    ensemble_size=3,
    write_quorum=3,
    ack_quorum=2,
    fragments=(Fragment(EntryId(0), (A, B, C)),),
    digest=Digest.CRC32C,
    password=b"",
)


def recorded(metadata: LedgerMetadata | None = OPEN, *, copies: int = 3) -> seen.Recorded:
    entries = 0 if metadata is None else metadata.last_entry + 1
    return seen.Recorded(ledger=LEDGER, metadata=metadata, copies=(copies,) * entries)


def closed(last: int, *, copies: int = 3, length: int = 30) -> seen.Recorded:
    state = LedgerState.CLOSED
    metadata = dataclasses.replace(OPEN, state=state, last_entry=EntryId(last), length=length)
    return recorded(metadata, copies=copies)


def appended(entry: int) -> seen.Appended:
    return seen.Appended(ledger=LEDGER, entry=EntryId(entry), value=b"value %d" % entry)


def acked(first: int, last: int, *, copies: int = 2) -> seen.Acked:
    number = last - first + 1
    return seen.Acked(
        ledger=LEDGER, first=EntryId(first), last=EntryId(last), copies=(copies,) * number
    )


def confirmed(first: int, last: int, *, copies: int = 2, handle: str = "r") -> seen.Confirmed:
    return seen.Confirmed(
        handle=handle,
        ledger=LEDGER,
        first=EntryId(first),
        last=EntryId(last),
        copies=(copies,) * (last - first + 1),
    )


def got(entry: int, value: bytes | None = None, *, wanted: int | None = None) -> seen.Got:
    return seen.Got(
        handle="r",
        ledger=LEDGER,
        wanted=EntryId(entry if wanted is None else wanted),
        entry=EntryId(entry),
        value=b"value %d" % entry if value is None else value,
    )


def denied(entry: int) -> seen.Denied:
    return seen.Denied(handle="r", ledger=LEDGER, entry=EntryId(entry))


def forced(last: int) -> seen.Forced:
    return seen.Forced(ledger=LEDGER, last=EntryId(last))


def told(last: int) -> seen.Told:
    return seen.Told(ledger=LEDGER, last=EntryId(last))


def asked() -> seen.Asked:
    return seen.Asked(handle="r", ledger=LEDGER)


def recovered(last: int) -> seen.Recovered:
    return seen.Recovered(ledger=LEDGER, last=EntryId(last))


def kept(*entries: int, confirmed: int = -1, fenced: bool = False) -> seen.Kept:
    return seen.Kept(
        bookie=A,
        ledger=LEDGER,
        entries=frozenset(map(EntryId, entries)),
        confirmed=EntryId(confirmed),
        fenced=fenced,
    )


def restart(before: seen.Kept, *after: seen.Kept) -> list[seen.Event]:
    return [seen.Crashed(kept=(before,)), seen.Restarted(bookie=A, kept=after)]


START: list[seen.Event] = [recorded(), *(appended(entry) for entry in range(4))]

BAD: dict[str, tuple[str, list[seen.Event]]] = {
    "an acked entry is behind the end": ("I1", [acked(0, 2), closed(1)]),
    "an acked entry is denied": ("I1", [acked(0, 1), denied(1)]),
    "a read entry is behind the end, and never was acked": ("I2", [got(2), closed(1)]),
    "a read entry is denied": ("I2", [got(2), denied(2)]),
    "two readers read two contents": ("I2", [got(1), got(1, b"other")]),
    "entries come in another order": ("I3", [acked(0, 3), got(0), got(2, wanted=1)]),
    "what was never written is read": ("I18", [got(1, b"garbage")]),
    "an entry that nobody appended is read": ("I18", [got(9)]),
    "an entry behind the end is acked late": ("I4", [acked(0, 1), closed(1), acked(2, 2)]),
    "the LAC of a handle falls": ("I5", [confirmed(0, 2), confirmed(3, 1)]),
    "the LAC covers an entry without copies": ("I5", [confirmed(0, 1, copies=1)]),
    "an ack jumps over an entry": ("I5", [acked(0, 0), acked(2, 2)]),
    "an entry is denied that the LAC covered": ("I5", [confirmed(0, 2), denied(2)]),
    "the end of a closed ledger moves forward": ("I6", [closed(1), closed(2)]),
    "the end of a closed ledger moves back": ("I6", [closed(2), closed(1)]),
    "the length of a closed ledger changes": ("I6", [closed(1), closed(1, length=31)]),
    "a closed ledger is open again": ("I6", [closed(1), recorded()]),
    "a ledger is gone": ("I6", [recorded(None)]),
    "two recoveries end at different entries": ("I7", [recovered(1), recovered(2)]),
    "a recovery ends elsewhere than the metadata": ("I7", [closed(1), recovered(2)]),
    "metadata ends elsewhere than it was told": ("I7", [recovered(2), closed(1)]),
    "a writer closes elsewhere than the metadata": (
        "I7",
        [closed(1), seen.ClosedByWriter(ledger=LEDGER, last=EntryId(3))],
    ),
    "an entry is committed with too few copies": ("I8", [closed(1, copies=1)]),
    "an entry behind the end is read": ("I9", [closed(1), got(2)]),
    "an entry behind the end is confirmed": ("I9", [closed(1), confirmed(0, 2)]),
    "an entry is acked on an ensemble that does not have it": ("I11", [acked(0, 1, copies=1)]),
    "an entry of no ledger is acked": ("I11", [recorded(None), acked(0, 0)]),
    "a fence is gone after a crash": ("I13", restart(kept(fenced=True), kept())),
    "a ledger is gone after a crash": ("I14", restart(kept(0, 1))),
    "an entry is gone after a crash": ("I14", restart(kept(0, 1), kept(0))),
    "a bookie's LAC falls at a crash": ("I5", restart(kept(confirmed=3), kept(confirmed=2))),
    "a force acknowledges too little": ("force", [acked(0, 1), forced(2)]),
    "a LAC that was told is not heard of": (
        "told",
        [acked(0, 2), told(2), asked(), confirmed(0, 1)],
    ),
    "a disk that was lost is not that of another bookie": (
        "I14",
        [
            seen.Crashed(kept=(kept(0, 1),)),
            seen.DiskLost(bookie=B),
            seen.Restarted(bookie=A, kept=(kept(0),)),
        ],
    ),
    "something broke": ("broke", [seen.Broke(what="an assertion")]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_refused_for_its_reason(name: str) -> None:
    rule, events = BAD[name]
    found = checker.check([*START, *events])
    assert rule in [violation.rule for violation in found]


@pytest.mark.parametrize("name", BAD)
def test_the_reason_is_not_there_without_the_last_event(name: str) -> None:
    rule, events = BAD[name]
    found = checker.check([*START, *events[:-1]])
    assert rule not in [violation.rule for violation in found]


def test_a_bookie_that_lost_its_disk_need_not_have_what_was_on_it() -> None:
    before, after = restart(kept(0, 1, confirmed=1, fenced=True), kept())
    assert checker.check([*START, before, seen.DiskLost(bookie=A), after]) == []


def test_malformed_fragments_are_refused() -> None:
    metadata = dataclasses.replace(OPEN)
    object.__setattr__(
        metadata, "fragments", (Fragment(EntryId(0), (A, B, C)), Fragment(EntryId(0), (A, B, D)))
    )
    found = checker.check([seen.Recorded(ledger=LEDGER, metadata=metadata)])
    assert [violation.rule for violation in found] == ["I10"]


@pytest.mark.parametrize("seed", range(100))
def test_a_good_history_is_accepted(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.randrange(1, 20)
    events: list[seen.Event] = [recorded(), *(appended(entry) for entry in range(size))]
    last_acked = chance.randrange(-1, size)
    if last_acked >= 0:
        events.append(acked(0, last_acked))
        last_confirmed = chance.randrange(last_acked + 1)
        events.append(confirmed(0, last_confirmed))
        events += [got(entry) for entry in range(last_confirmed + 1)]
        events += [asked(), told(last_acked), confirmed(last_confirmed + 1, last_confirmed)]
        events += [forced(last_acked), asked(), confirmed(last_confirmed + 1, last_acked)]
        events += restart(kept(0, confirmed=0, fenced=True), kept(0, 1, confirmed=2, fenced=True))
    end = chance.randrange(last_acked, size)
    events += [closed(end), recovered(end), recovered(end)]
    events += [got(entry) for entry in range(end + 1)]
    assert checker.check(events) == []


def moved(**facts: int) -> seen.Moved:
    usual = {"held_ms": 0, "lacking": 0, "zones_before": 2, "zones_after": 3, "there_ms": 0}
    return seen.Moved(ledger=LEDGER, bookies=(A,), **{**usual, **facts})


def copied(held_ms: int = 0, failing_ms: int = 0, carriers: int = 2) -> seen.Copied:
    return seen.Copied(
        ledger=LEDGER,
        bookie=A,
        zones=("b",),
        size_bytes=100,
        held_ms=held_ms,
        failing_ms=failing_ms,
        carriers=carriers,
    )


def permitted(after: Permission, by: str, failing_ms: int, held_ms: int = 0) -> seen.Permitted:
    before = Permission.HELD
    return seen.Permitted(
        zone="b", before=before, after=after, by=by, failing_ms=failing_ms, held_ms=held_ms
    )


_LATE_MS = repair_rules.HELD_IS_KNOWN_MS + 1


@pytest.mark.parametrize(
    ("event", "rule"),
    [
        (moved(held_ms=_LATE_MS), "I20"),
        (moved(lacking=1), "I8"),
        (moved(zones_before=3, zones_after=2), "I16"),
        (moved(zones_before=3, there_ms=_LATE_MS), "I23"),
        (copied(held_ms=_LATE_MS), "I20"),
        (copied(failing_ms=repair_rules.FAILING_IS_KNOWN_MS + 1), "I20"),
        (permitted(Permission.OPEN, "zone watch", _LATE_MS), "I22"),
        (permitted(Permission.RELEASED, RULE, 0, held_ms=100), "I22"),
        (seen.Waited(what="repair", who=A, for_ms=100_000), "I21"),
    ],
)
def test_a_repair_that_breaks_a_promise_is_reported(event: seen.Event, rule: str) -> None:
    assert [violation.rule for violation in checker.check([event])] == [rule]


@pytest.mark.parametrize(
    "event",
    [
        moved(held_ms=_LATE_MS - 1),
        copied(held_ms=_LATE_MS, carriers=1),
        permitted(Permission.OPEN, "zone watch", 0),
        permitted(Permission.RELEASED, "a person", _LATE_MS),
        seen.Waited(what="repair", who=A, for_ms=1_000),
    ],
)
def test_a_repair_that_keeps_its_promises_is_not_reported(event: seen.Event) -> None:
    assert checker.check([event]) == []
