"""The client's half of an Append stream, event by event."""

import contextlib
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.wire.link.worlds import Writer
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.lanes.lanes import Lane, Lanes

TIMEOUT_S = 5.0


@dataclass
class Sink:
    outcomes: dict[int, errors.ProtocolError | None] = field(default_factory=dict)
    rooms: int = 0

    def acked(self, number: int) -> None:
        assert number not in self.outcomes
        self.outcomes[number] = None

    def failed(self, number: int, error: errors.ProtocolError) -> None:
        assert number not in self.outcomes
        self.outcomes[number] = error

    def room(self) -> None:
        self.rooms += 1


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def make(budget_bytes: int = 1 << 20) -> tuple[Lanes, Clock]:
    clock = Clock()
    lanes = Lanes(
        carriers.Hello(boot_epoch=3),
        budget_bytes=budget_bytes,
        timeout_s=TIMEOUT_S,
        clock=clock,
        on_pending=lambda: None,
    )
    return lanes, clock


def numbers(carrier: bytes | None) -> list[int]:
    """The numbers on the stream of what a carrier holds."""
    assert carrier is not None
    items = carriers.parse(carrier)
    return [item.number for item in items if isinstance(item, carriers.Append | carriers.WriteLac)]


def test_numbers_on_the_stream_ascend_though_lanes_take_turns() -> None:
    lanes, _ = make()
    one, two = Lane(lanes, LedgerId(1), Sink()), Lane(lanes, LedgerId(2), Sink())
    for writer, lane in ((Writer(1), one), (Writer(2), two)):
        assert [lane.append(writer.frame(b"x")) for _ in range(3)] == [0, 1, 2]
    sent = carriers.parse(lanes.next_carrier() or b"")
    ledgers = [item.frame.ledger_id for item in sent if isinstance(item, carriers.Append)]
    assert ledgers == [1, 2, 1, 2, 1, 2]
    assert [item.number for item in sent if isinstance(item, carriers.Append)] == list(range(6))


def test_an_ack_of_what_was_never_sent_is_a_broken_bookie() -> None:
    lanes, _ = make()
    Lane(lanes, LedgerId(1), Sink()).append(Writer(1).frame(b"x"))
    with pytest.raises(errors.BadRequest, match="never sent"):
        lanes.received([carriers.Acked(number=0, last=0)])


def test_an_item_that_has_no_business_here_is_a_broken_bookie() -> None:
    lanes, _ = make()
    with pytest.raises(errors.BadRequest):
        lanes.received([carriers.Hello(boot_epoch=1)])


def test_an_ack_of_everything_ever_sent_costs_no_more_than_what_is_outstanding() -> None:
    lanes, _ = make()
    sink = Sink()
    lane = Lane(lanes, LedgerId(1), sink)
    lanes._next_number = 1 << 60
    lane.append(Writer(1).frame(b"x"))
    lanes.next_carrier()
    lanes.received([carriers.Acked(number=0, last=1 << 60)])
    assert sink.outcomes == {0: None}


def test_a_second_answer_changes_nothing() -> None:
    lanes, clock = make()
    sink = Sink()
    Lane(lanes, LedgerId(1), sink).append(Writer(1).frame(b"x"))
    lanes.next_carrier()
    clock.now_s = TIMEOUT_S
    lanes.expire()
    assert isinstance(sink.outcomes[0], errors.Timeout)
    lanes.received([carriers.Acked(number=0, last=0)])
    lanes.received([carriers.Refused(number=0, code=errors.Fenced.code, detail="late")])
    lanes.lost(errors.ConnectionLost("gone"))
    assert isinstance(sink.outcomes[0], errors.Timeout)
    assert lanes.used_bytes == 0


def test_nobody_is_accused_of_the_time_that_this_process_stood_still() -> None:
    lanes, clock = make()
    sink = Sink()
    lane = Lane(lanes, LedgerId(1), sink)
    lane.append(Writer(1).frame(b"answered in time"))
    lanes.next_carrier()
    clock.now_s = 10 * TIMEOUT_S
    lanes.wait_anew()
    lanes.expire()
    lane.append(Writer(1).frame(b"never answered"))
    lanes.next_carrier()
    clock.now_s += TIMEOUT_S / 2
    lanes.expire()
    assert sink.outcomes == {}
    lanes.received([carriers.Acked(number=0, last=0)])
    clock.now_s += TIMEOUT_S / 2
    lanes.expire()
    assert sink.outcomes[0] is None
    assert isinstance(sink.outcomes[1], errors.Timeout)


