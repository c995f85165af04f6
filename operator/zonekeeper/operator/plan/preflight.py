"""A change of a resource, looked at before it is made: what the operator would do. Pure.

The very decisions of a turn are asked: what is refused or blocked, which objects are made, changed
or removed, and the steps of the roll. So this says what would happen if nothing else changed in the
meantime. The steps are not those of a promise: each waits for its gates.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.cluster import desired, drift, owned_objects
from zonekeeper.operator.cluster.choices import OnScaleDown
from zonekeeper.operator.cluster.desired import Desired, RefusedResource, UpdateRules
from zonekeeper.operator.cluster.owned_objects import APPLIED, TEMPLATE
from zonekeeper.operator.definition import crd
from zonekeeper.operator.kubernetes.api import BUDGETS, CLAIMS, STATEFUL_SETS, Json
from zonekeeper.operator.people.release_prices import ReleasePrice
from zonekeeper.operator.plan import ownership, planning, taking
from zonekeeper.operator.plan.draining import draining
from zonekeeper.operator.plan.keeping import policy, root, taken_back
from zonekeeper.operator.plan.plans import Action, Apply, RemoveObject
from zonekeeper.operator.plan.scaling import leaving
from zonekeeper.operator.plan.stages import Case
from zonekeeper.operator.plan.volumes import filling, growing
from zonekeeper.operator.roll import order, templates
from zonekeeper.operator.roll.last_copies import HeldCopies, LedgerCopies, StepPrice
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.policy import rules_data

#: They change with every change, and say nothing to a person.
_MARKS: Final = (APPLIED, TEMPLATE)
#: What is done to a StatefulSet whose volumes grow.
MADE_AGAIN: Final = "made again (its pods run on)"
#: What becomes of a claim whose volume fills.
BY_ITSELF: Final = "grown by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """An object that would be created, changed or removed."""

    kind: str
    name: str
    what: str
    #: Of a changed object: each field, what is there, and what it would be.
    fields: tuple[tuple[str, object, object], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAhead:
    """A step of the roll, and its price; None: the ledgers were not read."""

    step: order.Step
    price: StepPrice | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalAhead:
    """A bookie that is emptied and removed, and what it holds; None: the ledgers were not read."""

    bookie: BookieId
    held: HeldCopies | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePreflight:
    """What the operator would do."""

    #: Why nothing would be done; empty: it would.
    refused: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    changes: tuple[ObjectChange, ...] = ()
    steps: tuple[StepAhead, ...] = ()
    #: The bookies that are emptied and removed, in order.
    removals: tuple[RemovalAhead, ...] = ()
    #: The zones that leave with all their bookies.
    zones: tuple[ZoneName, ...] = ()
    #: The zones with cordoned nodes, in the order in which they are opened to the drains.
    drains: tuple[ZoneName, ...] = ()
    #: What keeps volumes that are too full from growing by themselves.
    full: tuple[str, ...] = ()
    #: What becomes of their volumes.
    on_scale_down: OnScaleDown | None = None
    #: What a release of each gate that holds losses would copy.
    releases: tuple[ReleasePrice, ...] = ()
    #: What could not be seen, and so is missing here.
    unseen: tuple[str, ...] = ()
    update: UpdateRules | None = None
    #: The operator does nothing of it before a person lets it.
    is_paused: bool = False

    @property
    def moved_bytes(self) -> int | None:
        """The payload of closed ledgers that is copied; None: it is not known."""
        held = [one.held for one in self.removals if one.held is not None]
        if len(held) < len(self.removals):
            return None
        return sum(one.closed_bytes for one in held)

    @property
    def least_ms(self) -> int:
        """The time that the roll rests between its steps."""
        return 0 if self.update is None else len(self.steps) * self.update.bake_ms

    @property
    def most_ms(self) -> int:
        """The time after which the roll is done or has halted, if no gate waits."""
        if self.update is None:
            return 0
        return self.least_ms + len(self.steps) * self.update.deadline_ms


def of(
    wanted: Desired | RefusedResource,
    observed: Observed,
    copies: LedgerCopies | None,
    releases: tuple[ReleasePrice, ...] = (),
) -> ResourcePreflight:
    """Say what would be done for a resource; ``copies`` None: the ledgers were not read."""
    strange = tuple(unknown_fields(observed.resource))
    case = planning.case_of(wanted, observed)
    observed = case.observed
    if isinstance(wanted, RefusedResource):
        return ResourcePreflight(refused=(*strange, *wanted.reasons), releases=releases)
    unseen = tuple(_unseen(observed, copies))
    refused = (*strange, *case.blocked, *_not_ours(observed))
    if refused:
        return ResourcePreflight(
            refused=refused, warnings=wanted.warnings, unseen=unseen, releases=releases
        )
    drains = draining.decide(case)
    return ResourcePreflight(
        refused=(),
        warnings=wanted.warnings,
        changes=(*_of_policy(wanted, observed), *_of_objects(case)),
        steps=tuple(
            StepAhead(step=step, price=_price(step, observed, copies))
            for step in order.remaining(wanted, observed)
        ),
        removals=tuple(
            RemovalAhead(bookie=one, held=None if copies is None else copies.held(one))
            for one in (() if case.scaling is None else case.scaling.steps)
        ),
        zones=leaving.zones_going(wanted, observed),
        drains=() if drains is None else drains.asked,
        full=tuple(_of_full(case)),
        on_scale_down=wanted.on_scale_down,
        unseen=unseen,
        releases=releases,
        update=wanted.update,
        is_paused=desired.is_paused(observed.resource),
    )


def _of_full(case: Case) -> Iterator[str]:
    if (waiting := filling.decide(case).waiting) is not None:
        yield from waiting.why.splitlines()


def unknown_fields(resource: Json) -> Iterator[str]:
    """Find fields of the spec that the definition does not have: the API server refuses them."""
    whole = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    yield from _unknown("spec", resource.get("spec"), whole["properties"]["spec"])


def _unknown(path: str, given: object, schema: Json) -> Iterator[str]:
    if isinstance(given, list):
        for place, one in enumerate(given):
            yield from _unknown(f"{path}[{place}]", one, schema.get("items", {}))
    if not isinstance(given, dict) or "properties" not in schema:
        return
    for name, value in given.items():
        if name in schema["properties"]:
            yield from _unknown(f"{path}.{name}", value, schema["properties"][name])
        else:
            known = ", ".join(sorted(schema["properties"]))
            yield f"{path}.{name}: there is no such field; {path} has {known}"


def _not_ours(observed: Observed) -> Iterator[str]:
    """Say why the root cannot be used, if that was seen; a store that is away was not seen."""
    if isinstance(observed.root, roots.Unreachable):
        return
    for waiting in (root.waits(observed), policy.waits(observed)):
        if waiting is not None:
            yield waiting.why


def _unseen(observed: Observed, copies: LedgerCopies | None) -> Iterator[str]:
    match observed.root:
        case roots.Unreachable(reason):
            yield (
                f"the metadata store was not reached from here ({reason}): cookies, the policy in "
                "force and the copies of ledgers were not seen; run this where the store is reached"
            )
        case roots.RootFound() if copies is None:
            yield "the ledgers were not read to the end: what a step leaves of them is not known"
        case _:
            pass
    if copies is not None and copies.unknown:
        yield f"{copies.unknown} ledgers cannot be read, and are in no number here"


def _of_policy(wanted: Desired, observed: Observed) -> Iterator[ObjectChange]:
    asked_for = rules_data.rules(wanted.policy)
    match observed.root:
        case roots.RootFound(policy=standing) if standing is not None:
            fields = tuple(drift.changes(dict(asked_for), dict(rules_data.rules(standing))))
            if fields:
                yield ObjectChange(kind="policy", name="record", what="changed", fields=fields)
        case roots.RootFound() | roots.Absent():
            yield ObjectChange(kind="policy", name="record", what="created")
        case _:
            pass


def _of_objects(case: Case) -> Iterator[ObjectChange]:
    observed, wanted = case.observed, case.desired
    counts = taking.replicas(wanted, observed)
    instance, drains = ownership.instance(observed), draining.decide(case)
    for kind, body in owned_objects.all_of(wanted, observed.resource, instance):
        name, made = body["metadata"]["name"], body
        found = observed.owned.get((kind.plural, name))
        if kind is BUDGETS and drains is not None:
            continue
        if found is None:
            yield ObjectChange(kind=kind.name, name=name, what="created")
            continue
        if kind is STATEFUL_SETS:
            made = owned_objects.with_replicas(templates.asked_for(made, found), counts[name])
            made = owned_objects.with_standing_claims(made, found)
        fields = tuple(one for one in drift.changes(made, found) if not _is_mark(one[0]))
        if fields:
            yield ObjectChange(kind=kind.name, name=name, what="changed", fields=fields)
    by_itself = filling.decide(case).actions
    for acts, what in ((growing.claims(wanted, observed), "changed"), (by_itself, BY_ITSELF)):
        for grown in acts:
            before = observed.claims[grown.name].size
            sizes = (("spec.resources.requests.storage", before, grown.size),)
            yield ObjectChange(kind=CLAIMS.name, name=grown.name, what=what, fields=sizes)
    for name in growing.sets_with_others(wanted, observed):
        yield ObjectChange(kind=STATEFUL_SETS.name, name=name, what=MADE_AGAIN)
    yield from _of_budgets(observed, () if drains is None else drains.acts)
    for act in taken_back.removals(case, even_uncleared=True):
        yield ObjectChange(kind=act.kind.name, name=act.name, what="removed")


def _of_budgets(observed: Observed, acts: tuple[Action, ...]) -> Iterator[ObjectChange]:
    """Give what is done now about evictions; a budget that is written as it stands is no change."""
    for act in acts:
        if isinstance(act, RemoveObject):
            yield ObjectChange(kind=act.kind.name, name=act.name, what="removed")
            continue
        assert isinstance(act, Apply), "a budget is written or removed"
        name = act.body["metadata"]["name"]
        found = observed.owned.get((act.kind.plural, name))
        if found is None:
            yield ObjectChange(kind=act.kind.name, name=name, what="created")
            continue
        fields = tuple(one for one in drift.changes(act.body, found) if not _is_mark(one[0]))
        if fields:
            yield ObjectChange(kind=act.kind.name, name=name, what="changed", fields=fields)


def _is_mark(path: str) -> bool:
    return any(path.endswith(f"annotations.{mark}") for mark in _MARKS)


def _price(step: order.Step, observed: Observed, copies: LedgerCopies | None) -> StepPrice | None:
    found = observed.root
    if copies is None or not isinstance(found, roots.RootFound):
        return None
    away = frozenset(found.locations) - found.registered
    return copies.price(step.unit.zone, step.bookies, found.locations, away)
