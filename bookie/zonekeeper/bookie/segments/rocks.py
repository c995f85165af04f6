"""The real store of the index: RocksDB in a folder of its own."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from zonekeeper.bookie.formats.index import Change, Pair
from zonekeeper.wire.formats import errors

T = TypeVar("T")

#: Greater than every key in use.
_END: Final = b"\xff"
_REMEDY: Final = (
    "with the bookie stopped, build it again with `zonekeeper bookie rebuild-index`: nothing is "
    "lost by that"
)


class RocksOrdered:
    """Keys and values in RocksDB, with its write-ahead log."""

    def __init__(self, folder: Path) -> None:
        """Open or create the store; raises ``OSError``, also if it is damaged."""
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        self._folder = folder
        try:
            self._open = Rdict(str(folder), options)
        except Exception as error:  # rocksdict raises nothing narrower
            raise OSError(f"the index in {folder} cannot be opened ({error}); {_REMEDY}") from error

    def from_floor(self, key: bytes) -> Iterator[Pair]:
        """Give the pairs in order, beginning with the greatest key ``<= key``."""
        rows = self._open.iter()

        def start() -> None:
            rows.seek_for_prev(key)
            if not rows.valid():
                rows.seek(key)

        self._read(start)
        while self._read(rows.valid):
            yield self._read(rows.key), self._read(rows.value)
            self._read(rows.next)
        self._read(rows.status)

    def floors(self, keys: Iterable[bytes]) -> Iterator[Pair | None]:
        """Give for each key the pair with the greatest key ``<=`` it; None: there is none."""
        rows = self._open.iter()

        def floor(key: bytes) -> Pair | None:
            rows.seek_for_prev(key)
            if rows.valid():
                return rows.key(), rows.value()
            rows.status()
            return None

        for key in keys:
            yield self._read(partial(floor, key))

    def write(self, changes: Sequence[Change], *, sync: bool) -> None:
        """Make all changes or none."""
        batch = WriteBatch(raw_mode=True)
        for key, value in changes:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        how = WriteOptions()
        how.sync = sync
        _written(lambda: self._open.write(batch, how))

    def clear(self) -> None:
        """Remove everything, for good."""
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(b"", _END)
        how = WriteOptions()
        how.sync = True
        _written(lambda: self._open.write(batch, how))

    def close(self) -> None:
        """Close the store."""
        self._open.close()

    def _read(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except Exception as error:  # rocksdict raises nothing narrower
            raise errors.IoFailed(
                f"the index in {self._folder} cannot be read ({error}); ask another bookie, and "
                f"{_REMEDY}"
            ) from error


def _written(work: Callable[[], T]) -> T:
    try:
        return work()
    except Exception as error:  # rocksdict raises nothing narrower
        raise OSError(f"the index cannot be written: {error}") from error