def test_what_could_not_be_sent_in_time_is_known_not_to_be_there() -> None:
    lanes, clock = make()
    sink = Sink()
    lane, writer = Lane(lanes, LedgerId(1), sink), Writer(1)
    lane.append(writer.frame(b"sent"))
    lanes.next_carrier()
    lane.append(writer.frame(b"never sent"))
    clock.now_s = TIMEOUT_S - 1
    lane.append(writer.frame(b"still fresh"))
    clock.now_s = TIMEOUT_S
    lanes.expire()
    assert isinstance(sink.outcomes[0], errors.Timeout)
    assert isinstance(sink.outcomes[1], errors.TooManyRequests)
    assert numbers(lanes.next_carrier()) == [1]
    assert list(sink.outcomes) == [0, 1]


def test_a_flooding_ledger_leaves_room_for_the_others() -> None:
    lanes, _ = make(budget_bytes=64 << 20)
    flooding, quiet = Sink(), Sink()
    flood, lane = Lane(lanes, LedgerId(1), flooding), Lane(lanes, LedgerId(2), quiet)
    writer, quiet_writer, big = Writer(1), Writer(2), b"x" * (1 << 20)
    with pytest.raises(errors.TooManyRequests):  # noqa: PT012 that it comes at all is the point
        while True:
            flood.append(writer.frame(big))
    assert lanes.used_bytes > 50 << 20
    for _ in range(9):
        lane.append(quiet_writer.frame(b"x" * 100_000))
    for ledger in range(3, 8):
        Lane(lanes, LedgerId(ledger), Sink()).append(Writer(ledger).frame(big))
    with pytest.raises(errors.TooManyRequests):
        flood.append(Writer(1).frame(b"x" * (1 << 20)))
    lanes.next_carrier()
    lanes.received([carriers.Acked(number=0, last=0)])
    assert (flooding.rooms, quiet.rooms) == (0, 0), "half of the budget must be free first"
    while lanes.used_bytes > 32 << 20:
        sent = numbers(lanes.next_carrier())
        lanes.received([carriers.Acked(number=sent[0], last=sent[-1])])
    assert (flooding.rooms, quiet.rooms) == (1, 0)


def test_a_frame_above_the_whole_budget_goes_alone() -> None:
    lanes, _ = make(budget_bytes=1_000)
    lane = Lane(lanes, LedgerId(1), Sink())
    writer = Writer(1)
    lane.append(writer.frame(b"x" * 5_000))
    with pytest.raises(errors.TooManyRequests):
        lane.append(writer.frame(b"x"))


def test_a_sink_may_write_on_from_within_its_ack() -> None:
    lanes, _ = make()
    writer = Writer(1)

    class WritesOn(Sink):
        def acked(self, number: int) -> None:
            super().acked(number)
            if number < 9:
                lane.append(writer.frame(b"next"))

    lane = Lane(lanes, LedgerId(1), sink := WritesOn())
    lane.append(writer.frame(b"first"))
    for number in range(10):
        assert numbers(lanes.next_carrier()) == [number]
        lanes.received([carriers.Acked(number=number, last=number)])
    assert list(sink.outcomes) == list(range(10))


class Opener:
    def __init__(self) -> None:
        self.heard: list[errors.ProtocolError | None] = []

    def __call__(self, error: errors.ProtocolError | None) -> None:
        self.heard.append(error)


def test_an_opening_is_answered_to_who_opens_and_never_to_the_lanes_ear() -> None:
    lanes, _ = make()
    sink, opener, refused = Sink(), Opener(), Opener()
    lane = lanes.open(Writer(1).opening(), sink, opener)
    lanes.open(Writer(2).opening(), Sink(), refused)
    sent = carriers.parse(lanes.next_carrier() or b"")

    assert sent == (
        carriers.Open(number=0, opening=Writer(1).opening()),
        carriers.Open(number=1, opening=Writer(2).opening()),
    )
    code = errors.UnauthorizedAccess("").code
    lanes.received(
        [carriers.Refused(number=1, code=code, detail="no"), carriers.Acked(number=0, last=0)]
    )

    assert opener.heard == [None]
    assert [type(error) for error in refused.heard] == [errors.UnauthorizedAccess]
    assert lane.append(Writer(1).frame(b"x")) == 0
    assert numbers(lanes.next_carrier()) == [2]
    lanes.received([carriers.Acked(number=2, last=2)])
    assert sink.outcomes == {0: None}


