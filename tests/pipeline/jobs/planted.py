"""Ledgers on real bookies, with copies that are missing, damaged or another entry: known faults."""

import random
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.replication.decisions.copies import FaultKind
from zonekeeper.replication.repair.delivery import Delivery
from zonekeeper.wire.formats import digests, entries, frames
from zonekeeper.wire.formats.frames import Flags
from zonekeeper.wire.formats.openings import FragmentOpening

PLAIN: Final = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)
STRIPED: Final = Quorums(ensemble=6, write=3, ack=2, ack_zones=2)
ENTRIES: Final = 150
FRAME_ENTRIES: Final = 50


class Planted(NamedTuple):
    """One copy that is not as it should be."""

    ledger_id: int
    entry_id: int
    bookie: str
    fault: FaultKind


async def plant(
    client: Client, first: int, ledgers_count: int, faults: int, chance: random.Random
) -> list[Planted]:
    """Write ledgers from an id on, every second one striped; give the faults, one an entry."""
    planted: list[Planted] = []
    places = [(first + at, entry) for at in range(ledgers_count) for entry in range(ENTRIES)]
    chosen = set(chance.sample(places, faults))
    for at in range(ledgers_count):
        quorums = STRIPED if at % 2 else PLAIN
        ledger_id = LedgerId(first + at)
        ensemble = client.bookies.choose(quorums)
        faulty: dict[int, tuple[BookieId, FaultKind]] = {}
        for entry in range(ENTRIES):
            if (ledger_id, entry) in chosen:
                position = chance.choice(quorums.write_set(EntryId(entry)))
                kinds = (FaultKind.MISSING, FaultKind.BAD, FaultKind.DIFFERING)
                faulty[entry] = ensemble[position], chance.choice(kinds)
        await _write(client, ledger_id, quorums, ensemble, faulty)
        planted += [Planted(ledger_id, entry, *one) for entry, one in faulty.items()]
    return planted


async def _write(
    client: Client,
    ledger_id: LedgerId,
    quorums: Quorums,
    ensemble: tuple[BookieId, ...],
    faulty: Mapping[int, tuple[BookieId, FaultKind]],
) -> None:
    policy = client.bookies.policy
    payloads = [b"%d of %d" % (entry, ledger_id) for entry in range(ENTRIES)]
    stamp = placement_stamp.render(quorums, policy.placement, policy.version)
    metadata = LedgerMetadata(
        ensemble_size=quorums.ensemble,
        write_quorum=quorums.write,
        ack_quorum=quorums.ack,
        fragments=(Fragment(EntryId(0), ensemble),),
        digest=Digest.CRC32C,
        password=b"",
        state=LedgerState.CLOSED,
        last_entry=EntryId(ENTRIES - 1),
        length=sum(map(len, payloads)),
        custom=((placement_stamp.KEY, stamp),),
        create_token=ledger_id + 1,
    )
    await ledgers.create(client.cluster, metadata, ledger_id=ledger_id)
    opening = FragmentOpening(
        ledger_id=ledger_id,
        master_key=digests.master_key(b""),
        quorums=quorums,
        digest=Digest.CRC32C,
        first_entry_id=EntryId(0),
        ensemble=ensemble,
        create_token=metadata.create_token,
    )
    sealer = entries.Sealer(ledger_id, Digest.CRC32C, b"")
    for position, bookie in enumerate(ensemble):
        share = [one for one in range(ENTRIES) if quorums.holds(position, EntryId(one))]
        delivery = Delivery(client.bookies, bookie, opening)
        for start in range(0, len(share), FRAME_ENTRIES):
            packets = _packets(
                sealer, payloads, share[start : start + FRAME_ENTRIES], bookie, faulty
            )
            ids = list(map(EntryId, packets))
            await delivery.put(frames.build(ledger_id, ids, list(packets.values()), Flags.RECOVERY))
        delivery.close()


def _packets(
    sealer: entries.Sealer,
    payloads: Sequence[bytes],
    some: Sequence[int],
    bookie: BookieId,
    faulty: Mapping[int, tuple[BookieId, FaultKind]],
) -> dict[int, bytes]:
    """Give the packets of some entries as a bookie is to have them."""
    made = {}
    for entry in some:
        holder, fault = faulty.get(entry, (None, None))
        mine = fault if holder == bookie else None
        if mine is FaultKind.MISSING:
            continue
        payload = payloads[entry]
        length = sum(map(len, payloads[: entry + 1]))
        if mine is FaultKind.DIFFERING:
            payload = payload[::-1]
        packet = sealer.seal(EntryId(entry), EntryId(entry - 1), length, payload)
        if mine is FaultKind.BAD:
            at = entries.HEADER_BYTES + entry % (len(packet) - entries.HEADER_BYTES)
            packet = packet[:at] + bytes([packet[at] ^ 1 << entry % 8]) + packet[at + 1 :]
        made[entry] = packet
    return made
