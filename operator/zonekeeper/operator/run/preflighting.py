"""Looks at a live cluster for ``zonekeeper operator plan``, and changes nothing.

The resource is taken as it would stand after it was applied: the metadata and the status of the
live one, with the spec of the file.
"""

from contextlib import aclosing
from typing import Final

from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.operator.cluster import desired, kept_spec
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, Json, Kubernetes
from zonekeeper.operator.people.release_prices import ReleasePrice, ReleasePrices
from zonekeeper.operator.plan import preflight
from zonekeeper.operator.plan.preflight import ResourcePreflight
from zonekeeper.operator.roll.last_copies import LedgerCopies
from zonekeeper.operator.roots.roots import Opener, RootFound, Roots
from zonekeeper.operator.run import observing
from zonekeeper.operator.run.observing import Earlier, LookTime
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.troubles import Refusal, Trouble

NAMESPACE: Final = "default"


class NoResourceError(Refusal, ValueError):
    """The file has no BookieCluster that could be applied; the message says what to do."""


def resource_of(data: object, namespace: str | None, source: str) -> Json:
    """Give the resource of a file, in its namespace; ``source`` names the file."""
    kind = BOOKIE_CLUSTERS.name
    if not isinstance(data, dict) or data.get("kind") != kind:
        raise NoResourceError(f"{source}: must be one resource of kind {kind}")
    if data.get("apiVersion") != BOOKIE_CLUSTERS.api_version:
        raise NoResourceError(f"{source}: apiVersion: must be {BOOKIE_CLUSTERS.api_version}")
    meta, spec = data.get("metadata"), data.get("spec")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise NoResourceError(f"{source}: metadata.name: is required")
    if not isinstance(spec, dict):
        raise NoResourceError(f"{source}: spec: is required")
    said = meta.get("namespace")
    if namespace is not None and said not in (None, namespace):
        raise NoResourceError(
            f"{source}: metadata.namespace: {said}: is not {namespace}, which --namespace says"
        )
    return {**data, "metadata": {**meta, "namespace": said or namespace or NAMESPACE}}


async def look(
    kubernetes: Kubernetes, opener: Opener, given: Json, *, own_image: str | None = None
) -> ResourcePreflight:
    """Say what the operator would do if the resource was applied now."""
    resource = desired.with_own_image(await _as_applied(kubernetes, given), own_image)
    wanted, root = desired.read(resource), Roots(opener)
    try:
        seen = await _seen(kubernetes, root, resource, wanted)
        copies, releases = await _copies(root, seen)
        return preflight.of(wanted, seen, copies, releases)
    finally:
        await root.close()


async def observed(
    kubernetes: Kubernetes, opener: Opener, resource: Json, wanted: Desired
) -> Observed:
    """Give what is there for a resource, as it would stand; the ledgers' copies are not read."""
    root = Roots(opener)
    try:
        return await _seen(kubernetes, root, resource, wanted)
    finally:
        await root.close()


async def _seen(
    kubernetes: Kubernetes, root: Roots, resource: Json, wanted: Desired | RefusedResource
) -> Observed:
    now = LookTime(now_ms=0, wall_ms=0)
    return await observing.look_whole(kubernetes, root, resource, wanted, Earlier(), now)


async def _as_applied(kubernetes: Kubernetes, given: Json) -> Json:
    meta = given["metadata"]
    live = await kubernetes.get(BOOKIE_CLUSTERS, meta["namespace"], meta["name"])
    if live is None:
        return {**given, "metadata": {**meta, "uid": "", "generation": 1}, "status": {}}
    said = {**(live["metadata"].get("annotations") or {}), **(meta.get("annotations") or {})}
    merged = {**live["metadata"], "annotations": said}
    return {**live, "metadata": merged, "spec": given["spec"]}


async def _copies(
    root: Roots, seen: Observed
) -> tuple[LedgerCopies | None, tuple[ReleasePrice, ...]]:
    """Read all ledgers; None: there is no root, or the store did not answer to the end."""
    if not isinstance(seen.root, RootFound):
        return None, ()
    copies, prices = LedgerCopies(), ReleasePrices(seen.root)
    address = kept_spec.address(seen.kept, seen.resource) or ""
    try:
        async with aclosing(root.ledgers(address, instance=seen.root.instance)) as listed:
            async for one in listed:
                if isinstance(one, StoredLedger):
                    copies.add(one.id, one.metadata)
                    prices.add(one.metadata)
                else:
                    copies.add_unknown()
                    prices.add_unknown()
    except Trouble:
        return None, ()
    return copies, prices.found()
