"""A process that holds something by its session; ``python -m tests.support.lessee URI SESSION_MS``.

It creates the ephemeral node ``held`` and says so. For each line that it reads it writes to
``record``, once bound to the session that it began with and once to none, and says what came of it.
"""

import asyncio
import json
import sys

from tests.support.python_process import run, tell
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import MetadataStore, SessionId
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts


async def _write(store: MetadataStore, session: SessionId | None, first: SessionId) -> list[object]:
    """Say how the write ended, and whether the process then knew that its session was over."""
    record = await store.get(f"{store.root}/record")
    assert record is not None
    try:
        await store.put(
            f"{store.root}/record", b"by the lessee", version=record.version, session=session
        )
    except errors.StoreError as error:
        return [type(error).__name__, error.maybe_applied, store.session.id != first]
    return ["written", True, store.session.id != first]


async def _hold(uri: str, session_ms: int) -> None:
    store = await open_store(uri, Timeouts(session_ms=session_ms))
    first = store.session.id
    assert first is not None
    await store.create(f"{store.root}/held", ephemeral=True)
    tell("held")
    while await asyncio.to_thread(sys.stdin.readline):
        bound = await _write(store, first, first)
        free = await _write(store, None, first)
        tell(json.dumps({"bound": bound, "free": free}))


if __name__ == "__main__":
    run(_hold(sys.argv[1], int(sys.argv[2])))
