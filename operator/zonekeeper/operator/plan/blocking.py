"""The reasons that block a legal resource: it would lose data, or take an object of others. Pure.

Nothing is done by halves: one reason blocks the whole resource until the resource is changed or the
reason is gone. Bookies that hold nothing block nothing: a slip is undone by taking it back.
"""

from collections.abc import Iterator
from typing import Final

from zonekeeper.operator.certificates import subjects
from zonekeeper.operator.cluster import owned_objects, tls_parts
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.cluster.owned_objects import controller_of
from zonekeeper.operator.kubernetes.api import ADOPT, Json, ObjectKind
from zonekeeper.operator.plan import conditions, ownership, taking
from zonekeeper.operator.plan.scaling import accepting, leaving
from zonekeeper.operator.shapes import images, quantities, volumes
from zonekeeper.operator.shapes.tls import TlsMode
from zonekeeper.operator.shapes.volumes import Volume
from zonekeeper.operator.sight import holdings, naming
from zonekeeper.operator.sight.observed import Observed, VolumeClaim
from zonekeeper.placement.base.ids import BookieId

#: The field of each of a bookie's volumes.
_VOLUME_FIELDS: Final = {
    owned_objects.VOLUME: "spec.storage",
    owned_objects.JOURNAL_VOLUME: "spec.storage.journal",
}


def reasons(wanted: Desired, observed: Observed) -> Iterator[str]:
    """Find objects of others, then bookies that run, then bookies that only have cookies."""
    yield from foreign(wanted, observed)
    yield from _older(wanted, observed)
    yield from _other_volumes(wanted, observed)
    ours = ownership.own_root(observed)
    yield from _would_lose_all(wanted, observed)
    yield from _used_volumes(wanted, observed)
    running = {one for bookies in _run(wanted, observed).values() for one in bookies}
    cookies = frozenset() if ours is None else holdings.beyond(wanted, ours.locations)
    going = frozenset() if ours is None else frozenset(leaving.beyond(wanted, observed, ours))
    yield from _left_out(wanted, cookies - running - observed.holdings.empty - going)


def _would_lose_all(wanted: Desired, observed: Observed) -> Iterator[str]:
    """Find bookies that must stay; those of a scale-down that is accepted are emptied first."""
    if leaving.begins(wanted, observed):
        yield from accepting.refusals(wanted, observed)
    yield from accepting.zone_refusals(wanted, observed)
    emptied = leaving.accepted_sets(wanted, observed)
    for name, bookies in taking.held(wanted, observed).items():
        if name not in emptied:
            yield _would_lose(wanted, name, bookies, observed)


def _used_volumes(wanted: Desired, observed: Observed) -> Iterator[str]:
    """Find volumes of removed bookies where a bookie is asked for: it would not start on them."""
    ours = ownership.own_root(observed)
    for name, count in holdings.places(wanted).items():
        asked = [f"{name}-{one}" for one in range(observed.replicas.get(name, 0), count)]
        left = [
            claim
            for bookie in asked
            for claim in owned_objects.claim_names(bookie)
            if claim in observed.claims and observed.claims[claim].is_left
            if ours is not None and bookie not in ours.locations
        ]
        if left:
            yield (
                f"spec.bookiesPerZone: {count}: a bookie was removed and left its volume, and no "
                f"bookie starts on the disk of another: delete the claims {naming.some(left)}, or "
                f"set it to {observed.replicas.get(name, 0)}"
            )


def _run(wanted: Desired, observed: Observed) -> dict[str, tuple[BookieId, ...]]:
    return holdings.run_beyond(wanted, observed.replicas)


def _would_lose(
    wanted: Desired, name: str, bookies: tuple[BookieId, ...], observed: Observed
) -> str:
    """Say why bookies that run and are not asked for must stay, and what to do."""
    count = observed.replicas[name]
    what = naming.some(bookies)
    named = sorted(observed.holdings.named & frozenset(bookies))
    if ownership.own_root(observed) is None:
        why = "and the root was not read: whether they hold data is not known"
        then = "or wait until it is read"
    elif named:
        why = f"and ledgers name {naming.some(named)}: their data would be lost"
        then = f"or empty and forget each, for example with: {_forget(named[-1])}"
    else:
        why = "and it is not proven that no ledger names them"
        then = "or wait until all ledgers were listed: an unreadable ledger keeps that from ending"
    if name in holdings.places(wanted):
        return (
            f"spec.bookiesPerZone: {wanted.bookies_per_zone}: StatefulSet {name} has {count} "
            f"bookies, {what} beyond that, {why}; set it to {count} or more, {then}"
        )
    return (
        f"spec.zones: StatefulSet {name} has bookies, {what}, and its zone is not named any more, "
        f"{why}; name the zone again, {then}"
    )


