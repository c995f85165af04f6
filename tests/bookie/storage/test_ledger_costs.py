"""A ledger costs what ``--ledgers`` says: memory, disk, and room for the next checkpoint."""

import dataclasses
import re
import tracemalloc
from collections.abc import Iterator

from tests.bookie.segments import keeping
from zonekeeper.bookie.formats import checkpoint_format
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint, Kept
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.ledgers import admission, records
from zonekeeper.bookie.life.settings import SETTINGS
from zonekeeper.bookie.segments.reserve import Reserve
from zonekeeper.bookie.storage.memory import Memory
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums

#: Enough that what all share is next to nothing.
LEDGERS = 4_000
HELP = next(each.help for each in SETTINGS if each.name == "ledgers")


def usual() -> Iterator[tuple[LedgerId, Kept]]:
    """Give ledgers that were written to three bookies, and fenced by a recovery."""
    for number in range(LEDGERS):
        ledger_id, token = LedgerId((1 << 40) + number), (1 << 61) + number
        opening = dataclasses.replace(
            keeping.opening(ledger_id),
            quorums=Quorums(ensemble=3, write=3, ack=2),
            ensemble=tuple(BookieId(f"bk-{zone}-{number % 40}") for zone in "abc"),
            create_token=token,
        )
        lac = keeping.sealer(ledger_id).seal_lac(EntryId(1_000))
        state = admission.UNKNOWN
        for record in (
            records.FragmentRecord.of(opening),
            records.FenceRecord(ledger_id=ledger_id, master_key=keeping.KEY, create_token=token),
            records.LacRecord(ledger_id=ledger_id, packet=lac),
        ):
            state = admission.applied(state, record)
        yield ledger_id, Kept(state=state, confirmed=EntryId(1_000))


def size_of(ledgers: dict[LedgerId, Kept]) -> int:
    return len(checkpoint_format.render(Checkpoint(log_id=1, ledgers=ledgers)))


def said(pattern: str) -> float:
    found = re.search(pattern, HELP)
    assert found is not None, HELP
    return float(found[1])


def test_a_usual_ledger_takes_as_much_of_the_disk_as_the_help_says() -> None:
    ledgers = dict(usual())
    told = sum(kept.state.hint_bytes for kept in ledgers.values())
    in_file = (size_of(ledgers) - size_of({})) / LEDGERS
    most = checkpoint_format.bytes_max(ledgers=LEDGERS, hint_bytes=told, tombstones=0)
    reserve = Reserve(0, lambda: most)
    reserve.present_bytes = size_of(ledgers)
    room = reserve.checkpoint_room_bytes / LEDGERS

    assert 0.9 < in_file / said(r"(\d+) bytes of the disk") <= 1
    assert 0.9 < room / said(r"(\d+) bytes that stay free") <= 1


def test_a_usual_ledger_takes_as_much_memory_as_the_help_says() -> None:
    read = dict(usual())
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    memory = Memory(Index(MemoryOrdered()), Checkpoint(log_id=1, ledgers=dict(usual())))
    memory.restarted()
    # The bytes of a checkpoint are kept for the next one.
    for _ in memory.rendered(memory.ledgers.values()):
        pass
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    each = (after - before) / LEDGERS
    assert 0.7 < each / (1_024 * said(r"([\d.]+) KB of memory")) <= 1
    assert memory.hint_bytes == sum(kept.state.hint_bytes for kept in read.values())
