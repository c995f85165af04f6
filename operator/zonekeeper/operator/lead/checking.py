"""Does an operator act? Two looks at a Lease tell: its holder renews it, or nobody does.

It is what `helm test` runs, with the rights of the operator itself.
"""

import asyncio
from typing import Final

from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, LEASES, Kubernetes
from zonekeeper.operator.lead import lease_objects
from zonekeeper.operator.lead.lease_objects import LeasePlace
from zonekeeper.operator.lead.tenure import NOBODY, LeaseRecord
from zonekeeper.placement.base.troubles import Trouble

#: Longer than a Lease runs out and is taken by another process.
WAIT_S_MAX: Final = 40.0
LOOK_EVERY_S: Final = 1.0


class NoOperatorError(Trouble):
    """No process of the operator acts, or one of another installation does."""

    retryable = True


async def acts(kubernetes: Kubernetes, place: LeasePlace, namespace: str, installation: str) -> str:
    """Wait until the holder of a Lease renews it, and name it; raises ``NoOperatorError``.

    ``namespace`` ("": all) is where the definition of the resource must be served.
    """
    await kubernetes.list(BOOKIE_CLUSTERS, namespace)
    before: LeaseRecord | None = None
    loop = asyncio.get_running_loop()
    until_s = loop.time() + WAIT_S_MAX
    while loop.time() < until_s:
        item = await kubernetes.get(LEASES, place.namespace, place.name)
        found = None if item is None else lease_objects.record_of(item)
        if found is not None and _renews(found, before):
            return _named(found.holder, place, installation)
        before = found
        await asyncio.sleep(LOOK_EVERY_S)
    holder = NOBODY if before is None else before.holder
    said = f"{holder} does not renew it" if holder else "nobody holds it"
    raise NoOperatorError(
        f"no operator acts: in {WAIT_S_MAX:g} s the Lease {place} was not renewed ({said}); look "
        "at the operator's pods and their logs"
    )


def _renews(found: LeaseRecord, before: LeaseRecord | None) -> bool:
    """Has the holder of the look before written the Lease since?"""
    return before is not None and found != before and found.holder == before.holder != NOBODY


def _named(holder: str, place: LeasePlace, installation: str) -> str:
    theirs = lease_objects.installation_of(holder)
    if theirs != installation:
        raise NoOperatorError(
            f"{holder} holds the Lease {place}, of the installation {theirs}; {installation} "
            "stands by: remove one of the two"
        )
    return holder
