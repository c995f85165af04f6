"""The checker is checked: each bad history is refused for its reason, good ones are not."""

import dataclasses
import random
from collections.abc import Sequence

import pytest

from tests.simulation import checker
from tests.simulation import history as seen
from tests.simulation.test_repair_rules import BAD_REPAIRS
from tests.support.checkout_root import ROOT
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

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


#: Ensembles behind the first one, each with its first entry.
Later = Sequence[tuple[int, tuple[BookieId, ...]]]


def ledger(first: tuple[BookieId, ...] = (A, B, C), later: Later = ()) -> LedgerMetadata:
    fragments = [(0, first), *later]
    return dataclasses.replace(
        OPEN, fragments=tuple(Fragment(EntryId(entry), ensemble) for entry, ensemble in fragments)
    )


def recorded(metadata: LedgerMetadata | None = OPEN, *, copies: int = 3) -> seen.Recorded:
    counted = 0
    if metadata is not None:
        begun = metadata.last_fragment.first_entry
        counted = metadata.last_entry + 1 if metadata.is_closed else begun
    return seen.Recorded(ledger=LEDGER, metadata=metadata, copies=(copies,) * counted)


def deleted(last: int) -> list[seen.Event]:
    gone = seen.Recorded(ledger=LEDGER, metadata=None, copies=())
    return [seen.Deleted(ledger=LEDGER, last=EntryId(last)), gone]


def closed(
    last: int, *, copies: int = 3, length: int = 30, of: LedgerMetadata = OPEN
) -> seen.Recorded:
    state = LedgerState.CLOSED
    metadata = dataclasses.replace(of, state=state, last_entry=EntryId(last), length=length)
    return recorded(metadata, copies=copies)


def in_recovery(of: LedgerMetadata = OPEN) -> seen.Recorded:
    return recorded(dataclasses.replace(of, state=LedgerState.IN_RECOVERY))


def unchecked(*fragments: Fragment) -> LedgerMetadata:
    """Fragments that the product's own checks would refuse."""
    metadata = dataclasses.replace(OPEN)
    object.__setattr__(metadata, "fragments", fragments)
    return metadata


LABEL = ("written by", b"w")
LABELLED = dataclasses.replace(OPEN, custom=(LABEL,))


def created(
    password: bytes = b"",
    digest: Digest = Digest.CRC32C,
    custom: tuple[tuple[str, bytes], ...] = (),
) -> seen.Created:
    return seen.Created(ledger=LEDGER, password=password, digest=digest, custom=custom)


def ended(following: int, last: int | None) -> seen.Ended:
    end = None if last is None else EntryId(last)
    return seen.Ended(handle="r", ledger=LEDGER, following=EntryId(following), last=end)


def glimpsed(entry: int, value: bytes, *, wanted: int | None = None) -> seen.Glimpsed:
    return seen.Glimpsed(
        handle="r",
        ledger=LEDGER,
        wanted=EntryId(entry if wanted is None else wanted),
        entry=EntryId(entry),
        value=value,
    )


def failed(error: str, *, retryable: bool = False, ledger: LedgerId = LEDGER) -> seen.Failed:
    return seen.Failed(who="r", ledger=ledger, error=error, retryable=retryable)


def disowned(entry: int) -> seen.Disowned:
    return seen.Disowned(bookie=A, ledger=LEDGER, entries=(EntryId(entry),))


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


def lived(before: seen.Kept, after: seen.Kept) -> list[seen.Event]:
    return [seen.Restarted(bookie=A, kept=(before,)), seen.Looked(kept=(after,))]


def restart(before: seen.Kept, *after: seen.Kept) -> list[seen.Event]:
    return [seen.Crashed(kept=(before,)), seen.Restarted(bookie=A, kept=after)]


COLLECTED = seen.Collected(bookie=A, ledger=LEDGER)


def disowned_of_lost(entry: int) -> seen.Disowned:
    return seen.Disowned(bookie=A, ledger=LEDGER, entries=(), lost=(EntryId(entry),))


