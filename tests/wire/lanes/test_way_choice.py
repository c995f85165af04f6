"""Over what a bookie is reached that offers the socket lane: the decision alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.wire.lanes.back_off import BackOff
from zonekeeper.wire.lanes.way_choice import WayChoice, WayState


class LongestPause:
    """A chance by which every pause is as long as it may be."""

    def random(self) -> float:
        return 1.0


def choice(*, is_offered: bool = True, boot_epoch: int | None = 5) -> WayChoice:
    back_off = BackOff(first_ms=1_000, max_ms=8_000, chance=LongestPause())
    return WayChoice(is_offered=is_offered, boot_epoch=boot_epoch, back_off=back_off)


def attempt_of(chosen: WayChoice) -> int:
    number = chosen.attempt()
    assert number is not None
    return number


def blocked(now_s: float = 0.0) -> WayChoice:
    chosen = choice()
    assert chosen.blocked(attempt_of(chosen), now_s)
    return chosen


def test_an_offered_lane_is_tried_first_and_one_that_is_not_offered_never() -> None:
    assert choice().attempt() is not None
    assert choice(is_offered=False).attempt() is None
    assert not choice().probe(100.0)
    assert not choice(is_offered=False).probe(100.0)


def test_a_blocked_lane_is_tried_by_nobody_but_a_probe_whose_time_has_come() -> None:
    chosen = blocked()
    assert chosen.attempt() is None
    assert not chosen.probe(0.99)
    assert chosen.probe(1.0)
    assert not chosen.probe(1.0), "one is under way"
    assert chosen.attempt() is None
    assert chosen.probed(is_reached=True, now_s=1.0)
    assert chosen.attempt() is not None


def test_two_that_fail_at_the_same_time_count_once() -> None:
    chosen = choice()
    one, two = attempt_of(chosen), attempt_of(chosen)
    assert chosen.blocked(one, 0.0)
    assert not chosen.blocked(two, 0.5)
    assert chosen.probe(1.0), "the pause was not doubled, and did not begin anew"


def test_what_was_begun_before_a_block_neither_ends_it_nor_begins_another_one() -> None:
    chosen = choice()
    early, late = attempt_of(chosen), attempt_of(chosen)
    chosen.blocked(early, 0.0)
    chosen.reached(late)
    assert chosen.attempt() is None
    assert not chosen.probe(0.9), "the pause goes on"
    assert chosen.probe(1.0)
    assert chosen.probed(is_reached=True, now_s=1.0)
    assert not chosen.blocked(late, 1.0)
    assert chosen.attempt() is not None


def test_each_probe_that_fails_doubles_the_pause_up_to_a_limit() -> None:
    chosen, now_s = blocked(), 0.0
    for pause_s in (1, 2, 4, 8, 8):
        assert not chosen.probe(now_s + pause_s - 0.01)
        now_s += pause_s
        assert chosen.probe(now_s)
        assert not chosen.probed(is_reached=False, now_s=now_s)


def test_a_probe_that_passes_does_not_end_the_pause_and_a_stream_does() -> None:
    """Something that lets one connection pass and no others is not asked each second."""
    chosen = blocked()
    assert chosen.probe(1.0)
    chosen.probed(is_reached=True, now_s=1.0)
    chosen.blocked(attempt_of(chosen), 1.0)
    assert not chosen.probe(2.9)
    assert chosen.probe(3.0)
    chosen.probed(is_reached=True, now_s=3.0)
    chosen.reached(attempt_of(chosen))
    chosen.blocked(attempt_of(chosen), 3.0)
    assert chosen.probe(4.0)


def test_another_start_of_the_bookie_is_probed_at_once_and_the_same_one_is_not() -> None:
    chosen = blocked()
    chosen.started(5)
    assert not chosen.probe(0.5)
    chosen.started(6)
    assert chosen.probe(0.5)
    chosen.probed(is_reached=False, now_s=0.5)
    assert chosen.probe(1.5), "the pause has begun anew"


def test_the_first_start_that_is_heard_of_is_no_other_one() -> None:
    chosen = choice(is_offered=False, boot_epoch=None)
    chosen.started(5)
    assert not chosen.probe(0.0)
    chosen.started(6)
    assert chosen.probe(0.0)


def test_a_bookie_without_a_lane_is_looked_at_again_once_after_another_start() -> None:
    chosen = choice(is_offered=False)
    chosen.started(6)
    assert chosen.probe(0.0)
    assert chosen.looked(is_offered=False, boot_epoch=6)
    assert not chosen.probed(is_reached=False, now_s=0.0)
    assert not chosen.probe(100.0)


def test_a_lane_that_another_start_has_is_used_once_it_was_reached() -> None:
    chosen = choice(is_offered=False)
    chosen.started(6)
    assert chosen.probe(0.0)
    assert chosen.looked(is_offered=True, boot_epoch=6)
    assert chosen.attempt() is None
    assert chosen.probed(is_reached=True, now_s=0.0)
    assert chosen.attempt() is not None


def test_a_registration_of_the_start_before_says_nothing_and_is_read_again() -> None:
    chosen = choice(is_offered=False)
    chosen.started(6)
    assert chosen.probe(0.0)
    assert not chosen.looked(is_offered=False, boot_epoch=5)
    chosen.probed(is_reached=False, now_s=0.0)
    assert chosen.probe(1.0)
    assert chosen.looked(is_offered=True, boot_epoch=6)


def test_a_bookie_that_came_back_without_its_lane_is_asked_for_it_no_more() -> None:
    chosen = blocked()
    chosen.started(6)
    assert chosen.probe(0.0)
    assert chosen.looked(is_offered=False, boot_epoch=6)
    assert not chosen.probed(is_reached=False, now_s=0.0)
    assert chosen.state is WayState.ABSENT
    assert not chosen.probe(100.0)


@pytest.mark.parametrize("boot_epoch", [None, 7])
def test_what_a_registration_says_of_starts_is_learned(boot_epoch: int | None) -> None:
    chosen = blocked()
    assert chosen.probe(1.0)
    assert chosen.looked(is_offered=True, boot_epoch=boot_epoch)
    chosen.probed(is_reached=False, now_s=1.0)
    chosen.started(7)
    assert chosen.probe(1.0) is (boot_epoch is None), "a start that was read of is not new"


@given(steps=st.lists(st.tuples(st.sampled_from("abrpnsl"), st.integers(0, 3)), max_size=60))
def test_a_blocked_lane_is_never_in_the_way_whatever_happens(steps: list[tuple[str, int]]) -> None:
    """Only a probe ends a block, one probe runs at a time, and its pause is never longer than set.

    ``pause_s`` is a bound of our own on the time of the next probe.
    """
    chosen, now_s, attempts, probing = choice(), 0.0, [0], False
    for what, many in steps:
        before = chosen.state
        match what:
            case "a":
                if (number := chosen.attempt()) is not None:
                    assert before is WayState.OPEN
                    attempts.append(number)
            case "b":
                chosen.blocked(attempts[-1 - many % len(attempts)], now_s)
            case "r":
                chosen.reached(attempts[-1 - many % len(attempts)])
                assert chosen.state is before
            case "p":
                due = chosen.probe(now_s)
                assert not (due and (probing or before is WayState.OPEN))
                probing = probing or due
            case "n":
                if probing:
                    opened = chosen.probed(is_reached=bool(many % 2), now_s=now_s)
                    assert opened is (before is WayState.BLOCKED and bool(many % 2))
                    probing = False
            case "s":
                chosen.started(5 + many)
            case _:
                now_s += many
        assert chosen.state is not WayState.ABSENT
        if before is WayState.BLOCKED and what != "n":
            assert chosen.state is WayState.BLOCKED
    if chosen.state is WayState.BLOCKED and not probing:
        assert chosen.probe(now_s + 8)