def _left_out(wanted: Desired, cookies: frozenset[BookieId]) -> Iterator[str]:
    """Give the bookies that have cookies, and neither a pod nor a place in the resource."""
    by_set: dict[str, list[int]] = {}
    for bookie in cookies:
        name, _, ordinal = bookie.rpartition("-")
        by_set.setdefault(name, []).append(int(ordinal))
    for name, ordinals in sorted(by_set.items()):
        bookies = [BookieId(f"{name}-{ordinal}") for ordinal in sorted(ordinals)]
        forget = f"empty and forget each of them, for example with: {_forget(bookies[-1])}"
        what = f"the root has cookies of {naming.some(bookies)}"
        if name in holdings.places(wanted):
            yield (
                f"spec.bookiesPerZone: {wanted.bookies_per_zone}: {what}, and no pod would run "
                f"them, so that their data would be lost: set it to {max(ordinals) + 1} or more, "
                f"or {forget}"
            )
        else:
            yield (
                f"spec.zones: {what}, and their zone is not named, so that their data would be "
                f"lost: name the zone, or {forget}"
            )


def _forget(bookie: BookieId) -> str:
    return f"zonekeeper bookies decommission {bookie}"


def changes(wanted: Desired, kept: Desired | None, observed: Observed) -> Iterator[str]:
    """Find edits of what cannot change once a cluster is built; ``kept``: what it was built as."""
    if kept is None:
        return
    if wanted.metadata_uri != kept.metadata_uri:
        yield (
            f"spec.metadata.uri: {wanted.metadata_uri}: cannot change once the cluster is built: "
            f"its bookies belong to that root; set it to {kept.metadata_uri}"
        )
    yield from _volumes(wanted, kept, observed)
    if (wanted.journal is None) != (kept.journal is None):
        yield (
            "spec.storage.journal: cannot change once the cluster is built: the cookies of its "
            "bookies name their folders, and its volumes are there; "
            f"set it to {_journal(kept)}"
        )
    if not images.stays(wanted.image) and wanted.image != kept.image:
        yield "\n".join(map(str, images.problems(wanted.image)))
    if wanted.tls.mode is not kept.tls.mode:
        yield (
            f"spec.tls.mode: {wanted.tls.mode}: cannot change while the cluster runs: processes of "
            "the two modes do not understand each other, so that appends would fail; set it to "
            f"{kept.tls.mode}, or stop all clients, delete the resource under onDelete: Retain and "
            "apply it anew with this mode: its volumes and its root stay (docs/operator.md)"
        )
    domains, before = (one.policy.placement.upgrade_domains for one in (wanted, kept))
    if domains != before:
        yield (
            f"spec.policy.placement.upgradeDomains: {domains}: cannot change once the cluster is "
            "built: the cookies of its bookies have their upgrade domains, and would be wrong; "
            f"set it to {before}"
        )


def _volumes(wanted: Desired, kept: Desired, observed: Observed) -> Iterator[str]:
    """Find volumes that would shrink, or be of another class.

    What was said of new volumes may be said of all of them, once each bookie has such a one.
    """
    where = _VOLUME_FIELDS[owned_objects.VOLUME]
    standing, new, now = kept.volume, kept.new_volume, wanted.volume
    if quantities.is_larger(standing.size, now.size):
        if quantities.is_larger(new.size, now.size):
            yield f"{where}.size: {_shrinks(now, standing)}; {volumes.OTHER_VOLUMES}"
        elif older := ownership.claims_of(observed, lambda one: not _is_below(one, standing)):
            yield f"{where}.size: {_shrinks(now, standing)}, as these have it: {_replace(older)}"
    if now.storage_class != standing.storage_class:
        if now.storage_class != new.storage_class:
            yield f"{where}.className: {_other_class(now, standing)}; {volumes.OTHER_VOLUMES}"
        elif older := ownership.claims_of(
            observed, lambda one: one.storage_class != now.storage_class
        ):
            yield (
                f"{where}.className: {_other_class(now, standing)}, as these have another: "
                f"{_replace(older)}"
            )
    if kept.journal is not None and wanted.journal is not None:
        yield from _journals(wanted.journal, kept.journal)


def _journals(now: Volume, before: Volume) -> Iterator[str]:
    where = _VOLUME_FIELDS[owned_objects.JOURNAL_VOLUME]
    if quantities.is_larger(before.size, now.size):
        yield f"{where}.size: {_shrinks(now, before)}"
    if now.storage_class != before.storage_class:
        yield f"{where}.className: {_other_class(now, before)}"


def _is_below(claim: VolumeClaim, before: Volume) -> bool:
    return quantities.is_larger(before.size, claim.size)


