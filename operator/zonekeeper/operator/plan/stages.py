"""What a stage of the planner is, and how stages are folded into one decision. Pure.

A stage looks at one matter and gives one of three outcomes: ``Act`` (this is to be done now),
``Waiting`` (nothing can be done before something else has happened) or ``Settled`` (all is as it
shall be). ``fold`` asks the stages in order and ends at the first that is not settled, so a stage
can rely on all that come before it.

A stage is level-triggered: it decides from what is there now, whatever earlier turns did. An act is
safe to repeat, and what follows it is decided by the next turn, from what is there then.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.cluster.observed import Observed
from zonekeeper.operator.plan.plans import Action
from zonekeeper.operator.plan.predicates import Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one turn decides from."""

    wanted: Desired | RefusedResource
    #: Why what is wanted cannot be done safely; empty: nothing blocks it.
    blocked: tuple[str, ...]
    observed: Observed

    @property
    def buildable(self) -> Desired | None:
        """What may be built; None: the resource is refused or blocked."""
        if isinstance(self.wanted, RefusedResource) or self.blocked:
            return None
        return self.wanted

    @property
    def desired(self) -> Desired:
        """What is to be built, for stages that come after that of legality."""
        found = self.buildable
        assert found is not None, "the stage of legality waits"
        return found


@dataclass(frozen=True, slots=True)
class Act:
    """Something is to be done now."""

    #: At least one; in order.
    actions: tuple[Action, ...]
    #: What is waited for while the acts take effect; None: a later stage says it.
    until: Waiting | None = None

    def __post_init__(self) -> None:
        assert self.actions, "a stage that does nothing is settled, or waits"


@dataclass(frozen=True, slots=True)
class Settled:
    """All is as it shall be, as far as this stage sees."""


Outcome: TypeAlias = Act | Waiting | Settled
Stage: TypeAlias = Callable[[Case], Outcome]


def fold(stages: Iterable[Stage], case: Case) -> Outcome:
    """Give the first outcome that is not settled; the stages after it are not asked."""
    for stage in stages:
        outcome = stage(case)
        if not isinstance(outcome, Settled):
            return outcome
    return Settled()


def actions_of(outcome: Outcome) -> tuple[Action, ...]:
    """Give what is to be done now: nothing while something is waited for."""
    return outcome.actions if isinstance(outcome, Act) else ()
