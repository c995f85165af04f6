"""Performs the acts of a turn, in order; the first act that fails ends the turn.

One kind of act is different: a volume that cannot grow keeps no other volume from growing.

Each act names the object that it is meant for (by uid, instance or version). So an act that was
decided on an old look is refused; it cannot change another object. And each act is begun only while
this process has the right to act: one that was frozen, and is not the holder of the Lease any more,
does nothing with what it decided before.
"""

from functools import partial
from typing import Final, assert_never

from zonekeeper.operator.certificates.issuing import Issuer
from zonekeeper.operator.certificates.renewing import (
    BundleAuthorities,
    IssueCertificate,
    MakeAuthority,
    PromoteAuthority,
    TrustAuthorities,
)
from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLAIMS,
    FINALIZER,
    INSTANCE_LABEL,
    LEFT_LABEL,
    STATEFUL_SETS,
    Json,
    Kubernetes,
)
from zonekeeper.operator.lead.leading import Right
from zonekeeper.operator.plan.plans import (
    Action,
    Adopt,
    Apply,
    ChangeSpec,
    ConfirmEmptied,
    DeclareMaintenance,
    GrowClaim,
    Hold,
    InitialiseRoot,
    LiftMaintenance,
    MarkClaim,
    Obey,
    OrderDrain,
    OrderRecovery,
    OrderRemoval,
    PublishPolicy,
    Release,
    RemoveObject,
    RemoveRoot,
    RemoveSetAlone,
    RemoveZoneRecord,
    RenewMaintenance,
    TakeRemovalBack,
)
from zonekeeper.operator.roots.roots import Roots
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.zones.bookie_orders import OrderKind
from zonekeeper.placement.zones.gate import RefusedError


class Actor:
    """Performs acts for one resource."""

    def __init__(self, kubernetes: Kubernetes, root: Roots, right: Right) -> None:
        self._kubernetes = kubernetes
        self._root = root
        self._right = right
        self._issuer = Issuer(kubernetes)
        #: The order whose act was refused last, by its token, with the reason.
        self.refused_orders: dict[str, str] = {}

    async def perform(
        self, actions: tuple[Action, ...], resource: Json, address: str | None
    ) -> tuple[str, ...]:
        """Perform all acts; give the failures in words.

        A person's order, and the growth of a claim, keep no other act from being done.
        """
        failures = list[str]()
        for action in actions:
            try:
                await self._right.perform(partial(self._one, action, resource, address or ""))
            except RefusedError as error:
                if not isinstance(action, Obey):
                    failures.append(f"{type(action).__name__}: {error}")
                    break
                self.refused_orders = {action.order.token: str(error)}
            except Trouble as error:
                failures.append(f"{type(action).__name__}: {error}")
                if not isinstance(action, GrowClaim | Obey):
                    break
        return tuple(failures)

    async def _one(self, action: Action, resource: Json, address: str) -> None:
        meta = resource["metadata"]
        match action:
            case Hold():
                await self._kubernetes.apply(BOOKIE_CLUSTERS, _held(meta))
            case Release():
                await self._kubernetes.release(BOOKIE_CLUSTERS, resource)
            case InitialiseRoot():
                await self._root.initialise(address, action.policy)
            case PublishPolicy():
                await self._root.publish(
                    address, action.policy, instance=action.instance, replaces=action.replaces
                )
            case (
                Apply()
                | Adopt()
                | ChangeSpec()
                | MarkClaim()
                | GrowClaim()
                | RemoveObject()
                | RemoveSetAlone()
            ):
                await self._on_object(action, resource)
            case RemoveZoneRecord():
                await self._root.remove_zone(address, action.zone, instance=action.instance)
            case RemoveRoot():
                await self._root.remove(address, instance=action.instance)
            case (
                DeclareMaintenance()
                | RenewMaintenance()
                | LiftMaintenance()
                | OrderDrain()
                | ConfirmEmptied()
                | OrderRecovery()
                | OrderRemoval()
                | TakeRemovalBack()
            ):
                await self._plan_work(action, address)
            case Obey():
                await self._root.obey(address, action.order, instance=action.instance)
            case (
                MakeAuthority()
                | TrustAuthorities()
                | PromoteAuthority()
                | BundleAuthorities()
                | IssueCertificate()
            ):
                await self._issuer.perform(action, resource)
            case _:
                assert_never(action)

    async def _on_object(
        self,
        action: Apply | Adopt | ChangeSpec | MarkClaim | GrowClaim | RemoveObject | RemoveSetAlone,
        resource: Json,
    ) -> None:
        meta = resource["metadata"]
        match action:
            case Apply():
                await self._kubernetes.apply(action.kind, action.body)
            case Adopt():
                owners = owned_objects.taken_over(action.item, resource)
                changes = {"metadata": {"ownerReferences": owners}}
                await self._kubernetes.edit(action.kind, action.item, changes)
            case ChangeSpec():
                await self._kubernetes.edit(action.kind, action.item, {"spec": action.spec})
            case MarkClaim() | GrowClaim():
                await self._kubernetes.apply(CLAIMS, _claim(action, meta))
            case RemoveObject():
                await self._kubernetes.delete(
                    action.kind, meta["namespace"], action.name, uid=action.uid
                )
            case RemoveSetAlone():
                await self._kubernetes.delete(
                    STATEFUL_SETS, meta["namespace"], action.name, uid=action.uid, orphans=True
                )
            case _:
                assert_never(action)

    async def _plan_work(
        self,
        action: DeclareMaintenance
        | RenewMaintenance
        | LiftMaintenance
        | OrderDrain
        | ConfirmEmptied
        | OrderRecovery
        | OrderRemoval
        | TakeRemovalBack,
        address: str,
    ) -> None:
        match action:
            case DeclareMaintenance():
                await self._root.declare(
                    address, action.unit, instance=action.instance, owner=action.owner
                )
            case RenewMaintenance():
                await self._root.renew(address, action.declared, instance=action.instance)
            case LiftMaintenance():
                await self._root.lift(address, action.declared, instance=action.instance)
            case ConfirmEmptied():
                await self._root.confirm_emptied(
                    address, action.bookie, action.token, instance=action.instance
                )
            case OrderDrain() | OrderRemoval() | OrderRecovery():
                await self._root.order(
                    address,
                    action.bookie,
                    _KINDS[type(action)],
                    instance=action.instance,
                    owner=action.owner,
                    reason=action.reason,
                )
            case TakeRemovalBack():
                await self._root.take_removal_back(
                    address,
                    action.bookie,
                    action.token,
                    instance=action.instance,
                    owner=action.owner,
                )
            case _:
                assert_never(action)


#: What each act orders.
_KINDS: Final = {
    OrderDrain: OrderKind.DRAIN,
    OrderRecovery: OrderKind.RECOVER,
    OrderRemoval: OrderKind.REMOVE,
}


def _claim(action: MarkClaim | GrowClaim, meta: Json) -> Json:
    """Give what is applied to a claim: both acts name all that the operator ever writes there.

    The API server takes back what an apply of the same manager does not name any more.
    """
    named = {"name": action.name, "namespace": meta["namespace"], "uid": action.uid}
    labels = {INSTANCE_LABEL: action.instance}
    if isinstance(action, MarkClaim) and action.left_by is not None:
        labels |= {LEFT_LABEL: action.left_by}
    body: Json = {"metadata": {**named, "labels": labels}}
    if action.size:
        body["spec"] = {"resources": {"requests": {"storage": action.size}}}
    return body


def _held(meta: Json) -> Json:
    named = {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
    return {"metadata": {**named, "finalizers": [FINALIZER]}}
