"""Say in words what a batch lacks for its ack quorum: answers of bookies, or of zones. Pure.

The words are for messages only. ``batches`` and ``quorums`` decide what counts as acknowledged.
"""

from collections.abc import Collection, Sequence
from typing import Final

from zonekeeper.client.base import errors
from zonekeeper.client.writing.batches import Batch
from zonekeeper.client.writing.seats import Seat
from zonekeeper.placement.base.quorums import Quorums

#: The way out for the application.
ELSEWHERE: Final = (
    "write to a new ledger: at once if the policy's quorums can be had without the zones that are "
    "down, else when there are bookies in more zones"
)


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


def of_quorum(seats: Collection[Seat], quorums: Quorums) -> str:
    """Say how many bookies, in how many zones, an ack needs, and how many of the members do."""
    left = [seat for seat in seats if not seat.failed]
    zones = {seat.zone for seat in left if seat.zone is not None}
    where = f", in {quorums.ack_zones} zones" if quorums.ack_zones > 1 else ""
    needed = f"an ack needs {quorums.ack} of an entry's {quorums.write} bookies{where}"
    if not left:
        return f"{needed}, and none is left"
    named = ", ".join(f"{seat.bookie} (zone {seat.zone or 'unknown'})" for seat in left)
    counted = f"{len(left)} {'is' if len(left) == 1 else 'are'} left"
    spread = f", in {len(zones)} zone{'s' * (len(zones) != 1)}" if quorums.ack_zones > 1 else ""
    return f"{needed}, and {counted}{spread}: {named}"


def of_loss(seats: Collection[Seat], quorums: Quorums, why: Exception) -> str:
    """Say which members failed, what is left, and why nobody replaces them (``why``)."""
    failed = of_failed([seat for seat in seats if seat.failed])
    lack = of_quorum(seats, quorums)
    return f"{failed}; {lack}; and no bookie can replace those that failed: {why}; {ELSEWHERE}"


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