def _shrinks(now: Volume, before: Volume) -> str:
    return f"{now.size}: {volumes.NO_SHRINKING} ({before.size})"


def _other_class(now: Volume, before: Volume) -> str:
    return (
        f"{now.storage_class or 'none'}: cannot change once the cluster is built: its volumes are "
        f"there; set it to what it was ({before.storage_class or 'none: leave it out'})"
    )


def _replace(claims: list[str]) -> str:
    return f"{naming.some(claims)}; give each of their bookies another one (zonekeeper.io/replace)"


def not_growable(wanted: Desired, kept: Desired | None, observed: Observed) -> Iterator[str]:
    """Find volumes that an edit would let grow, and whose storage class does not allow it."""
    before = {} if kept is None else owned_objects.volumes(kept)
    for name, volume in owned_objects.volumes(wanted).items():
        if name not in before or not quantities.is_larger(volume.size, before[name].size):
            continue
        where = f"{_VOLUME_FIELDS[name]}.size: {volume.size}"
        short = ownership.claims_below(observed, name, volume.size)
        for known in sorted({observed.claims[one].storage_class or "" for one in short}):
            named = [one for one in short if (observed.claims[one].storage_class or "") == known]
            if (why := volumes.growth_stop(known, observed.growable)) is not None:
                yield f"{where}: {why}: {naming.some(named)}; set it to {before[name].size}"


def _older(wanted: Desired, observed: Observed) -> Iterator[str]:
    """Find a version older than the one that every bookie runs.

    While a roll is under way, or has halted, it may be taken back: not every disk was written by
    the newer version then.
    """
    before = observed.kept[0].spec.get("image") if observed.kept else None
    told = observed.status.get("conditions") or ()
    runs_it = any(
        one["type"] == conditions.Type.UP_TO_DATE and one["status"] == "True" for one in told
    )
    if runs_it and isinstance(before, str) and images.is_older(wanted.image, before):
        yield f"spec.image: {wanted.image}: {images.OLDER_RULE} ({before}); {images.OLDER_FIX}"


def _other_volumes(wanted: Desired, observed: Observed) -> Iterator[str]:
    """Find StatefulSets that were made with other volumes, which cannot change."""
    asked = set(owned_objects.volumes(wanted))
    for name, item in observed.sets.items():
        made = {one["metadata"]["name"] for one in item["spec"].get("volumeClaimTemplates") or ()}
        if made != asked:
            what = "with" if owned_objects.JOURNAL_VOLUME in made else "without"
            yield (
                f"spec.storage.journal: StatefulSet {name} was made {what} a journal volume, and "
                "that cannot change; set it to what it was"
            )


def _journal(kept: Desired) -> str:
    if kept.journal is None:
        return "what it was: leave it out"
    return (
        f"what it was (size: {kept.journal.size}, "
        f"className: {kept.journal.storage_class or 'none'})"
    )


def foreign(wanted: Desired, observed: Observed) -> Iterator[str]:
    """Find objects with a name that the cluster needs and that the resource does not control."""
    yield from _foreign_secrets(wanted, observed)
    for kind, name in owned_objects.names(wanted):
        found = observed.owned.get((kind.plural, name))
        if found is not None and controller_of(found) != observed.uid:
            yield _controlled_by_another(kind, name, found, observed)


def _foreign_secrets(wanted: Desired, observed: Observed) -> Iterator[str]:
    """Find Secrets of others where the operator would write its own."""
    if wanted.tls.mode is not TlsMode.OPERATOR:
        return
    seen, own = observed.certificates, tls_parts.authority_name(wanted.name)
    found = {name: leaf.state for name, leaf in seen.leaves.items()}
    if seen.authority is not None:
        found[own] = seen.authority.state
    for name in (own, *subjects.secrets_of(wanted)):
        if name in found and found[name].controller != observed.uid:
            yield (
                f"metadata.name: Secret {name} is there already, and is not controlled by this "
                "resource: wait until it is gone, remove it, or choose another name"
            )


def _controlled_by_another(kind: ObjectKind, name: str, found: Json, observed: Observed) -> str:
    owners = found["metadata"].get("ownerReferences") or []
    whose = next((f"{o['kind']} {o['name']}" for o in owners if o.get("controller")), None)
    told = (
        f"metadata.name: {kind.name} {name} is there already, and is not controlled by "
        f"this resource (its controller: {whose or 'none'}): wait until it is gone, remove it, or "
        "choose another name"
    )
    if whose is not None:
        return told
    instance = getattr(observed.root, "instance", "INSTANCE")
    return (
        f"{told}; or, if an earlier resource left it with bookies that run, take them over: "
        f"annotate this resource with {ADOPT}={instance} (`zonekeeper operator adopt` shows what "
        "that would change)"
    )
