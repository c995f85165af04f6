"""Say in words what a batch lacks for its ack quorum: answers of bookies, or of zones. Pure.

The words are for messages only. ``batches`` and ``quorums`` decide what counts as acknowledged.
"""

from collections.abc import Collection, Sequence

from zonekeeper.client.base import errors
from zonekeeper.client.writing.batches import Batch
from zonekeeper.client.writing.seats import Seat
from zonekeeper.placement.base.quorums import Quorums


def of_batch(batch: Batch, seats: Sequence[Seat], quorums: Quorums) -> str:
    """Say what is missing for a batch that was not acknowledged in time."""
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
    """Name the zones of members, and say how many zones an ack quorum needs."""
    placed = (
        f"{seat.bookie} ({'in an unknown zone' if seat.zone is None else f'zone {seat.zone}'})"
        for seat in seats
    )
    return f"{', '.join(placed)}, and an ack quorum needs {quorums.ack_zones} zones"


def of_failed(failed: Collection[Seat]) -> str:
    """Say why each of these members failed."""
    return "; ".join(
        errors.describe(seat.bookie, seat.error) for seat in failed if seat.error is not None
    )


def of_change(failed: Collection[Seat], unknown: Exception | None) -> str:
    """Say that a change of the ensemble has no outcome yet, and why (``unknown``)."""
    names = ", ".join(seat.bookie for seat in failed)
    doubt = f"the metadata store does not confirm a replacement of {names}"
    return f"{doubt}: {unknown or 'no answer'}"
