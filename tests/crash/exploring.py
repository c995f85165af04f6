"""From lives to states: each is started and checked, and crashed and started once more."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import LedgerPromise
from tests.crash import lives
from tests.crash.disk_states import index_state
from tests.crash.lives import Moment, Recorder
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem, no_troubles
from zonekeeper.bookie.formats.index import MemoryOrdered


@dataclass
class Explored:
    """What was looked at."""

    states: int = 0
    lives: int = 0
    acknowledged: int = 0
    #: States that differ from a clean stop of the same moment.
    in_doubt: int = 0
    fenced: int = 0
    moved_marks: int = 0
    kinds: set[str] = field(default_factory=set)


async def explore(shard: int, states: int) -> Explored:
    """Look at so many states, of lives that follow from the shard; raises at the first bad one."""
    explored = Explored()
    while explored.states < states:
        seed = shard * 1_000 + explored.lives
        chance = random.Random(seed)
        recorder = await lives.play(seed)
        explored.lives += 1
        explored.kinds |= recorder.kinds
        last = recorder.moments[-1]
        explored.acknowledged += sum(len(each.entries) for each in last.promised.values())
        explored.fenced += sum(each.fenced for each in last.promised.values())
        explored.moved_marks += last.mark > (0, 0)
        explored.states += await _restart(recorder, chance)
        # A life has thousands of states; a few hundred of each, from all over it, see more lives.
        for moment in chance.sample(recorder.moments, min(40, len(recorder.moments))):
            for files, store in _some(moment, chance):
                await _one(files, store, moment, chance)
                explored.states += 1
                explored.in_doubt += moment.disk.count() > 0
    return explored


async def _one(
    files: MemoryFileSystem, store: MemoryOrdered, moment: Moment, chance: random.Random
) -> None:
    later = await lives.start_and_check(files, store, moment, chance)
    again, index = _drawn(later, chance)
    kept = await keeping.opened(again, index)
    lives.check_mark(again, later)
    await keeping.check(kept, later.promised)


async def _restart(recorder: Recorder, chance: random.Random) -> int:
    """A process dies, and the next one sees what the kernel has; then the power is lost.

    After a failed sync the kernel shows what it will not write any more. Gives how many states.
    """
    recorder.files.troubles = no_troubles
    last = recorder.moments[-1]
    store = MemoryOrdered(recorder.store.writes)
    seen = Recorder(files=recorder.files, store=store, inherited=last.promised, mark=last.mark)
    kept = await keeping.opened(recorder.files, store)
    shown: dict[int, LedgerPromise] = await keeping.check(kept, last.promised)
    seen.inherited = shown
    seen.note()
    states = list(_some(seen.moments[-1], chance))
    for files, index in states:
        await keeping.check(await keeping.opened(files, index), shown)
    return len(states)


def _some(
    moment: Moment, chance: random.Random
) -> Iterator[tuple[MemoryFileSystem, MemoryOrdered]]:
    for files in moment.disk.states(chance):
        yield files, _index(moment, chance)


def _drawn(moment: Moment, chance: random.Random) -> tuple[MemoryFileSystem, MemoryOrdered]:
    return moment.disk.drawn(chance), _index(moment, chance)


def _index(moment: Moment, chance: random.Random) -> MemoryOrdered:
    return index_state(moment.index_writes, moment.index_synced, chance)