def test_an_opening_leaves_though_the_budget_is_spent() -> None:
    lanes, _ = make(budget_bytes=100)
    Lane(lanes, LedgerId(1), Sink()).append(Writer(1).frame(b"x" * 200))
    opener = Opener()
    lanes.open(Writer(2).opening(), Sink(), opener)

    kinds = [type(item) for item in carriers.parse(lanes.next_carrier() or b"")]
    assert kinds == [carriers.Append, carriers.Open]
    lanes.received([carriers.Acked(number=1, last=1)])
    assert opener.heard == [None]


@pytest.mark.parametrize("sent", [True, False])
def test_an_opening_that_has_no_answer_fails_once(sent: bool) -> None:
    lost, late = Opener(), Opener()
    for opener in (lost, late):
        lanes, clock = make()
        lanes.open(Writer(1).opening(), Sink(), opener)
        if sent:
            lanes.next_carrier()
        if opener is late:
            clock.now_s += TIMEOUT_S
            lanes.expire()
        lanes.lost(errors.ConnectionLost("gone"))

    unsent = [[errors.NotConnected], [errors.TooManyRequests]]
    expected = [[errors.ConnectionLost], [errors.Timeout]] if sent else unsent
    assert [[type(error) for error in each.heard] for each in (lost, late)] == expected


def test_nothing_is_opened_on_a_stream_that_is_gone() -> None:
    lanes, _ = make()
    lanes.lost(errors.ConnectionLost("gone"))
    opener = Opener()
    with pytest.raises(errors.NotConnected):
        lanes.open(Writer(1).opening(), Sink(), opener)
    assert opener.heard == []


def test_who_waits_for_room_hears_of_a_lost_connection() -> None:
    lanes, _ = make(budget_bytes=1_000)
    flooding, waiting, idle = Sink(), Sink(), Sink()
    flood = Lane(lanes, LedgerId(1), flooding)
    lane = Lane(lanes, LedgerId(2), waiting)
    quiet = Lane(lanes, LedgerId(3), idle)
    flood.append(Writer(1).frame(b"x" * 800))
    with pytest.raises(errors.TooManyRequests):
        lane.append(Writer(2).frame(b"x" * 300))
    lanes.lost(errors.ConnectionLost("gone"))
    assert (flooding.rooms, waiting.rooms, idle.rooms) == (0, 1, 0)
    assert [each.alive for each in (flood, lane, quiet)] == [False, False, False]
    with pytest.raises(errors.NotOpened):
        lane.append(Writer(2).frame(b"x"))


def test_a_lane_that_is_closed_gives_its_room_to_the_others() -> None:
    lanes, _ = make(budget_bytes=1_000)
    closing, waiting = Sink(), Sink()
    flood, lane = Lane(lanes, LedgerId(1), closing), Lane(lanes, LedgerId(2), waiting)
    flood.append(Writer(1).frame(b"x" * 800))
    with pytest.raises(errors.TooManyRequests):
        lane.append(Writer(2).frame(b"x" * 300))
    flood.close()
    assert isinstance(closing.outcomes[0], errors.NotOpened)
    assert waiting.rooms == 1
    lane.append(Writer(2).frame(b"x" * 300))


