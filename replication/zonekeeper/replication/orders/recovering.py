"""Making again, by a person's order, all copies that a lost bookie held.

The order does not wait for the auditor's delays.

The gate still holds: a held zone has to be released first, and the order waits for that. The bookie
must not be registered. If it comes back meanwhile, the order ends, as there is nothing to recover.
At the end no ledger names the bookie, and it is written off: it no longer counts in its zone's
marks. Its cookie stays, so that no other bookie takes its name; ``decommissioning.remove`` removes
the cookie, too.
"""

from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.gate import RefusedError
from zonekeeper.replication.decisions import copy_plan
from zonekeeper.replication.decisions.copy_plan import Cause
from zonekeeper.replication.orders import emptying
from zonekeeper.replication.orders.emptying import Emptying
from zonekeeper.replication.orders.orders import Order, OrderProgress, Phase
from zonekeeper.replication.repair.repairing import Repairer


async def recover(repairer: Repairer, order: Order) -> None:
    """Repair all that a lost bookie held, and write it off."""
    bookie, view = order.bookie, repairer.view
    await check(repairer, bookie)

    def still() -> None:
        if copy_plan.cause_of(bookie, view.topology) is not Cause.LOST:
            raise RefusedError(
                f"{bookie} is registered again: what was copied stays copied, and what was not is "
                "served by it; to empty it, run `zonekeeper bookies decommission`"
            )

    await Emptying(repairer, order, still).run()
    still()
    if bookie in view.topology:
        await bookie_records.write_off(repairer.cluster, bookie, order.mark())
    await order.note(repairer, "recovered")
    order.report(OrderProgress(phase=Phase.DONE))


async def check(repairer: Repairer, bookie: BookieId) -> None:
    """Refuse to recover a bookie that is registered, or that no cookie and no ledger names.

    Nothing is changed.
    """
    topology = repairer.view.topology
    if copy_plan.cause_of(bookie, topology) is not Cause.LOST:
        raise RefusedError(
            f"{bookie} is registered, so it is not lost: stop it first, or, to move its data away "
            f"while it serves, run `zonekeeper bookies decommission {bookie}`"
        )
    if bookie not in topology and not await emptying.naming(repairer.cluster, bookie):
        raise emptying.unknown(repairer, bookie)
