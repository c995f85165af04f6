"""The children of a node with their values, as one stream of whole states.

Each state is a mapping of all children that exist; none is missing because its value was not read
yet. States may be skipped. The values of different children may be of different moments. The value
of a child never goes back, and the last state of all is always given.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from types import MappingProxyType
from typing import Generic, TypeVar

from zonekeeper.metadata.store.background import TasksBeside, alongside
from zonekeeper.metadata.store.store import MetadataStore, Versioned

Meaning = TypeVar("Meaning")


@asynccontextmanager
async def follow_children(
    store: MetadataStore, path: str
) -> AsyncIterator[AsyncIterator[Mapping[str, Versioned]]]:
    """Follow all children of a node, sorted by name; an absent node has no children."""
    children = _Children(store, path)
    async with alongside(children.run()), aclosing(children.states()) as states:
        yield states


class Meanings(Generic[Meaning]):
    """Gives the meaning of node values, by name; each value is read, and reported, once."""

    def __init__(self, read: Callable[[str, Versioned], Meaning]) -> None:
        self._read = read
        self._known: dict[str, tuple[int, Meaning]] = {}

    def of(self, state: Mapping[str, Versioned]) -> dict[str, Meaning]:
        """Give the meanings of the nodes that exist."""
        before, self._known = self._known, {}
        for name, node in state.items():
            known = before.get(name)
            if known is None or known[0] != node.modified_id:
                known = (node.modified_id, self._read(name, node))
            self._known[name] = known
        return {name: meaning for name, (_, meaning) in self._known.items()}


class _Children:
    def __init__(self, store: MetadataStore, path: str) -> None:
        self._store = store
        self._path = path
        self._following: dict[str, asyncio.Task[None]] = {}
        self._values: dict[str, Versioned | None] = {}
        self._changed = asyncio.Event()
        self._names_known = False

    async def run(self) -> None:
        """Follow the names, and the value of each name."""
        async with alongside() as group, self._store.watch_children(self._path) as states:
            try:
                async for names in states:
                    self._adopt(names or (), group)
                    self._names_known = True
                    self._changed.set()
            finally:
                self._adopt((), group)

    def _adopt(self, names: tuple[str, ...], group: TasksBeside) -> None:
        for gone in sorted(self._following.keys() - set(names)):
            self._following.pop(gone).cancel()
            self._values.pop(gone, None)
        for name in names:
            if name not in self._following:
                self._following[name] = group.create_task(self._follow_value(name))

    async def _follow_value(self, name: str) -> None:
        async with self._store.watch(f"{self._path}/{name}") as states:
            async for state in states:
                self._values[name] = state
                self._changed.set()

    async def states(self) -> AsyncGenerator[Mapping[str, Versioned], None]:
        last: dict[str, Versioned] | None = None
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self._names_known or len(self._values) < len(self._following):
                continue
            state = {
                name: value for name, value in sorted(self._values.items()) if value is not None
            }
            if state != last:
                last = state
                yield MappingProxyType(state)
