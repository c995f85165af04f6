"""A resource that is refused or blocked waits for its correction, while its cluster is kept. Pure.

The stage comes after those that keep up what the last legal spec asks for.
"""

from zonekeeper.operator.plan.keeping import legality
from zonekeeper.operator.plan.stages import Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Wait until the resource itself can be built."""
    return legality.waits(case) or Settled()
