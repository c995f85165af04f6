"""A process that writes two nodes as one, for ever; ``python -m tests.support.pairs URI``.

It prints the number of each transaction once it is acknowledged.
"""

import sys

from tests.support.python_process import run, tell
from zonekeeper.metadata.store.store import Put
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts


async def _write(uri: str) -> None:
    store = await open_store(uri, Timeouts(session_ms=60_000))
    node = await store.get(f"{store.root}/left")
    assert node is not None
    version = node.version
    while True:
        value = b"%d " % (version + 1) * 2_000
        await store.commit(
            [
                Put(path=f"{store.root}/{side}", value=value, version=version)
                for side in ("left", "right")
            ]
        )
        version += 1
        tell(str(version))


if __name__ == "__main__":
    run(_write(sys.argv[1]))
