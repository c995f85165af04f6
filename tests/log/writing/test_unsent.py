"""What a writer holds: nothing twice, nothing out of order, and what is sent again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.log.formats import batches
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.writing import unsent
from zonekeeper.log.writing.unsent import BATCH_BYTES_AIM, OutgoingBatch, Unsent
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.placement.base.ids import EntryId, LedgerId

ONE = LedgerId(1)
TWO = LedgerId(2)


def put(held: Unsent, count: int, size: int = 10) -> None:
    for _ in range(count):
        message = LogMessage(payload=b"%d" % held.given)
        held.append(message, size)


def send(held: Unsent, entry: int, ledger: int = 1) -> OutgoingBatch:
    batch = held.take()
    held.sent(batch, LedgerId(ledger), EntryId(entry))
    return batch


def test_a_batch_takes_what_is_pending() -> None:
    held = Unsent(40)
    put(held, 3)
    one = send(held, 1)
    put(held, 2)
    two = send(held, 2)

    assert [(one.first, one.end), (two.first, two.end)] == [(40, 43), (43, 45)]
    assert [message.payload for message in two.many] == [b"43", b"44"]
    assert not held.has_unsent


def test_a_batch_is_bounded_in_bytes_and_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Unsent(0)
    put(held, 5, BATCH_BYTES_AIM // 2)
    assert [len(send(held, at).many) for at in range(3)] == [2, 2, 1]

    put(held, 1, 2 * BATCH_BYTES_AIM)
    assert len(send(held, 3).many) == 1

    monkeypatch.setattr(batches, "MESSAGES_MAX", 7)
    put(held, 10)
    assert len(send(held, 4).many) == 7


def test_what_is_acknowledged_frees_its_bytes_and_has_an_id() -> None:
    held = Unsent(0)
    put(held, 5)
    send(held, 1)
    put(held, 3)
    send(held, 2)
    assert (held.used_bytes, held.in_flight(ONE), held.acked) == (80, 2, 0)
    assert held.id_of(0) is None

    held.confirmed(ONE, EntryId(1))

    assert (held.used_bytes, held.in_flight(ONE), held.acked) == (30, 1, 5)
    assert held.id_of(4) == MessageId(LedgerId(1), EntryId(1), 4)
    assert held.id_of(5) is None
    assert (held.first_sent(ONE), held.in_flight(ONE)) == (2, 1)


def test_an_id_that_is_forgotten_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsent, "REMEMBERED_MAX", 2)
    held = Unsent(0)
    for entry in range(1, 5):
        put(held, 1)
        send(held, entry)
    held.confirmed(ONE, EntryId(4))

    assert [held.id_of(at) for at in range(5)] == [
        None,
        None,
        MessageId(LedgerId(1), EntryId(3), 0),
        MessageId(LedgerId(1), EntryId(4), 0),
        None,
    ]


@pytest.mark.parametrize("kept", range(4))
def test_exactly_what_a_failed_ledger_does_not_hold_is_sent_again(kept: int) -> None:
    held = Unsent(0)
    ends = [0]
    for entry in range(1, 4):
        put(held, entry)
        ends.append(send(held, entry).end)
    put(held, 2)

    held.moved(ends[kept])

    assert (held.acked, held.in_flight(ONE)) == (ends[kept], 0)
    again = [send(held, entry, ledger=2) for entry in range(1, 5 - kept)]
    assert [one.first for one in again] == ends[kept:]
    assert [int(message.payload) for one in again for message in one.many] == list(
        range(ends[kept], 8)
    )


def test_a_ledger_that_ended_inside_a_batch_is_a_bug_and_not_passed_over() -> None:
    held = Unsent(0)
    put(held, 3)
    send(held, 1)

    with pytest.raises(AssertionError, match="inside of a batch"):
        held.moved(2)


def test_a_batch_of_the_new_ledger_is_acknowledged_behind_all_of_the_old_one() -> None:
    held = Unsent(0)
    put(held, 2)
    send(held, 1)
    put(held, 2)
    send(held, 2)
    put(held, 3)
    send(held, 1, ledger=2)

    held.confirmed(TWO, EntryId(1))
    assert (held.acked, held.in_flight(ONE), held.in_flight(TWO)) == (0, 2, 0)

    held.confirmed(ONE, EntryId(1))
    assert (held.acked, held.in_flight(ONE)) == (2, 1)

    held.confirmed(ONE, EntryId(2))
    assert held.acked == 7
    assert held.used_bytes == 0
    assert held.id_of(6) == MessageId(TWO, EntryId(1), 2)


def test_what_the_new_ledger_confirmed_is_sent_again_where_the_old_one_lost_something() -> None:
    held = Unsent(0)
    for entry, ledger in ((1, 1), (2, 1), (1, 2)):
        put(held, 1)
        send(held, entry, ledger)
    held.confirmed(TWO, EntryId(1))

    held.moved(1)

    assert held.acked == 1
    assert [held.in_flight(one) for one in (ONE, TWO)] == [0, 0]
    assert [send(held, entry, 3).first for entry in (1, 2)] == [1, 2]


def test_with_deferred_sync_written_is_stored_and_kept_until_it_is_confirmed() -> None:
    held = Unsent(0)
    put(held, 2)
    send(held, 1)
    put(held, 2)
    send(held, 2)

    held.written(ONE, EntryId(1))
    assert (held.stored, held.acked, held.used_bytes) == (2, 0, 40)
    assert (held.in_flight(ONE), held.unconfirmed(ONE), held.first_sent(ONE)) == (1, 2, 2)
    held.written(ONE, EntryId(2))
    assert (held.stored, held.in_flight(ONE), held.first_sent(ONE)) == (4, 0, None)

    held.confirmed(ONE, EntryId(1))
    assert (held.stored, held.acked, held.used_bytes) == (4, 2, 20)
    held.confirmed(ONE, EntryId(2))
    assert (held.acked, held.unconfirmed(ONE), held.used_bytes) == (4, 0, 0)


def test_what_was_stored_and_lost_is_stored_no_more_and_sent_again() -> None:
    held = Unsent(0)
    put(held, 2)
    send(held, 1)
    put(held, 2)
    send(held, 2)
    held.written(ONE, EntryId(2))

    held.moved(2)

    assert (held.stored, held.acked) == (2, 2)
    assert (send(held, 1, ledger=2).first, held.has_unsent) == (2, False)
    held.confirmed(TWO, EntryId(1))
    assert (held.stored, held.acked) == (4, 4)


def test_nothing_of_a_new_ledger_is_stored_before_all_of_the_old_one_is_confirmed() -> None:
    """Written is not enough: a loss of power would drop the new ledger, and all that it has."""
    held = Unsent(0)
    put(held, 1)
    send(held, 1)
    put(held, 1)
    send(held, 1, ledger=2)
    held.written(ONE, EntryId(1))
    held.written(TWO, EntryId(1))
    assert held.stored == 1
    held.confirmed(TWO, EntryId(1))
    assert (held.stored, held.acked) == (1, 0)
    held.confirmed(ONE, EntryId(1))
    assert (held.stored, held.acked) == (2, 2)


def test_messages_of_a_list_go_into_one_batch_or_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = Unsent(5)
    many = [LogMessage(payload=b"%d" % number) for number in range(5, 9)]
    put(held, 1, BATCH_BYTES_AIM - 40)
    assert not held.extend(many, 41)
    assert held.extend(many, 40)
    assert (held.given, held.used_bytes, held.has_full) == (10, BATCH_BYTES_AIM, False)
    put(held, 1)
    assert held.has_full
    assert [(one.first, one.end) for one in (held.take(), held.take())] == [(5, 10), (10, 11)]

    assert not held.extend(many, BATCH_BYTES_AIM + 1), "not even into an empty batch"
    monkeypatch.setattr(batches, "MESSAGES_MAX", 3)
    assert not held.extend(many, 40)
    assert held.given == 11


class Ledgers:
    """What the ledgers of a log hold, when batches are sent to them as at rotations."""

    def __init__(self) -> None:
        self.held = Unsent(0)
        #: Ledgers that have their end.
        self.whole: list[list[OutgoingBatch]] = []
        #: The ledgers that are written: the old one first, if a rotation is under way.
        self.written: list[list[OutgoingBatch]] = [[]]

    def id_of(self, at: int) -> LedgerId:
        return LedgerId(len(self.whole) + at)

    def send(self) -> None:
        batch = self.held.take()
        present = self.written[-1]
        self.held.sent(batch, self.id_of(len(self.written) - 1), EntryId(len(present)))
        present.append(batch)

    def change(self) -> None:
        if len(self.written) == 1 and self.written[0]:
            self.written.append([])

    def confirm(self, at: int) -> None:
        at = min(at, len(self.written) - 1)
        if (first := self.held.first_sent(self.id_of(at))) is not None:
            self.held.confirmed(self.id_of(at), first)
        if len(self.written) == 2 and not self.held.in_flight(self.id_of(0)):
            self.whole.append(self.written.pop(0))

    def fail(self, lost: int) -> None:
        """Lose what an ack quorum need not have: a part of the old ledger, or of the new one."""
        old, *new = self.written
        kept = len(old) - min(lost, self.held.in_flight(self.id_of(0)))
        is_whole = kept == len(old)
        ledgers = [old[:kept]]
        for one in new if is_whole else ():
            ledgers.append(one[: len(one) - min(lost, self.held.in_flight(self.id_of(1)))])
        self.whole += ledgers
        ends = [batch.end for one in self.whole for batch in one]
        self.held.moved(ends[-1] if ends else 0)
        self.whole += [[]] * (len(self.written) - len(ledgers))  # ids are never used again
        self.written = [[]]

    @property
    def stored(self) -> list[int]:
        every = [batch for one in (*self.whole, *self.written) for batch in one]
        return [int(message.payload) for batch in every for message in batch.many]


STEPS = ("append", "send", "change", "confirm 0", "confirm 1", "fail 0", "fail 1", "fail 2", "back")


@given(st.lists(st.sampled_from(STEPS), max_size=80))
def test_in_any_history_each_message_is_stored_once_and_in_order(steps: list[str]) -> None:
    ledgers = Ledgers()
    held = ledgers.held
    for step in [*steps, "fail 0"]:
        what, _, number = step.partition(" ")
        if what == "append":
            put(held, 2)
        elif what == "send" and held.has_unsent:
            ledgers.send()
        elif what == "back" and held.has_unsent:
            held.put_back(held.take())
        elif what == "change":
            ledgers.change()
        elif what == "confirm":
            ledgers.confirm(int(number))
        elif what == "fail":
            ledgers.fail(int(number))
        before = ledgers.stored
        assert before[: held.acked] == list(range(held.acked)), "acknowledged, and not stored"
    assert ledgers.stored == list(range(held.acked))
