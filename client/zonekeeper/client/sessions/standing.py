"""Is a ledger still the one that a writer was made for? Read from metadata, no older than the call.

A ledger that was deleted may have been made anew under the same id. The new one has another create
token. It is another ledger, and the old one is as deleted as if there were none. A token that is
not known (0) tells nothing.
"""

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.ledgers.ledgers import NoLedgerError
from zonekeeper.placement.base.ids import LedgerId


class MadeAnewError(NoLedgerError):
    """The ledger was deleted, and its id was given to another one."""


def check(ledger_id: LedgerId, create_token: int, ledger: LedgerMetadata) -> None:
    """Raise ``MadeAnewError`` if this is another ledger under the same id."""
    if create_token and ledger.create_token and ledger.create_token != create_token:
        raise MadeAnewError(
            f"ledger {ledger_id} was deleted, and another ledger was made under its id"
        )


async def look_up(cluster: Cluster, ledger_id: LedgerId, create_token: int) -> LedgerMetadata:
    """Give the ledger's metadata; raises ``NoLedgerError`` if it was deleted."""
    stored = await ledgers.read(cluster, ledger_id, sync=True)
    if stored is None:
        raise NoLedgerError(f"there is no ledger {ledger_id} in {cluster} any more")
    check(ledger_id, create_token, stored.metadata)
    return stored.metadata
