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
    assert len(send(held, 4).many) == 1

    monkeypatch.setattr(batches, "MESSAGES_MAX", 7)
    put(held, 10)
    assert len(send(held, 5).many) == 7


def test_what_is_acknowledged_frees_its_bytes_and_has_an_id() -> None:
    held = Unsent(0)
    put(held, 5)
    send(held, 1)
    put(held, 3)
    send(held, 2)
    assert (held.used_bytes, held.in_flight, held.acked) == (80, 2, 0)
    assert held.id_of(0) is None

    held.confirmed(EntryId(1))

    assert (held.used_bytes, held.in_flight, held.acked) == (30, 1, 5)
    assert held.id_of(4) == MessageId(LedgerId(1), EntryId(1), 4)
    assert held.id_of(5) is None
    assert (held.first_sent, held.in_flight) == (2, 1)


def test_an_id_that_is_forgotten_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsent, "REMEMBERED_MAX", 2)
    held = Unsent(0)
    for entry in range(1, 5):
        put(held, 1)
        send(held, entry)
    held.confirmed(EntryId(4))

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

    assert (held.acked, held.in_flight) == (ends[kept], 0)
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


@given(st.lists(st.sampled_from(["append", "send", "confirm", "fail", "put back"]), max_size=80))
def test_in_any_history_each_message_is_stored_once_and_in_order(steps: list[str]) -> None:
    held, ledgers = Unsent(0), [list[OutgoingBatch]()]
    for step in [*steps, "send", "fail"]:
        present = ledgers[-1]
        if step == "append":
            put(held, 2)
        elif step == "send" and held.has_unsent:
            batch = held.take()
            held.sent(batch, LedgerId(len(ledgers)), EntryId(len(present)))
            present.append(batch)
        elif step == "put back" and held.has_unsent:
            held.put_back(held.take())
        elif step == "confirm" and held.in_flight:
            first = held.first_sent
            assert first is not None
            held.confirmed(first)
        elif step == "fail":
            del present[len(present) - held.in_flight // 2 :]  # a part of it was never stored
            held.moved(present[-1].end if present else held.acked)
            ledgers.append([])
    stored = [int(message.payload) for one in ledgers for batch in one for message in batch.many]
    assert stored == list(range(len(stored)))
    assert held.acked == len(stored)
