"""How far a check of all ledgers has come: ``<root>.zonekeeper/checks/<check>``.

A check of every entry takes days, and the auditor may change meanwhile. The next auditor goes on
where the last one stopped. Ledgers that are created meanwhile have higher ids, so the check reaches
them later. If the record cannot be read, the check begins again; nothing else is lost.
"""

import enum
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.cluster import record_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Codec
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.errors import NodeExistsError
from zonekeeper.metadata.store.store import parent_of
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import LedgerId

_logger = logging.getLogger(__name__)


class Progressing(enum.StrEnum):
    """A check that takes so long that its progress is kept."""

    REPLICAS = "replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckProgress:
    """Where a check that is under way goes on."""

    next_ledger: LedgerId
    #: Wall time.
    began_ms: int


def _render(progress: CheckProgress) -> dict[str, Plain]:
    return {"nextLedger": progress.next_ledger, "beganMs": progress.began_ms}


def _parse(data: Mapping[str, Plain]) -> CheckProgress:
    return CheckProgress(
        next_ledger=LedgerId(records.number(data, "nextLedger")),
        began_ms=records.number(data, "beganMs"),
    )


_CODEC: Final = Codec(render=_render, parse=_parse)


async def read(cluster: Cluster, check: Progressing) -> CheckProgress | None:
    """Read where a check goes on; None: none is under way, or the record cannot be read."""
    try:
        return await record_store.read(cluster, _path(cluster, check), _CODEC)
    except UnreadableError as error:
        _logger.warning("the check of %s begins anew: %s", check, error)
        return None


async def write(cluster: Cluster, check: Progressing, progress: CheckProgress | None) -> None:
    """Write where a check goes on; None: the check is done."""
    above = parent_of(_path(cluster, check))
    if progress is not None and not await cluster.store.exists(above, sync=True):
        with suppress(NodeExistsError):
            await cluster.store.create(above)
    await record_store.change(cluster, _path(cluster, check), _CODEC, lambda _: progress)


def _path(cluster: Cluster, check: Progressing) -> str:
    return cluster.root.beside(f"checks/{check}")
