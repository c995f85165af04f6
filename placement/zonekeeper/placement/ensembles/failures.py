"""Why there is no ensemble: the errors of the selector."""

import enum
from collections.abc import Sequence

from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.policy.legality import BrokenRule


class PlacementError(Trouble):
    """No ensemble was given out, and nothing was written anywhere."""


class IllegalPlacement(PlacementError):
    """The quorums and the placement rules contradict each other, or cannot keep their promise."""

    def __init__(self, refusals: Sequence[BrokenRule]) -> None:
        self.refusals = tuple(refusals)
        super().__init__(
            "; ".join(f"{finding.reason} (for example: {finding.example})" for finding in refusals)
        )


class Constraint(enum.Enum):
    """The constraint that cannot be met."""

    BOOKIES = "there are too few bookies"
    ZONES = "there are too few zones"
    UPGRADE_DOMAINS = "there are too few upgrade domains"
    KEPT_MEMBERS = "the members that stay break the rules"
    SEARCH_BOUND = "the search ended at its bound"


class NotEnoughBookies(PlacementError):
    """No ensemble can be built of the bookies that are there now; more may come back."""

    retryable = True

    def __init__(self, constraint: Constraint, detail: str) -> None:
        self.constraint = constraint
        super().__init__(f"{constraint.value}: {detail}")
