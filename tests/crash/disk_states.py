"""Every state in which a power loss may leave a disk, from one moment on.

A *moment* is a disk between two calls: what is surely on it, and what was asked for since. Of the
latter, each change of a name is there or not; each write is there, or not, or in part: any of its
sectors, or its first so many bytes. The index has any number of its writes, from none to all.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from zonekeeper.bookie.disk.memory_content import Content
from zonekeeper.bookie.disk.memory_files import (
    Inode,
    MemoryFileSystem,
    NameChange,
    Unlink,
    WrittenBytes,
    _apply,
    _apply_name,
    sectors,
)
from zonekeeper.bookie.formats.index import Change, MemoryOrdered

#: So many states of one moment are looked at; if there are more, they are drawn.
STATES_OF_A_MOMENT = 24
#: Writes of so many sectors are torn in every way; larger ones are cut in two.
_SECTORS_ALL_WAYS = 3


@dataclass(frozen=True)
class Disk:
    """A moment of a file system."""

    names: dict[str, Inode]
    changes: Sequence[NameChange]

    @staticmethod
    def of(files: MemoryFileSystem) -> "Disk":
        copies: dict[int, Inode] = {}

        def copied(inode: Inode) -> Inode:
            return copies.setdefault(
                id(inode), Inode(durable=inode.durable, pending=list(inode.pending))
            )

        changes = [
            change if isinstance(change, Unlink) else replace(change, inode=copied(change.inode))
            for change in files._pending
        ]
        names = {name: copied(inode) for name, inode in files._durable.items()}
        return Disk(names=names, changes=changes)

    def states(self, chance: random.Random) -> Iterator[MemoryFileSystem]:
        """Give all states, or as many drawn ones."""
        for kept in _all_or_some(self._names, chance):
            there, inodes, ways = self._with(kept, chance)
            for chosen in _all_or_some(_flat(ways), chance):
                yield _disk_of(there, inodes, ways, chosen)

    def drawn(self, chance: random.Random) -> MemoryFileSystem:
        """Give one of its states."""
        there, inodes, ways = self._with(_one(self._names, chance), chance)
        return _disk_of(there, inodes, ways, _one(_flat(ways), chance))

    @property
    def _names(self) -> Sequence[tuple[bool, bool]]:
        return [(False, True)] * len(self.changes)

    def _with(
        self, kept: Sequence[object], chance: random.Random
    ) -> "tuple[dict[str, Inode], list[Inode], list[list[tuple[_Way, ...]]]]":
        """Give the names that are there when these changes of them are, their files, and ways."""
        there = dict(self.names)
        for change, is_kept in zip(self.changes, kept, strict=True):
            if is_kept:
                _apply_name(there, change)
        inodes = list({id(inode): inode for inode in there.values()}.values())
        return there, inodes, [_ways(inode, chance) for inode in inodes]

    def count(self) -> int:
        """How many changes are in doubt."""
        return len(self.changes) + sum(len(inode.pending) for inode in self.names.values())


def index_state(
    writes: Sequence[Sequence[Change]], synced: int, chance: random.Random
) -> MemoryOrdered:
    """The index as it is, as a power loss leaves it, as an older flush left it, or none."""
    older = chance.randrange(len(writes) + 1)
    return MemoryOrdered(writes[: chance.choice((0, older, synced, len(writes)))])


#: A way for a change to be on the disk: the pieces of it that are.
_Way = tuple[object, ...]


def _ways(inode: Inode, chance: random.Random) -> list[tuple[_Way, ...]]:
    return [_ways_of(change, chance) for change in inode.pending]


def _ways_of(change: object, chance: random.Random) -> tuple[_Way, ...]:
    if not isinstance(change, WrittenBytes):
        return (), (change,)
    pieces = sectors(change)
    torn: list[_Way] = []
    if len(pieces) <= _SECTORS_ALL_WAYS:
        for size in range(1, len(pieces)):
            torn += itertools.combinations(pieces, size)
    else:
        at = chance.randrange(1, len(pieces))
        torn += [tuple(pieces[:at]), tuple(pieces[at:])]
    cut = chance.randrange(max(1, len(change.data)))
    torn.append((WrittenBytes(offset=change.offset, data=change.data[:cut]),))
    return (), (change,), *torn


def _all_or_some(
    choices: Sequence[Sequence[object]], chance: random.Random
) -> Iterator[tuple[object, ...]]:
    count = 1
    for each in choices:
        count *= len(each)
    if count <= STATES_OF_A_MOMENT:
        yield from itertools.product(*choices)
        return
    yield tuple(each[0] for each in choices)
    yield tuple(each[1] for each in choices)
    for _ in range(STATES_OF_A_MOMENT - 2):
        yield tuple(map(chance.choice, choices))


def _one(choices: Sequence[Sequence[object]], chance: random.Random) -> tuple[object, ...]:
    """Draw one way for all: none of what is in doubt, all of it, or any of it."""
    extreme = chance.choice((0, 1, None, None))
    if extreme is not None:
        return tuple(each[extreme] for each in choices)
    return tuple(map(chance.choice, choices))


def _flat(ways: "Sequence[Sequence[tuple[_Way, ...]]]") -> "list[tuple[_Way, ...]]":
    return [way for of_inode in ways for way in of_inode]


def _disk_of(
    names: dict[str, Inode],
    inodes: Sequence[Inode],
    ways: Sequence[Sequence[object]],
    chosen: Sequence[object],
) -> MemoryFileSystem:
    contents: dict[int, Content] = {}
    at = 0
    for inode, of_inode in zip(inodes, ways, strict=True):
        content = inode.durable.copied()
        for way in chosen[at : at + len(of_inode)]:
            assert isinstance(way, tuple)
            for piece in way:
                _apply(content, piece)
        at += len(of_inode)
        contents[id(inode)] = content
    files = MemoryFileSystem()
    made: dict[int, Inode] = {}
    for name, inode in sorted(names.items()):
        if id(inode) not in made:
            content = contents[id(inode)]
            made[id(inode)] = Inode(seen=content.copied(), durable=content)
        files._seen[name] = files._durable[name] = made[id(inode)]
    return files