def set_back(*, in_backup: bool = False, young: bool = False) -> seen.SetBack:
    return seen.SetBack(ledgers=(LEDGER,) if in_backup else (), young=(LEDGER,) if young else ())


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
    "an entry is acked in a deleted ledger": (
        "I4",
        [acked(0, 1), closed(1), *deleted(1), acked(2, 2)],
    ),
    "a read ends before the end": ("I1", [acked(0, 3), closed(3), got(0), got(1), ended(2, 3)]),
    "a recovered ledger is empty for its reader": ("I1", [closed(1), recovered(1), ended(0, 1)]),
    "a tail ends before the end of its ledger": ("I1", [closed(3), got(0), ended(1, None)]),
    "a tail ends where its ledger is open": ("I1", [acked(0, 0), got(0), ended(1, None)]),
    "what was never written is glimpsed": ("I18", [glimpsed(1, b"garbage")]),
    "a glimpse comes in another order": ("I3", [glimpsed(2, b"value 2", wanted=1)]),
    "a flush returns before all is acked": ("force", [acked(0, 1), forced(3)]),
    "a ledger has another password than was asked for": (
        "created",
        [created(password=b"other")],
    ),
    "a ledger has another digest than was asked for": (
        "created",
        [created(digest=Digest.HMAC)],
    ),
    "a ledger has another label than was asked for": (
        "created",
        [created(custom=(LABEL,))],
    ),
    "a ledger that was created is not there": ("created", [recorded(None), created()]),
    "a creator gets what was given up": ("created", [recorded(), recorded(None), created()]),
    "a creator's ledger is deleted": ("I6", [recorded(), created(), recorded(None)]),
    "an error is one that nothing explains": ("reason", [failed("Misfit")]),
    "a ledger that is there is none": ("reason", [failed("NoSuchLedger")]),
    "a reader with the password is not let in": ("reason", [failed("Unauthorized")]),
    "a read within the confirmed is beyond the end": (
        "reason",
        [confirmed(0, 2), failed("BeyondEnd")],
    ),
    "the metadata is said to be unreadable": ("reason", [failed("MetadataFailed")]),
    "a writer is fenced, and nobody has taken its ledger": ("reason", [failed("Fenced")]),
    "a writer is fenced, and it is another's disk that is lost": (
        "reason",
        [seen.DiskLost(bookie=D), failed("Fenced")],
    ),
    "a bookie denies what it has": ("I12", [disowned(1)]),
    "a bookie denies a ledger's last entry": ("I12", [closed(1), disowned(1)]),
    "an entry is gone within a bookie's life": ("I17", lived(kept(0, 1), kept(0))),
    "an entry is gone that the last fragment names": (
        "I17",
        [recorded(ledger((B, C, D), [(1, (A, B, C))])), *lived(kept(0, 1), kept(0))],
    ),
    "a bookie's LAC falls within its life": (
        "I5",
        lived(kept(0, confirmed=3), kept(0, confirmed=2)),
    ),
    "the LAC of a handle falls": ("I5", [confirmed(0, 2), confirmed(3, 1)]),
    "the LAC covers an entry without copies": ("I5", [confirmed(0, 1, copies=1)]),
    "an ack jumps over an entry": ("I5", [acked(0, 0), acked(2, 2)]),
    "an entry is denied that the LAC covered": ("I5", [confirmed(0, 2), denied(2)]),
    "the end of a closed ledger moves forward": ("I6", [closed(1), closed(2)]),
    "the end of a closed ledger moves back": ("I6", [closed(2), closed(1)]),
    "the length of a closed ledger changes": ("I6", [closed(1), closed(1, length=31)]),
    "a closed ledger is open again": ("I6", [closed(1), recorded()]),
    "a closed ledger is in recovery again": ("I6", [closed(1), in_recovery()]),
    "a ledger in recovery is open again": ("I6", [in_recovery(), recorded()]),
    "a closed ledger gets another fragment": (
        "I6",
        [closed(1), closed(1, of=ledger(later=[(1, (B, C, D))]))],
    ),
    "a fragment of a closed ledger begins elsewhere": (
        "I6",
        [
            closed(2, of=ledger(later=[(1, (B, C, D))])),
            closed(2, of=ledger(later=[(2, (B, C, D))])),
        ],
    ),
    "a ledger gets another label": ("I6", [recorded(LABELLED)]),
    "an ensemble is exchanged behind acked entries": (
        "I6",
        [acked(0, 1), recorded(ledger((B, C, D)))],
    ),
    "a recovery exchanges an ensemble behind acked entries": (
        "I6",
        [acked(0, 1), in_recovery(ledger((B, C, D)))],
    ),
    "a fragment begins before acked entries": (
        "I6",
        [acked(0, 2), recorded(ledger(later=[(2, (B, C, D))]))],
    ),
    "a fragment begins behind entries that have too few copies": (
        "I5",
        [acked(0, 1), recorded(ledger(later=[(2, (B, C, D))]), copies=1)],
    ),
    "a ledger is gone": ("I6", [recorded(None)]),
    "two recoveries end at different entries": ("I7", [recovered(1), recovered(2)]),
    "a recovery ends elsewhere than the metadata": ("I7", [closed(1), recovered(2)]),
    "metadata ends elsewhere than it was told": ("I7", [recovered(2), closed(1)]),
    "a writer closes elsewhere than the metadata": (
        "I7",
        [closed(1), seen.ClosedByWriter(ledger=LEDGER, last=EntryId(3))],
    ),
    "an entry is committed with too few copies": ("I8", [closed(1, copies=1)]),
    "a replica of a closed ledger is replaced by one that has nothing": (
        "I8",
        [acked(0, 1), closed(1), closed(1, of=ledger((B, C, D)), copies=1)],
    ),
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
    "two fragments begin at one entry": (
        "I10",
        [recorded(unchecked(Fragment(EntryId(0), (A, B, C)), Fragment(EntryId(0), (A, B, D))))],
    ),
    "an ensemble names a bookie twice": (
        "I10",
        [recorded(unchecked(Fragment(EntryId(0), (A, B, B))))],
    ),
    "a bookie denies what it lost with a disk": ("I12", [disowned_of_lost(1)]),
    "a bookie collects a ledger that metadata names": ("I17", [COLLECTED]),
    "a bookie collects what a person only began to delete": (
        "I17",
        [closed(1), deleted(1)[0], COLLECTED],
    ),
    "a bookie collects what a store that was set back does not name": (
        "I17",
        [set_back(), COLLECTED],
    ),
    "an id is given again behind a store that was set back": ("ids", [set_back(), recorded()]),
    "a ledger is gone after a crash behind a store that was set back": (
        "I14",
        [set_back(), *restart(kept(0, 1))],
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


def test_what_metadata_does_not_name_a_bookie_may_forget() -> None:
    left = [*START, recorded(ledger((B, C, D), [(1, (B, C, D))])), *lived(kept(0), kept())]
    behind_the_end = [*START, closed(0), *lived(kept(0, 1), kept(0))]
    restarted_behind_it = [*START, closed(0), *restart(kept(0, 1), kept(0))]
    assert checker.check(left) == checker.check(behind_the_end) == []
    assert checker.check(restarted_behind_it) == []


def test_errors_that_the_world_explains_are_no_violations() -> None:
    events: list[seen.Event] = [
        *(failed(kind, retryable=True) for kind in ("ReadFailed", "MetadataFailed")),
        failed("LostQuorum"),
        failed("NoSuchLedger", ledger=LedgerId(8)),
        in_recovery(),
        failed("Fenced"),
        closed(1),
        failed("ClosedByOther"),
    ]
    assert checker.check([*START, *events]) == []


def test_a_bookie_may_leave_out_what_is_behind_an_end_while_it_is_asked_for_it() -> None:
    assert checker.check([*START, closed(1), disowned(2)]) == []


def test_a_bookie_may_deny_what_it_lost_and_need_not_have() -> None:
    elsewhere = recorded(ledger((B, C, D), [(1, (B, C, D))]))
    assert checker.check([*START, elsewhere, disowned_of_lost(0), disowned_of_lost(1)]) == []


def test_a_creation_that_is_given_up_deletes_its_ledger_and_bookies_collect_it() -> None:
    assert checker.check([recorded(), recorded(None), COLLECTED]) == []


def test_bookies_collect_what_was_deleted_by_order() -> None:
    assert checker.check([*START, closed(1), *deleted(1), COLLECTED]) == []


def test_a_bookie_that_lost_its_disk_fences_what_names_it() -> None:
    assert checker.check([*START, seen.DiskLost(bookie=A), failed("Fenced")]) == []


def test_a_ledger_may_grow_into_other_ensembles_and_its_replicas_be_replaced() -> None:
    grown = ledger((A, B, D), [(2, (B, C, D))])
    repaired = ledger((A, C, D), [(2, (B, C, D))])
    events: list[seen.Event] = [
        *START,
        created(),
        recorded(ledger((A, B, D))),  # nothing is acked yet
        acked(0, 1),
        recorded(grown),
        recorded(repaired),
        in_recovery(repaired),
        closed(2, of=repaired),
        closed(2, of=grown),
        *(got(entry) for entry in range(3)),
        ended(3, 2),
        ended(3, None),
    ]
    assert checker.check(events) == []


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


#: Invariants of single processes, and a test that holds each: a history of what clients and disks
#: say does not show them.
ELSEWHERE = {
    "I15": "tests/crash/test_crash_states.py::"
    "test_no_state_of_the_disk_after_a_power_loss_breaks_a_promise",
    "I16": "tests/bookie/life/test_identity.py::test_a_wiped_disk_is_refused",
}


def test_every_rule_has_a_bad_history() -> None:
    shown = {rule for rule, _ in BAD.values()} | {rule for _, rule in BAD_REPAIRS}
    assert shown == set(checker.RULES)


def test_every_invariant_of_ledgers_has_a_rule_or_a_test_elsewhere() -> None:
    numbered = {f"I{number}" for number in range(1, 20)}
    assert numbered <= checker.RULES.keys() | ELSEWHERE.keys()


def test_the_page_of_the_simulator_lists_every_rule_as_it_is() -> None:
    page = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
    for rule, says in checker.RULES.items():
        name = rule if rule[1:].isdigit() else f"*{rule}*"
        assert f"\n| {name} | {says} |\n" in page


@pytest.mark.parametrize("name", ELSEWHERE.values())
def test_the_test_elsewhere_is_there(name: str) -> None:
    path, test = name.split("::")
    assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")
