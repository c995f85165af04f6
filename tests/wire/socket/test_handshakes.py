"""Which handshake begins, waits or goes, decided without a socket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.wire.socket.handshakes import HandshakeLimits, Handshakes

US, THEM = "10.0.0.1", "10.0.0.2"


def handshakes(
    *,
    waiting_max: int = 1_024,
    begun_max: int = 64,
    stalled_s: float = 1.0,
    failed_per_s: float = 50.0,
    turns_max: int = 64,
) -> Handshakes[str]:
    limits = HandshakeLimits(
        waiting_max=waiting_max,
        begun_max=begun_max,
        stalled_s=stalled_s,
        failed_per_s=failed_per_s,
        turns_max=turns_max,
    )
    return Handshakes(limits, 0.0)


def come_ready(port: Handshakes[str], *ones: str, host: str = US) -> None:
    for one in ones:
        assert port.come(one, host) is None
        port.ready(one)


def begun(port: Handshakes[str], now_s: float) -> list[str]:
    """Give all that begin now."""
    found = []
    while (next_one := port.next(now_s)) is not None:
        assert next_one[1] is None, "nothing had to go"
        found.append(next_one[0])
    return found


def test_above_the_limit_the_oldest_of_the_host_with_the_most_goes() -> None:
    port = handshakes(waiting_max=4)
    for one, host in (("a", US), ("b", THEM), ("c", THEM), ("d", THEM)):
        assert port.come(one, host) is None
    assert port.come("e", THEM) == "b", "the oldest of all is of another host"
    assert port.come("f", US) == "c"
    assert port.come("g", US) == "a", "of two hosts with as many, the one that was here first"
    assert len(port) == 4


def test_what_has_left_is_not_chosen_again_and_leaves_room() -> None:
    port = handshakes(waiting_max=2)
    port.come("a", US)
    port.come("b", US)
    port.leave("a", succeeded=False)
    port.leave("a", succeeded=False)
    assert port.come("c", US) is None
    assert port.come("d", US) == "b"


def test_what_went_or_left_while_it_was_ready_does_not_begin() -> None:
    port = handshakes(waiting_max=2)
    come_ready(port, "a", "b")
    assert port.come("c", US) == "a"
    port.leave("b", succeeded=False)
    assert port.wait_s(0) is None
    assert port.next(0) is None


def test_hosts_alternate_however_many_one_of_them_has() -> None:
    port = handshakes()
    come_ready(port, "a", "b", "c")
    come_ready(port, "x", "y", host=THEM)
    assert begun(port, 0) == ["a", "x", "b", "y", "c"]


def test_at_the_limit_of_begun_ones_the_oldest_goes_once_it_has_stalled() -> None:
    port = handshakes(begun_max=2, stalled_s=1.0)
    come_ready(port, "a", "b")
    assert port.next(0.0) == ("a", None)
    assert port.next(0.4) == ("b", None)
    come_ready(port, "c", "d")
    assert port.wait_s(0.5) == pytest.approx(0.5)
    assert port.next(0.5) is None
    assert port.next(1.0) == ("c", "a")
    assert port.wait_s(1.0) == pytest.approx(0.4)
    port.leave("b", succeeded=True)
    assert port.next(1.0) == ("d", None), "one that has finished leaves room at once"
    assert len(port) == 2


def test_the_begun_one_that_goes_is_of_the_host_with_the_most() -> None:
    port = handshakes(begun_max=3, stalled_s=1.0)
    come_ready(port, "a", host=THEM)
    come_ready(port, "x", "y")
    assert sorted(begun(port, 0)) == ["a", "x", "y"]
    come_ready(port, "z")
    assert port.next(1.0) == ("z", "x")


def test_handshakes_that_fail_are_slowed() -> None:
    port = handshakes(turns_max=2, failed_per_s=10)
    come_ready(port, "a", "b", "c", "d")
    assert begun(port, 0) == ["a", "b"]
    for one in "ab":
        port.leave(one, succeeded=False)
    assert port.next(0) is None
    assert port.wait_s(0.04) == pytest.approx(0.06)
    assert begun(port, 0.1) == ["c"]
    assert begun(port, 0.15) == []
    assert begun(port, 0.2) == ["d"]


def test_handshakes_that_succeed_cost_no_turn_however_many_they_are() -> None:
    port = handshakes(turns_max=2, failed_per_s=0.001, waiting_max=100)
    come_ready(port, *(f"{number:02}" for number in range(100)))
    done = 0
    while some := begun(port, 0):
        assert len(some) <= 2
        for one in some:
            port.leave(one, succeeded=True)
        done += len(some)
    assert done == 100


def test_a_success_gives_back_no_more_than_it_took() -> None:
    port = handshakes(turns_max=2, failed_per_s=0.001)
    for one in "abcd":
        port.come(one, US)
        port.leave(one, succeeded=True)
    come_ready(port, "e")
    assert begun(port, 0) == ["e"]
    port.leave("e", succeeded=True)
    port.leave("e", succeeded=True)
    come_ready(port, "f", "g", "h")
    assert begun(port, 100_000) == ["f", "g"], "and quiet times save up no turns"


def test_a_turn_that_came_back_is_there_when_it_was_said_to_be() -> None:
    for rate in (3, 7, 50, 0.3):
        port = handshakes(turns_max=1, failed_per_s=rate)
        now_s = 1_000.1
        for _ in range(100):
            come_ready(port, "a")
            wait_s = port.wait_s(now_s)
            assert wait_s is not None
            now_s += wait_s
            assert begun(port, now_s) == ["a"]
            port.leave("a", succeeded=False)


def test_a_clock_that_goes_back_takes_no_turn() -> None:
    port = handshakes(turns_max=1, failed_per_s=1)
    come_ready(port, "a")
    assert port.wait_s(-5.0) == 0


@given(
    st.lists(
        st.tuples(st.sampled_from(["come", "ready", "next", "succeed", "fail"]), st.integers(0, 9)),
        max_size=200,
    )
)
def test_whatever_happens_the_limits_hold_and_nothing_begins_twice(
    steps: list[tuple[str, int]],
) -> None:
    limits = HandshakeLimits(waiting_max=3, begun_max=2, stalled_s=1, failed_per_s=1, turns_max=3)
    port: Handshakes[int] = Handshakes(limits, 0.0)
    now_s, number = 0.0, 0
    waiting: dict[int, bool] = {}
    began: set[int] = set()
    for what, which in steps:
        now_s += 0.25
        if what == "come":
            number += 1
            waiting[number] = False
            goes = port.come(number, str(which % 3))
            if goes is not None:
                assert goes != number, "the newest stays"
                del waiting[goes]
        elif what == "ready" and waiting:
            one = sorted(waiting)[which % len(waiting)]
            waiting[one] = True
            port.ready(one)
        elif what == "next":
            wait_s, found = port.wait_s(now_s), port.next(now_s)
            assert (wait_s == 0) == (found is not None)
            assert (wait_s is None) == (not any(waiting.values()))
            if found is not None:
                assert waiting.pop(found[0]), "it was ready"
                began.discard(found[1] or 0)
                began.add(found[0])
        elif what in ("succeed", "fail") and (known := sorted({*waiting, *began})):
            one = known[which % len(known)]
            waiting.pop(one, None)
            began.discard(one)
            port.leave(one, succeeded=what == "succeed")
        assert len(port) == len(waiting) + len(began)
        assert len(waiting) <= limits.waiting_max
        assert len(began) <= limits.begun_max
