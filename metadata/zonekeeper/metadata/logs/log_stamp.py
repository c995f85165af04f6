"""The stamp of a log's ledger: which log it was made for, and under which claim. Pure.

    zonekeeper.log          orders/eu-1                            the log's name
    zonekeeper.log.id       0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f       the id of its incarnation
    zonekeeper.log.epoch    3                                      the epoch of the writer's claim
    zonekeeper.log.query    6f2ee3ee-52a8                          only of a ledger that was made
    zonekeeper.log.batch    41                                     for a batch of a query

The stamp stands in the ledger's custom metadata from its creation on, so a listing shows it, also
for a ledger that never got an entry. The opening entry says the same, and more, to a reader of the
ledger. A stamp without an id or an epoch that can be read names a log, and proves nothing.
"""

import re
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata

NAME_KEY: Final = "zonekeeper.log"
ID_KEY: Final = "zonekeeper.log.id"
EPOCH_KEY: Final = "zonekeeper.log.epoch"
QUERY_KEY: Final = "zonekeeper.log.query"
BATCH_KEY: Final = "zonekeeper.log.batch"

_ID: Final = re.compile("[0-9a-f]{32}")
_EPOCH: Final = re.compile("[1-9][0-9]{0,17}")
_BATCH: Final = re.compile("0|[1-9][0-9]{0,17}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStamp:
    """The log that a ledger was made for."""

    name: str
    #: None: the stamp does not say it.
    log_id: str | None = None
    epoch: int | None = None
    #: The query and its batch that the ledger was made for; None: the stamp does not say both.
    batch: tuple[str, int] | None = None


def custom(
    name: str, log_id: str, epoch: int, batch: tuple[str, int] | None = None
) -> dict[str, bytes]:
    """Give the custom metadata of a ledger of a log; ``batch``: the query, and its batch."""
    stamp = {NAME_KEY: name.encode(), ID_KEY: log_id.encode(), EPOCH_KEY: b"%d" % epoch}
    if batch is not None:
        stamp |= {QUERY_KEY: batch[0].encode(), BATCH_KEY: b"%d" % batch[1]}
    return stamp


def of(ledger: LedgerMetadata) -> LogStamp | None:
    """Read the stamp of a ledger; None: it was not made for a log."""
    name = _text(ledger, NAME_KEY)
    if name is None:
        return None
    log_id, epoch = _text(ledger, ID_KEY) or "", _text(ledger, EPOCH_KEY) or ""
    return LogStamp(
        name=name,
        log_id=log_id if _ID.fullmatch(log_id) else None,
        epoch=int(epoch) if _EPOCH.fullmatch(epoch) else None,
        batch=_batch(ledger),
    )


def _batch(ledger: LedgerMetadata) -> tuple[str, int] | None:
    query, batch = _text(ledger, QUERY_KEY), _text(ledger, BATCH_KEY)
    if not query or batch is None or not _BATCH.fullmatch(batch):
        return None
    return query, int(batch)


def _text(ledger: LedgerMetadata, key: str) -> str | None:
    raw = ledger.custom_value(key)
    return None if raw is None else raw.decode(errors="replace")
