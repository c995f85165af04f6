"""A node's children with their values, as one stream of whole states.

Each state is a mapping of all children that are there, none missing that had not been read yet.
States may be skipped, and values of different children may be of different moments; each child's
value never goes back, and the last state of all is always given.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from types import MappingProxyType

from zonekeeper.metadata.store import MetadataStore, Versioned


@asynccontextmanager
async def follow_children(
    store: MetadataStore, path: str
) -> AsyncIterator[AsyncIterator[Mapping[str, Versioned]]]:
    """Follow all children of a node, sorted by name; a node that is not there has none."""
    async with asyncio.TaskGroup() as group:
        children = _Children(store, path, group)
        names = group.create_task(children.follow_names())
        try:
            async with aclosing(children.states()) as states:
                yield states
        finally:
            names.cancel()
            children.leave()


class _Children:
    def __init__(self, store: MetadataStore, path: str, group: asyncio.TaskGroup) -> None:
        self._store = store
        self._path = path
        self._group = group
        self._following: dict[str, asyncio.Task[None]] = {}
        self._values: dict[str, Versioned | None] = {}
        self._changed = asyncio.Event()
        self._names_known = False

    async def follow_names(self) -> None:
        async with self._store.watch_children(self._path) as states:
            async for names in states:
                self._adopt(names or ())
                self._names_known = True
                self._changed.set()

    def _adopt(self, names: tuple[str, ...]) -> None:
        for gone in self._following.keys() - set(names):
            self._following.pop(gone).cancel()
            self._values.pop(gone, None)
        for name in names:
            if name not in self._following:
                self._following[name] = self._group.create_task(self._follow_value(name))

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

    def leave(self) -> None:
        for task in self._following.values():
            task.cancel()
