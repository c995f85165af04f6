"""A process that races others on one store; ``python -m tests.support.race URI NAME ROUNDS``.

It says ``ready``, waits for the node ``go``, then appends its tokens to the list at ``list``, draws
numbers under ``numbers``, reads in between, and prints what it did as one line of JSON.
"""

import json
import sys
import time
from dataclasses import asdict

from tests.support.histories import Append, Outcome, Read
from tests.support.python_process import run, tell
from zonekeeper.metadata.store import errors, update
from zonekeeper.metadata.store.store import MetadataStore, Versioned
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts

#: Of the whole append, and above any contention of a race: it bounds what hangs.
DEADLINE_MS = 60_000

TIMEOUTS = Timeouts(session_ms=30_000, request_ms=30_000)


async def append(store: MetadataStore, path: str, token: str) -> Append:
    """Append a token to the list, and say what became of it."""

    def decide(state: Versioned | None) -> update.Decision:
        assert state is not None
        if token in tokens(state):
            return update.Keep()  # made by a write whose answer was lost
        return update.Store(state.value + f"{token} ".encode())

    began = _now()
    outcome = Outcome.YES
    try:
        await update.update(store, path, decide, deadline_ms=DEADLINE_MS)
    except errors.StoreError as error:
        outcome = Outcome.UNKNOWN if error.maybe_applied else Outcome.NO
    return Append(token=token, began=began, ended=_now(), outcome=outcome)


async def read(store: MetadataStore, path: str) -> Read:
    """Read the list as it is now."""
    began = _now()
    return Read(seen=tokens(await store.get(path, sync=True)), began=began, ended=_now())


def _now() -> int:
    """Read the clock that all processes of this machine share."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def tokens(state: Versioned | None) -> tuple[str, ...]:
    assert state is not None
    return tuple(state.value.decode().split())


async def _race(uri: str, name: str, rounds: int) -> None:
    store = await open_store(uri, TIMEOUTS)
    appends, reads, numbers = [], [], []
    async with store.watch(f"{store.root}/go") as states:
        tell("ready")
        async for state in states:
            if state is not None:
                break
    for n in range(rounds):
        appends.append(await append(store, f"{store.root}/list", f"{name}-{n}"))
        reads.append(await read(store, f"{store.root}/list"))
        numbers.append(await store.create(f"{store.root}/numbers/n-", sequential=True))
    await store.close()
    done = {
        "appends": [asdict(each) for each in appends],
        "reads": [asdict(each) for each in reads],
        "numbers": numbers,
    }
    tell(json.dumps(done))


if __name__ == "__main__":
    run(_race(sys.argv[1], sys.argv[2], int(sys.argv[3])))
