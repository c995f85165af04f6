"""Stages of the planner, and the fold that makes one decision of them. Pure.

A stage looks at one matter and gives one of three outcomes: ``Act`` (these acts are to be done
now), ``Waiting`` (nothing can be done before something else has happened) or ``Settled`` (all is as
it shall be). ``fold`` asks the stages in order and ends at the first that is not settled. So a
stage can rely on every stage before it.

A stage is level-triggered: it decides from what is there now, and not from what earlier turns did.
An act is safe to repeat. The next turn decides again, from what is there then.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.plan.plans import Action
from zonekeeper.operator.plan.predicates import Waiting
from zonekeeper.operator.plan.scaling.scaling import ScaleProgress
from zonekeeper.operator.roll.rolling import RollProgress
from zonekeeper.operator.sight.observed import Observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that one turn decides from."""

    wanted: Desired | RefusedResource
    #: The reasons why ``wanted`` cannot be built safely; empty: nothing blocks it.
    blocked: tuple[str, ...]
    observed: Observed
    #: What the last legal spec asks for, where ``wanted`` cannot be built; None: nor can that.
    kept: Desired | None = None
    #: The acts that take over what an earlier resource left; empty: nothing is taken over.
    adopts: tuple[Action, ...] = ()
    #: What the roll does now; None: there is no cluster that can be built.
    roll: RollProgress | None = None
    #: What a scale-down does now; None as for the roll.
    scaling: ScaleProgress | None = None

    @property
    def builds_as_asked(self) -> bool:
        """Can the resource be built as it stands?"""
        return isinstance(self.wanted, Desired) and not self.blocked

    @property
    def buildable(self) -> Desired | None:
        """The cluster that may be built: what is asked for, or was before; None: neither."""
        if isinstance(self.wanted, Desired) and not self.blocked:
            return self.wanted
        return self.kept

    @property
    def desired(self) -> Desired:
        """The cluster that is to be built, for the stages after that of legality."""
        found = self.buildable
        assert found is not None, "the stage of legality waits"
        return found


@dataclass(frozen=True, slots=True)
class Act:
    """These acts are to be done now."""

    #: At least one; they are performed in this order.
    actions: tuple[Action, ...]
    #: The wait that is shown while the acts take effect; None: there is no need for one.
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
    """Give the acts of an outcome; a wait has none."""
    return outcome.actions if isinstance(outcome, Act) else ()
