"""Every process has a certificate, and trusts who signs the others'. Pure.

The stage comes before the objects: a pod waits for its Secret, and a zone that is asked for has
one when its pods are made. What remains to be done of a rotation makes no other stage wait.

The condition ``Secure`` says whether the cluster speaks TLS. A cluster that does not is ready all
the same.
"""

from collections.abc import Iterator
from typing import Final

from zonekeeper.operator.certificates import issuer_objects, renewing, secret_data, subjects
from zonekeeper.operator.certificates.renewing import IssuingTime
from zonekeeper.operator.certificates.subjects import Subject
from zonekeeper.operator.cluster import (
    drift,
    owned_objects,
    security_rules,
    store_access,
    tls_parts,
)
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import CERTIFICATES
from zonekeeper.operator.plan import conditions, ownership
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.plans import Action, Apply
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled
from zonekeeper.operator.shapes.tls import TlsMode
from zonekeeper.operator.sight import naming
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base import units

#: A certificate that ends so soon is told of: it should have been renewed.
SOON_MS: Final = 7 * units.DAY_MS


def stage(case: Case) -> Outcome:
    """Issue what is due."""
    desired, observed = case.desired, case.observed
    if (waiting := _waits(desired, observed)) is not None:
        return waiting
    actions = tuple(_due(desired, observed))
    return Act(actions) if actions else Settled()


def is_under_way(case: Case) -> bool:
    """Is one authority being followed by another?"""
    desired = case.buildable
    if desired is None or desired.tls.mode is not TlsMode.OPERATOR or desired.tls.paused:
        return False
    return renewing.is_under_way(case.observed.certificates)


def condition(case: Case) -> Condition:
    """Do bookies, autorecovery and clients speak TLS?"""
    kind, desired, observed = Type.SECURE, case.buildable, case.observed
    if desired is None:
        return conditions.unknown(kind, "NotBuilt", "the resource is not built: see Legal")
    if not desired.tls.is_on:
        message = (
            "bookies and clients speak without TLS: whoever reaches a bookie reads and changes "
            "its ledgers; spec.tls says how to have certificates (docs/operator.md)"
        )
        return conditions.bad(kind, "Plaintext", message)
    if (waiting := _waits(desired, observed)) is not None:
        return conditions.unseen(kind, waiting)
    return _told(desired, observed)


def _told(desired: Desired, observed: Observed) -> Condition:
    kind, leaves = Type.SECURE, observed.certificates.leaves
    wanted = subjects.secrets_of(desired)
    paused = "; spec.tls.paused is true: none is issued or renewed" if desired.tls.paused else ""
    missing = [one for one in wanted if one not in leaves or leaves[one].certificate is None]
    if missing:
        message = f"Secrets without a certificate and its key: {naming.some(missing)}{paused}"
        return conditions.bad(kind, "NotIssued", message)
    ended = renewing.due_soon(leaves, now_ms=observed.wall_ms, within_ms=0)
    if ended:
        message = f"certificates have ended: {naming.some([name for name, _ in ended])}{paused}"
        return conditions.bad(kind, "Expired", message)
    within_ms = min(SOON_MS, desired.tls.lifetime_ms // renewing.LEFT // 2)
    soon = renewing.due_soon(leaves, now_ms=observed.wall_ms, within_ms=within_ms)
    if soon:
        message = (
            f"certificates end soon, and were not renewed: {naming.some([one for one, _ in soon])}"
            f"{paused}"
        )
        return conditions.bad(kind, "ExpiresSoon", message)
    if desired.tls.paused:
        return conditions.good(kind, "IssuingPaused", f"{len(wanted)} certificates{paused}")
    if renewing.is_under_way(observed.certificates):
        return conditions.good(kind, "Rotating", "one authority is being followed by another")
    told = (
        f"{len(wanted)} certificates",
        security_rules.loosely(desired.config),
        store_access.unguarded(desired.store),
    )
    return conditions.good(kind, str(desired.tls.mode), "; ".join(filter(None, told)))


def _waits(desired: Desired, observed: Observed) -> Waiting | None:
    """Say why nothing can be issued; None: nothing keeps it from that."""
    seen = observed.certificates
    if not desired.tls.is_on:
        return None
    if not seen.permitted:
        why = (
            "the operator may not read or write Secrets, and issues certificates no more: give its "
            "role the rights of this release (manifests/operator/rbac.yaml), or name Secrets in "
            "spec.tls"
        )
        return Waiting(Predicate.SECRETS_NOT_PERMITTED, why)
    if seen.issued is None:
        why = (
            "the API server knows no Certificate of cert-manager.io/v1: install cert-manager, or "
            "set spec.tls.mode to Operator"
        )
        return Waiting(Predicate.NO_CERT_MANAGER, why)
    return None


def _due(desired: Desired, observed: Observed) -> Iterator[Action]:
    instance = ownership.instance(observed)
    if instance is None or desired.tls.paused:
        return
    wanted = subjects.all_of(desired, instance, observed.replicas)
    match desired.tls.mode:
        case TlsMode.OPERATOR:
            meta = observed.resource["metadata"]
            moment = IssuingTime(
                wall_ms=observed.wall_ms,
                made_ms=observed.made_ms,
                word=str((meta.get("annotations") or {}).get(secret_data.ROTATE, "")),
            )
            name = tls_parts.authority_name(desired.name)
            yield from renewing.decide(name, wanted, observed.certificates, desired.tls, moment)
        case TlsMode.ISSUER:
            yield from _asked_for(desired, wanted, observed)
        case TlsMode.SECRETS | TlsMode.PLAINTEXT:
            return


def _asked_for(
    desired: Desired, wanted: tuple[Subject, ...], observed: Observed
) -> Iterator[Apply]:
    """Ask cert-manager for what it was not asked for, or was asked otherwise."""
    standing = observed.certificates.issued
    assert standing is not None, "the stage waits"
    for subject in wanted:
        body = issuer_objects.certificate(desired, subject, observed.resource)
        found = standing.get(subject.secret)
        if found is not None and owned_objects.controller_of(found) != observed.uid:
            continue  # it blocks the resource
        if found is None or not drift.holds(body, found):
            yield Apply(kind=CERTIFICATES, body=body)
