"""Hints of fragments: none comes twice, none is lost, and their bytes have a limit (S135)."""

import dataclasses
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bookie import running
from zonekeeper.bookie.formats import record_format
from zonekeeper.bookie.ledgers import admission, hints, records
from zonekeeper.bookie.ledgers.admission import AdmissionState
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import errors, openings
from zonekeeper.wire.formats.openings import FragmentOpening

LEDGER, TOKEN = running.LEDGER, 7


def told(first: int, *ensemble: str, token: int = TOKEN) -> FragmentOpening:
    return dataclasses.replace(
        running.opening(first=first),
        quorums=Quorums(ensemble=len(ensemble), write=1, ack=1),
        ensemble=tuple(map(BookieId, ensemble)),
        create_token=token,
    )


def hint_of(opening: FragmentOpening) -> bytes:
    return records.FragmentRecord.of(opening).hint


def opened(state: AdmissionState, opening: FragmentOpening) -> AdmissionState:
    """Open a fragment; what is refused breaks the test."""
    event = admission.OpenWanted(opening=opening, standing=running.THERE)
    for effect in admission.decide(LEDGER, state, event):
        assert isinstance(effect, admission.WriteRecord), effect
        state = admission.applied(state, effect.record)
    return state


def all_opened(wanted: Sequence[FragmentOpening]) -> AdmissionState:
    state = admission.UNKNOWN
    for opening in wanted:
        state = opened(state, opening)
    return state


some_openings = st.builds(
    lambda first, ensemble: told(first, *ensemble),
    st.integers(0, 4),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2),
)


@given(st.lists(some_openings, max_size=12))
def test_each_opening_leaves_one_hint_and_of_each_first_entry_the_last_to_come_counts(
    wanted: list[FragmentOpening],
) -> None:
    state = all_opened(wanted)
    once = list(dict.fromkeys(wanted))

    assert sorted(state.hints) == sorted(map(hint_of, once))
    assert state.hint_bytes == sum(map(hints.size_of, state.hints))
    last = {each.first_entry_id: each for each in once}
    assert state.fragments == tuple(last[first] for first in sorted(last))


@given(st.lists(some_openings, max_size=12))
def test_records_that_are_applied_once_more_change_nothing(wanted: list[FragmentOpening]) -> None:
    """A start applies the records past the mark to a state that may be newer."""
    state = again = all_opened(wanted)
    for opening in wanted:
        again = admission.applied(again, records.FragmentRecord.of(opening))
    assert again == state


def test_s135_two_ensembles_that_are_told_in_turn_leave_two_hints_and_no_record_more() -> None:
    one, other = told(0, "a", "b"), told(0, "a", "c")
    state = all_opened([one, other])

    for _ in range(3):
        for opening in (one, other):
            event = admission.OpenWanted(opening=opening, standing=running.THERE)
            assert admission.decide(LEDGER, state, event) == ()
    assert state.fragments == (other,)


def test_s135_a_hint_that_would_pass_the_limit_of_its_ledger_is_refused() -> None:
    state, taken = admission.UNKNOWN, 0
    while True:
        opening = told(taken, "a", "b", "c")
        event = admission.OpenWanted(opening=opening, standing=running.THERE)
        effects = admission.decide(LEDGER, state, event)
        if isinstance(effects[0], admission.Refuse):
            break
        state, taken = opened(state, opening), taken + 1
    assert isinstance(effects[0].error, errors.BadRequest)
    assert str(hints.LEDGER_BYTES_MAX) in str(effects[0].error)
    assert state.hint_bytes <= hints.LEDGER_BYTES_MAX
    assert taken > 5_000, "a writer may change its ensemble often"
    # What is here already is opened as before, and appended to.
    assert opened(state, told(7, "a", "b", "c")) == state
    append = admission.AppendWanted(recovery=False, here=admission.Here.NONE)
    assert admission.decide(LEDGER, state, append) == (admission.Take(),)


def test_the_largest_opening_fits_into_an_empty_ledger() -> None:
    assert openings.BYTES_MAX + hints.BESIDE_BYTES < hints.LEDGER_BYTES_MAX


def test_a_hint_takes_no_more_than_it_counts_on_the_disk_and_in_memory() -> None:
    opening = told(3, *(f"{number:x}" for number in range(5_000)))
    hint = hint_of(opening)
    on_disk = record_format.encode(records.FragmentRecord.of(opening))
    assert len(on_disk) <= hints.size_of(hint)

    count = 2_000
    # Made before: the interpreter keeps the first 2,000 ensembles of a process for later tuples.
    wanted = [told(number, "bk-a-0", "bk-b-0", "bk-c-0") for number in range(count)]
    tracemalloc.start()
    state = all_opened(wanted)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after <= 1.05 * state.hint_bytes + (64 << 10)


@pytest.mark.parametrize(
    "names",
    [
        [f"{number:x}" for number in range(5_000)],
        ["é", "\u0416"] * 2_500,
        # One such character makes a name take four bytes for each of its characters.
        ["a" * 65_000 + "\U0001f600"],
        [f"{number:0200}\U0001f600" for number in range(256)],
    ],
)
def test_an_opening_takes_no_more_memory_than_it_counts(names: list[str]) -> None:
    spelled = openings.spell(told(3, *names))
    tracemalloc.start()
    opening = openings.parse(spelled)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(spelled) < after < openings.memory_of(opening)


def test_a_create_token_that_is_learned_later_is_in_each_hint() -> None:
    without = [told(first, "a", token=0) for first in (0, 5)]
    state = opened(all_opened(without), told(5, "a"))

    assert [each.create_token for each in state.fragments] == [TOKEN, TOKEN]
    assert len(state.hints) == 2
