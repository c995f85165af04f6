"""What a batch lacks of its ack quorum, in words: who has not answered, or which zones are missing.

Only for messages; what counts as acknowledged is decided by ``batches`` and ``quorums``. Pure.
"""

from collections.abc import Collection, Sequence

from zonekeeper.client.writing.batches import Batch
from zonekeeper.client.writing.seats import Seat
from zonekeeper.placement.base.quorums import Quorums


def of_batch(batch: Batch, seats: Sequence[Seat], quorums: Quorums) -> str:
    """Say it of a batch that waited in vain."""
    said = []
    silent = [seat.bookie for seat in seats if batch.lacks(seat.position, quorums)]
    if silent:
        said.append(f"no answer from {', '.join(silent)}")
    answered = [
        seat for seat in seats if seat.position in batch.acked or seat.position in batch.written
    ]
    if len(answered) >= quorums.ack and quorums.ack_zones > 1:
        said.append(f"answers from {of_zones(answered, quorums)}")
    return "; ".join(said)


def of_zones(seats: Collection[Seat], quorums: Quorums) -> str:
    """Say where members stand, and in how many zones an ack quorum has to."""
    placed = (
        f"{seat.bookie} ({'in an unknown zone' if seat.zone is None else f'zone {seat.zone}'})"
        for seat in seats
    )
    return f"{', '.join(placed)}, and an ack quorum needs {quorums.ack_zones} zones"
