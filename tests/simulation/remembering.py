"""What the same bytes mean is worked out once, however many processes of a world read them.

A world has a dozen processes, and each of them reads the same cookies, ledgers and records. What is
remembered here comes from pure functions and cannot be changed; so nothing in a run can tell
whether it was worked out or remembered.
"""

from functools import lru_cache
from typing import Final

from tests.simulation.patching import Patch
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.cluster import record_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Codec
from zonekeeper.metadata.formats import cookies, ledger_format, log_record_format, service_info

_KEPT_MAX: Final = 1 << 12

_read = record_store._read
_records: dict[tuple[int, str, bytes], object] = {}


def _read_once(cluster: Cluster, path: str, codec: Codec[object], raw: bytes) -> object:
    """Read a record as ``record_store`` does; codecs are constants."""
    key = (id(codec), cluster.instance, raw)
    known = _records.get(key)
    if known is None:
        if len(_records) >= _KEPT_MAX:
            _records.clear()
        known = _records[key] = _read(cluster, path, codec, raw)
    return known


REMEMBERED: Final[tuple[Patch, ...]] = (
    (ledger_format, "parse", lru_cache(_KEPT_MAX)(ledger_format.parse)),
    (log_record_format, "parse", lru_cache(_KEPT_MAX)(log_record_format.parse)),
    (cookies, "parse", lru_cache(_KEPT_MAX)(cookies.parse)),
    (service_info, "parse", lru_cache(_KEPT_MAX)(service_info.parse)),
    (bookie_records, "parse", lru_cache(_KEPT_MAX)(bookie_records.parse)),
    (record_store, "_read", _read_once),
)