class Outcomes(RuleBasedStateMachine):
    """Whatever happens in whatever order: one outcome each, and it tells the truth."""

    def __init__(self) -> None:
        super().__init__()
        self.clock_s = 0.0
        self.lanes, self.clock = make(budget_bytes=3_000)
        self.writers = [Writer(ledger) for ledger in range(3)]
        self.sinks = [Sink() for _ in range(3)]
        self.made: list[Lane] = [
            Lane(self.lanes, LedgerId(n), sink) for n, sink in enumerate(self.sinks)
        ]
        self.accepted = [0, 0, 0]
        self.sent: list[int] = []
        #: What left, as (ledger, number in its lane), by its number on the stream.
        self.left: list[tuple[int, int]] = []
        self.left_of = [0, 0, 0]
        self.lost = False

    @rule(n=st.integers(0, 2), size=st.integers(0, 900))
    def append(self, n: int, size: int) -> None:
        with contextlib.suppress(errors.TooManyRequests, errors.NotOpened):
            number = self.made[n].append(self.writers[n].frame(b"x" * size))
            assert number == self.accepted[n]
            self.accepted[n] += 1

    @rule()
    def send(self) -> None:
        carrier = self.lanes.next_carrier()
        for item in carriers.parse(carrier) if carrier else ():
            assert isinstance(item, carriers.Append)
            n = item.frame.ledger_id
            outcomes = self.sinks[n].outcomes
            number = self.left_of[n]
            while number in outcomes:  # it failed without being sent
                number += 1
            self.left_of[n] = number + 1
            assert item.number == len(self.left)
            self.left.append((n, number))
            self.sent.append(item.number)

    @rule(data=st.data(), ack=st.booleans())
    def answer(self, data: st.DataObject, ack: bool) -> None:
        if not self.sent or self.lost:
            return
        number = data.draw(st.sampled_from(self.sent))
        self.sent.remove(number)
        if ack:
            self.lanes.received([carriers.Acked(number=number, last=number)])
        else:
            refused = carriers.Refused(number=number, code=errors.Fenced.code, detail="no")
            self.lanes.received([refused])

    @rule(wait_s=st.sampled_from((0.0, 3.0, 6.0)))
    def expire(self, wait_s: float) -> None:
        self.clock.now_s += wait_s
        self.lanes.expire()

    @rule(n=st.integers(0, 2))
    def close(self, n: int) -> None:
        self.made[n].close()

    @rule()
    def lose(self) -> None:
        self.lost = True
        self.lanes.lost(errors.ConnectionLost("gone"))
        assert self.lanes.used_bytes == 0
        for n, sink in enumerate(self.sinks):
            assert len(sink.outcomes) == self.accepted[n]

    @invariant()
    def the_budget_holds(self) -> None:
        frames_out = sum(self.accepted) - sum(len(sink.outcomes) for sink in self.sinks)
        assert (self.lanes.used_bytes == 0) == (frames_out == 0)
        assert self.lanes.used_bytes <= 3_000

    @invariant()
    def what_never_left_is_never_called_unknown(self) -> None:
        left = set(self.left)
        for n, sink in enumerate(self.sinks):
            for number, error in sink.outcomes.items():
                assert (n, number) in left or (error is not None and not error.maybe_applied)


TestOutcomes = Outcomes.TestCase
TestOutcomes.settings = settings(deadline=None, max_examples=100)


def leaving() -> tuple[Lanes, Clock, list[bool]]:
    lanes, clock = make()
    ended: list[bool] = []
    lanes.on_left = lambda: ended.append(True)
    return lanes, clock, ended


def test_a_stream_that_is_left_ends_once_its_lanes_are_closed_and_all_has_its_outcome() -> None:
    lanes, _, ended = leaving()
    writer, sink = Writer(1), Sink()
    lane = lanes.open(writer.opening(), sink, lambda _: None)
    lanes.next_carrier()
    lanes.received([carriers.Acked(number=0, last=0)])
    lane.append(writer.frame(b"x"))
    lanes.next_carrier()
    lanes.leave()
    assert lane.append(writer.frame(b"a lane that is open takes more")) == 1
    lanes.received([carriers.Acked(number=1, last=1)])
    lane.close()
    assert isinstance(sink.outcomes[1], errors.NotOpened)
    assert ended == [True]
    assert not lanes.alive
    with pytest.raises(errors.NotConnected):
        lanes.open(writer.opening(), sink, lambda _: None)


def test_a_closed_lane_keeps_a_stream_until_what_was_sent_has_its_outcome() -> None:
    lanes, clock, ended = leaving()
    writer, sink = Writer(1), Sink()
    lane = lanes.open(writer.opening(), sink, lambda _: None)
    lanes.next_carrier()
    lanes.received([carriers.Acked(number=0, last=0)])
    lane.append(writer.frame(b"x"))
    lanes.next_carrier()
    lane.close()
    lanes.leave()
    assert ended == []
    clock.now_s = TIMEOUT_S
    lanes.expire()
    assert ended == [True]


@pytest.mark.parametrize("how", ["refused", "late"])
def test_an_opening_that_failed_keeps_no_stream(how: str) -> None:
    lanes, clock, ended = leaving()
    told: list[errors.ProtocolError | None] = []
    lanes.open(Writer(1).opening(), Sink(), told.append)
    lanes.next_carrier()
    lanes.leave()
    assert ended == []
    if how == "refused":
        lanes.received([carriers.Refused(number=0, code=errors.Fenced.code, detail="no")])
    else:
        clock.now_s = TIMEOUT_S
        lanes.expire()
    assert len(told) == 1
    assert ended == [True]


def test_a_stream_that_was_not_left_does_not_end_because_nothing_is_in_it() -> None:
    lanes, _, ended = leaving()
    lane = lanes.open(Writer(1).opening(), Sink(), lambda _: None)
    lanes.next_carrier()
    lanes.received([carriers.Acked(number=0, last=0)])
    lane.close()
    assert ended == []
    assert lanes.alive
