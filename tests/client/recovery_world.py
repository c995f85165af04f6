"""Ledgers that wait for a recovery, and what is found of them."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

from tests.client.lab import Door, Lab
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.api.writer import Writer
from zonekeeper.metadata.formats import ledger_format
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors, frames

STRIPED = Quorums(ensemble=6, write=3, ack=2, ack_zones=2)


def data(number: int) -> bytes:
    return b"entry %d" % number


async def written(
    client: clients.Client, count: int, quorums: Quorums | None = None, *, told: bool = False
) -> Writer:
    """A writer with so many acknowledged entries, which tells its last LAC only with ``told``."""
    writer = await client.create(quorums=quorums)
    for number in range(count):
        await writer.append(data(number))
    await writer.flush()
    if told:
        await asyncio.sleep(0.2)
    return writer


async def append_to(lab: Lab, writer: Writer, holders: Sequence[BookieId], payload: bytes) -> None:
    """Let an entry reach some bookies only, without an acknowledgement; then the writer dies."""
    for who in writer.ensemble:
        if who not in holders:
            lab.door(who).holding = True
    writer.append_nowait(payload)
    await asyncio.sleep(0.5)
    writer.halt()


def forget_held(lab: Lab) -> None:
    """Open all doors; what was held before them is lost."""
    for machine in lab.machines.values():
        machine.doorway.holding = False
        machine.doorway.held.clear()


async def left_with_a_tail(lab: Lab, client: clients.Client, count: int) -> Writer:
    """Leave three entries of which all are told, and some behind them at one bookie only."""
    writer = await written(client, 3, told=True)
    for who in writer.ensemble[1:]:
        lab.door(who).holding = True
    for number in range(3, 3 + count):
        writer.append_nowait(data(number))
        await asyncio.sleep(0.01)
    assert writer.last_confirmed == 2
    writer.halt()
    forget_held(lab)
    return writer


async def set_back(lab: Lab, ledger_id: LedgerId, ledger: LedgerMetadata) -> None:
    """Let the store show a ledger as it was once."""
    cluster = await lab.cluster()
    path = ledgers.path(cluster, ledger_id)
    node = await cluster.store.get(path, sync=True)
    assert node is not None
    await cluster.store.put(path, ledger_format.render(ledger), version=node.version)


async def payloads(reader: Reader) -> list[bytes]:
    return [entry.payload async for entry in reader.read_entries()]


async def entries_at(lab: Lab, who: BookieId, ledger_id: LedgerId, first: int) -> list[int]:
    """What a bookie holds of a ledger, from an entry on."""
    try:
        listed = await lab.door(who).list_entries(
            service.ListEntriesRequest(
                ledger_id=ledger_id, first_entry_id=EntryId(first), ranges_max=100
            )
        )
    except errors.NoSuchLedger:
        return []
    return [number for low, high in listed.ranges for number in range(low, high + 1)]


def spoil(door: Door) -> None:
    """Let a bookie give entries whose digest does not match, as a bad disk does."""

    def spoiled(reply: service.ReadReply) -> service.ReadReply:
        parts = []
        for frame in reply.frames:
            packets = bytearray(frame.packets)
            packets[-1] ^= 1
            ids = frame.entry_ids
            cut = [0, *frame.ends]
            pieces = [bytes(packets[a:b]) for a, b in pairwise(cut)]
            parts.append(frames.build(frame.ledger_id, ids, pieces))
        return service.ReadReply(
            frames=tuple(parts),
            next_entry_id=reply.next_entry_id,
            last_add_confirmed=reply.last_add_confirmed,
        )

    door.spoil = spoiled
