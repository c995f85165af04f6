"""Admission in every small world: all sequences of events, held to what must never happen."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import pytest

from tests.bookie import running
from zonekeeper.bookie.ledgers import admission, records
from zonekeeper.bookie.ledgers.admission import AdmissionState, Effect, Event, Here
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.openings import FragmentOpening
from zonekeeper.wire.formats.proofs import Shown

LEDGER, KEY, OTHER_KEY = running.LEDGER, running.KEY, running.OTHER_KEY

#: What metadata says of the ledger.
THERE, GONE = running.THERE, admission.Gone()


def opens(
    opening: FragmentOpening, *, was_open: bool = False, buried: bool = False
) -> admission.OpenWanted:
    return admission.OpenWanted(opening=opening, standing=THERE, was_open=was_open, buried=buried)


OPEN = opens(running.opening())
OPEN_NEXT = opens(running.opening(first=5))
OPEN_WRONG_KEY = opens(running.opening(key=OTHER_KEY))
OPEN_WRONG_DIGEST = opens(running.opening(digest=Digest.CRC32))
FENCE = admission.FenceWanted(master_key=KEY, standing=THERE)
FENCE_WRONG_KEY = admission.FenceWanted(master_key=OTHER_KEY, standing=THERE)
#: The same before metadata was read, and where metadata has no such ledger.
OPEN_UNREAD = dataclasses.replace(OPEN, standing=None)
FENCE_UNREAD = dataclasses.replace(FENCE, standing=None)
OPEN_GONE = dataclasses.replace(OPEN, standing=GONE)
FENCE_GONE = dataclasses.replace(FENCE, standing=GONE)
PLAIN = admission.AppendWanted(recovery=False, here=Here.NONE)
RECOVERY = admission.AppendWanted(recovery=True, here=Here.NONE)
AGAIN = admission.AppendWanted(recovery=False, here=Here.UNCOMPARED)
DIFFERENT = admission.AppendWanted(recovery=True, here=Here.DIFFERENT)
LAC_3 = admission.ExplicitLacWanted(packet=running.lac_packet(3))
LAC_9 = admission.ExplicitLacWanted(packet=running.lac_packet(9))
LIMBO = admission.LimboWanted(in_limbo=True)
NO_LIMBO = admission.LimboWanted(in_limbo=False)

EVENTS: Sequence[Event] = (
    OPEN,
    OPEN_NEXT,
    OPEN_WRONG_KEY,
    OPEN_WRONG_DIGEST,
    FENCE,
    FENCE_WRONG_KEY,
    OPEN_UNREAD,
    FENCE_UNREAD,
    OPEN_GONE,
    FENCE_GONE,
    PLAIN,
    RECOVERY,
    AGAIN,
    DIFFERENT,
    LAC_3,
    LAC_9,
    LIMBO,
    NO_LIMBO,
)
LENGTH = 4


def step(state: AdmissionState, event: Event) -> tuple[AdmissionState, Sequence[Effect]]:
    effects = admission.decide(LEDGER, state, event)
    for effect in effects:
        if isinstance(effect, admission.WriteRecord):
            state = admission.applied(state, effect.record)
    return state, effects


def after(*events: Event) -> AdmissionState:
    state = admission.UNKNOWN
    for event in events:
        state, _ = step(state, event)
    return state


def refusal(state: AdmissionState, event: Event) -> type[errors.ProtocolError] | None:
    effects = admission.decide(LEDGER, state, event)
    if effects and isinstance(effects[0], admission.Refuse):
        assert len(effects) == 1, "a refusal is all there is"
        return type(effects[0].error)
    return None


def worlds() -> Iterator[tuple[Event, ...]]:
    yield from itertools.product(EVENTS, repeat=LENGTH)


def test_in_every_small_world_what_was_promised_is_kept() -> None:
    steps = 0
    for world in worlds():
        state = admission.UNKNOWN
        for event in world:
            before, (state, effects) = state, step(state, event)
            steps += 1
            check(before, event, effects, state)
    assert steps == LENGTH * len(EVENTS) ** LENGTH


def check(
    before: AdmissionState, event: Event, effects: Sequence[Effect], state: AdmissionState
) -> None:
    refused = [effect.error for effect in effects if isinstance(effect, admission.Refuse)]
    taken = any(isinstance(effect, admission.Take) for effect in effects)
    # The first key sticks, and a request with another one changes nothing.
    assert before.master_key in (None, state.master_key)
    key = key_of(event)
    if key is not None and before.master_key not in (None, key):
        assert isinstance(refused[0], errors.UnauthorizedAccess)
    if refused:
        assert state == before
        assert len(effects) == 1
    # No key comes from a peer alone: metadata had the ledger with this key when it was read.
    if before.master_key is None and state.master_key is not None:
        assert isinstance(event, admission.OpenWanted | admission.FenceWanted)
        assert event.standing == THERE
        assert state.master_key == THERE.master_key == key
    # What changes nothing here without a look at metadata asks for that look, and for no more.
    if admission.AskMetadata() in effects:
        assert len(effects) == 1
        assert state == before
        assert before.master_key is None
        assert event in (OPEN_UNREAD, FENCE_UNREAD)
    # A fence is for ever, and no plain append passes it.
    assert state.fenced >= before.fenced
    if before.fenced and isinstance(event, admission.AppendWanted) and not event.recovery:
        assert not taken
    # An entry that is here is compared before anything of the frame is taken.
    if isinstance(event, admission.AppendWanted) and event.here in (
        Here.UNCOMPARED,
        Here.DIFFERENT,
    ):
        assert not taken
    # Nothing is taken for a ledger whose key and digest are not known.
    if taken:
        assert state.master_key is not None
        assert state.digest is not None
    # The explicit LAC does not fall, and fragments are not forgotten.
    assert admission.lac_of(state.explicit_lac) >= admission.lac_of(before.explicit_lac)
    assert set(before.fragments) <= set(state.fragments)
    # Limbo means fenced, and only an explicit word ends it.
    assert state.fenced >= state.in_limbo
    if before.in_limbo and event is not NO_LIMBO:
        assert state.in_limbo


def key_of(event: Event) -> Shown | None:
    match event:
        case admission.OpenWanted(opening=opening):
            return opening.master_key
        case admission.FenceWanted(master_key=key):
            return key
        case _:
            return None


def test_doing_a_thing_twice_writes_nothing_the_second_time() -> None:
    for event in (OPEN, FENCE, LIMBO):
        assert admission.decide(LEDGER, after(event), event) == ()
    assert admission.decide(LEDGER, after(OPEN, LAC_9), LAC_9) == ()


def test_a_ledger_that_was_never_seen_can_be_fenced() -> None:
    state = after(FENCE)

    assert state.fenced
    assert state.master_key == KEY
    assert refusal(state, FENCE_WRONG_KEY) is errors.UnauthorizedAccess


def test_a_fenced_ledger_can_be_opened_for_its_recovery_and_takes_only_that() -> None:
    state = after(FENCE, OPEN)

    assert refusal(state, PLAIN) is errors.Fenced
    assert admission.decide(LEDGER, state, RECOVERY) == (admission.Take(),)


def test_a_resent_entry_is_compared_and_its_fence_is_looked_at_again_afterwards() -> None:
    assert admission.decide(LEDGER, after(OPEN), AGAIN) == (admission.Compare(),)

    compared = admission.AppendWanted(recovery=False, here=Here.SAME)

    assert admission.decide(LEDGER, after(OPEN), compared) == (admission.Take(),)
    assert refusal(after(OPEN, FENCE), compared) is errors.Fenced
    assert refusal(after(OPEN), DIFFERENT) is errors.EntryMismatch


def test_a_ledger_that_was_not_opened_takes_no_entries_and_no_lac() -> None:
    for state in (after(), after(FENCE), after(LIMBO)):
        assert refusal(state, RECOVERY) is errors.NotOpened
        assert refusal(state, LAC_3) is errors.NotOpened


def test_a_lac_is_taken_on_a_fenced_ledger_too() -> None:
    assert admission.lac_of(after(OPEN, FENCE, LAC_9).explicit_lac) == 9


def test_a_lower_lac_is_passed_over() -> None:
    assert admission.lac_of(after(OPEN, LAC_9, LAC_3).explicit_lac) == 9


@pytest.mark.parametrize(
    "packet", [b"", running.lac_packet(3) + b"x", running.SEALER.seal_lac(EntryId(3))[:-1]]
)
def test_a_lac_packet_of_the_wrong_size_is_refused(packet: bytes) -> None:
    assert refusal(after(OPEN), admission.ExplicitLacWanted(packet=packet)) is errors.BadRequest


def test_another_digest_than_the_ledgers_is_refused() -> None:
    assert refusal(after(OPEN), OPEN_WRONG_DIGEST) is errors.BadRequest


def test_limbo_fences_and_leaves_the_ledger_fenced_when_it_ends() -> None:
    state = after(OPEN, LIMBO)

    with pytest.raises(errors.LimboLedger):
        admission.refuse_limbo(LEDGER, state)
    assert refusal(state, PLAIN) is errors.Fenced
    assert after(OPEN, LIMBO, NO_LIMBO).fenced
    admission.refuse_limbo(LEDGER, after(OPEN, LIMBO, NO_LIMBO))


def test_a_ledger_in_limbo_whose_key_is_not_known_takes_the_key_of_its_fence() -> None:
    assert after(LIMBO, FENCE).master_key == KEY


def test_a_fragment_that_is_opened_in_another_way_replaces_the_hint() -> None:
    other = running.opening()
    changed = records.FragmentRecord.of(other)

    state = admission.applied(after(OPEN, OPEN_NEXT), changed)

    assert [fragment.first_entry_id for fragment in state.fragments] == [0, 5]


# ── a ledger that was deleted ──

TOKEN, OTHER_TOKEN = 7, 8
OPENING = dataclasses.replace(running.opening(), create_token=TOKEN)
OPEN_FIRST = opens(OPENING)
OPEN_AGAIN = opens(OPENING, was_open=True)
OPEN_BURIED = opens(OPENING, buried=True)
OPEN_OTHER = opens(dataclasses.replace(OPENING, create_token=OTHER_TOKEN), was_open=True)
FENCE_IT = admission.FenceWanted(master_key=KEY, create_token=TOKEN, standing=THERE)
FENCE_BURIED = dataclasses.replace(FENCE_IT, buried=True)
FENCE_OTHER = dataclasses.replace(FENCE_IT, create_token=OTHER_TOKEN)
OF_A_DELETED_LEDGER = (OPEN_AGAIN, OPEN_BURIED, FENCE_BURIED)


def test_what_may_mean_a_deleted_ledger_is_refused_and_begins_no_new_one() -> None:
    for event in OF_A_DELETED_LEDGER:
        assert refusal(admission.UNKNOWN, event) is errors.LedgerDeleted
    assert refusal(admission.UNKNOWN, OPEN_FIRST) is None
    assert refusal(admission.UNKNOWN, FENCE_IT) is None


def test_a_ledger_that_is_here_can_be_opened_and_fenced_again() -> None:
    for event in (*OF_A_DELETED_LEDGER, OPEN_FIRST, FENCE_IT):
        assert refusal(after(OPEN_FIRST), event) is None
        assert refusal(after(OPEN_FIRST, FENCE_IT), event) is None


def test_a_ledger_with_another_token_is_another_ledger() -> None:
    for state in (after(OPEN_FIRST), after(FENCE_IT), after(OPEN_FIRST, FENCE_IT)):
        assert state.create_token == TOKEN
        assert refusal(state, OPEN_OTHER) is errors.LedgerDeleted
        assert refusal(state, FENCE_OTHER) is errors.LedgerDeleted


def test_another_ledger_is_told_from_a_wrong_password() -> None:
    stranger = dataclasses.replace(OPENING, create_token=OTHER_TOKEN, master_key=OTHER_KEY)
    assert refusal(after(OPEN_FIRST), admission.OpenWanted(opening=stranger)) is (
        errors.LedgerDeleted
    )


def test_a_token_that_is_not_known_says_nothing() -> None:
    assert refusal(after(OPEN), OPEN_FIRST) is None
    assert refusal(after(OPEN_FIRST), OPEN) is None
    assert after(OPEN, OPEN_FIRST).create_token == 0 or refusal(after(OPEN), OPEN_AGAIN) is None


def test_limbo_comes_first() -> None:
    """What is not here in limbo was perhaps lost, and nothing says that it was deleted."""
    for event in (*OF_A_DELETED_LEDGER, OPEN_OTHER, FENCE_OTHER):
        assert refusal(after(LIMBO), event) is None
    assert refusal(after(LIMBO, OPEN_AGAIN), PLAIN) is errors.Fenced


def test_in_limbo_too_a_ledger_with_another_token_is_another_ledger() -> None:
    """Else a recovery of the new one would keep what is left here of the old one."""
    for event in (OPEN_OTHER, FENCE_OTHER):
        assert refusal(after(OPEN_FIRST, LIMBO), event) is errors.LedgerDeleted
        assert refusal(after(LIMBO, OPEN_FIRST), event) is errors.LedgerDeleted
    assert refusal(after(OPEN_FIRST, LIMBO), OPEN_AGAIN) is None


def test_after_its_limbo_a_fenced_ledger_stops_its_writer_by_the_fence() -> None:
    assert refusal(after(LIMBO, NO_LIMBO), OPEN_AGAIN) is None
    assert refusal(after(LIMBO, NO_LIMBO, OPEN_AGAIN), PLAIN) is errors.Fenced
    assert refusal(after(LIMBO, NO_LIMBO), OPEN_BURIED) is errors.LedgerDeleted


# ── a ledger that is not known here ──


def test_s136_only_metadata_makes_a_ledger_that_is_not_known_here() -> None:
    for state in (admission.UNKNOWN, after(LIMBO), after(LIMBO, NO_LIMBO)):
        for event in (OPEN_UNREAD, FENCE_UNREAD):
            assert admission.decide(LEDGER, state, event) == (admission.AskMetadata(),)
        for event in (OPEN_GONE, FENCE_GONE):
            assert refusal(state, event) is errors.LedgerDeleted
        for event in (OPEN_WRONG_KEY, FENCE_WRONG_KEY):
            assert refusal(state, event) is errors.UnauthorizedAccess


def test_s136_what_is_known_with_its_key_is_decided_without_metadata() -> None:
    for known in (after(OPEN), after(FENCE), after(LIMBO, FENCE), after(OPEN, LIMBO)):
        for standing in (None, GONE):
            for event in (OPEN, OPEN_NEXT, FENCE):
                asked = dataclasses.replace(event, standing=standing)
                assert admission.decide(LEDGER, known, asked) == admission.decide(
                    LEDGER, known, event
                )
            wrong = dataclasses.replace(OPEN_WRONG_KEY, standing=standing)
            assert refusal(known, wrong) is errors.UnauthorizedAccess


def test_what_a_tombstone_or_a_writers_word_settles_needs_no_metadata() -> None:
    for event in OF_A_DELETED_LEDGER:
        unread = dataclasses.replace(event, standing=None)
        assert refusal(admission.UNKNOWN, unread) is errors.LedgerDeleted


def test_a_ledger_with_another_token_in_metadata_is_another_ledger() -> None:
    """It is told as deleted, and not as a wrong password: its writer must read metadata."""
    there = admission.Stands(master_key=OTHER_KEY, create_token=OTHER_TOKEN)
    for event in (OPEN_FIRST, FENCE_IT):
        asked = dataclasses.replace(event, standing=there)
        assert refusal(admission.UNKNOWN, asked) is errors.LedgerDeleted


def test_metadata_tells_the_token_that_a_peer_does_not_know() -> None:
    there = admission.Stands(master_key=KEY, create_token=TOKEN)
    for event in (OPEN, FENCE):
        state = after(dataclasses.replace(event, standing=there))
        assert state.create_token == TOKEN
        assert all(each.create_token == TOKEN for each in state.fragments)
