"""Spreading a ledger again: what was written while a zone was away goes back over all zones.

Nothing is lost here, so nothing is urgent. Respreading has a byte rate of its own, and comes after
all repairs. It does not run while anything is held, even in a zone that the ledger does not use: a
zone that comes and goes would move the data back and forth. The plan moves as few copies as
possible (``placement.adhere``). In a striped ledger members may change places: that is one swap
like any other (``copy_plan``), and needs no free bookie. If no plan is better today, nothing is
done, and the next placement check asks again.
"""

from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers.ledgers import NoLedgerError
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.ensembles import adhere
from zonekeeper.replication.decisions import copy_plan
from zonekeeper.replication.decisions.copy_plan import Cause, Finished
from zonekeeper.replication.repair.delivery import TargetFailedError
from zonekeeper.replication.repair.ledger_repair import LedgerRepair, Obstacle
from zonekeeper.replication.repair.repair_metrics import RepairStoppedError, RepairTrouble
from zonekeeper.replication.view.rereading import Reread
from zonekeeper.replication.view.view import View


def may(view: View, anew: Reread | None = None) -> bool:
    """Does the policy want respreading, and is nothing held anywhere?"""
    return view.policy.repair.respread and view.what_holds(None, anew) is None


async def spread(
    view: View, ledger: LedgerMetadata, ledger_id: LedgerId, work: LedgerRepair, chance: Chance
) -> list[Obstacle]:
    """Bring a ledger's finished fragments to the best level there is now; give the obstacles."""
    for part in copy_plan.finished(ledger):
        try:
            await _fragment(view, part, work, chance)
        except NoLedgerError:
            return []
        except RepairStoppedError as error:
            return [_obstacle(ledger_id, error.trouble, error)]
        except TargetFailedError as error:
            return [_obstacle(ledger_id, RepairTrouble.TARGETS_FAILED, error)]
        except (StoreError, UnreadableError) as error:
            return [_obstacle(ledger_id, RepairTrouble.METADATA, error)]
    return []


async def _fragment(view: View, part: Finished, work: LedgerRepair, chance: Chance) -> None:
    ensemble = part.fragment.ensemble
    plan = adhere.plan(work.request(), ensemble, chance)
    leaving = {one.position: Cause.RESPREAD for one in plan.replacements}

    def go_on(anew: Reread | None = None) -> None:
        if not may(view, anew):
            raise RepairStoppedError(RepairTrouble.HELD, "something is held, or respreading is off")
        for position in leaving:
            if (now := copy_plan.cause_of(ensemble[position], view.topology)) is not None:
                raise RepairStoppedError(
                    RepairTrouble.OVERTAKEN, f"{ensemble[position]} is {now} now"
                )

    if leaving:
        await work.move(part, leaving, plan.ensemble, go_on)


def _obstacle(ledger_id: LedgerId, trouble: RepairTrouble, error: Exception) -> Obstacle:
    return Obstacle(trouble=trouble, text=f"ledger {ledger_id}: {error}", bookies=frozenset())
