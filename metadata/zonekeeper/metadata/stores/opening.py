"""Opening the store that an address names."""

from typing import assert_never

from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores import uri
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.sqlite import open_sqlite
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.metadata.stores.zookeeper import open_zookeeper

_DEFAULT = Timeouts()


async def open_store(
    address: str, timeouts: Timeouts = _DEFAULT, *, must_exist: bool = False
) -> MetadataStore:
    """Open a store on the running loop; the caller must close it.

    ``must_exist`` is for callers that want an existing store. A missing SQLite file is then an
    error. Otherwise a mistake in an address would leave an empty file behind.

    The result is a store that was reached just now. The errors are: ``BadStoreUriError`` (the text
    is not an address), ``StoreUnavailableError`` (no answer in time), ``UnauthorizedError``,
    ``UnusableStoreError`` (the store there is not one of ours; ``NoStoreError``: there is nothing).
    """
    try:
        return await _opened(uri.parse(address), timeouts, must_exist=must_exist)
    except errors.UnusableStoreError:
        raise
    except errors.BadStoreError as error:
        raise errors.UnusableStoreError(
            error.problem, store=error.store, path=error.path
        ) from error


async def _opened(parsed: uri.Address, timeouts: Timeouts, *, must_exist: bool) -> MetadataStore:
    match parsed:
        case uri.ZooKeeperAddress():
            return await open_zookeeper(parsed, timeouts)
        case uri.SqliteAddress():
            if must_exist and not parsed.path.exists():
                raise errors.NoStoreError(
                    "there is no such file: correct the address, or make a cluster there with "
                    "`zonekeeper cluster init`",
                    store=f"sqlite://{parsed.path}",
                )
            return await open_sqlite(parsed.path, root=parsed.root, timeouts=timeouts)
        case uri.MemoryAddress():
            return MemoryStore(MemoryServer(), root=parsed.root, timeouts=timeouts)
        case _:
            assert_never(parsed)
