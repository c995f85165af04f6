"""A change of the resource by a person: written by compare-and-set, and seen by the operator."""

from collections.abc import Awaitable, Callable
from typing import Final

from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    Json,
    Kubernetes,
    ObjectChangedError,
)
from zonekeeper.operator.plugin import person_place
from zonekeeper.placement.base.troubles import Trouble

ATTEMPTS_MAX: Final = 10
#: So many looks are waited for the operator's own; it looks at once, or is not there.
LOOKS_MAX: Final = 40


class KeepsChangingError(Trouble):
    """The resource is written by others all the time."""

    retryable = True


async def changed(
    api: Kubernetes,
    namespace: str,
    name: str,
    changes: Json,
    *,
    pause: Callable[[], Awaitable[object]],
) -> bool:
    """Change the resource; give whether the operator has looked at the changed spec meanwhile."""
    for _ in range(ATTEMPTS_MAX):
        try:
            found = await person_place.resource(api, namespace, name)
            await api.edit(BOOKIE_CLUSTERS, found, changes)
            break
        except ObjectChangedError:
            continue
    else:
        raise KeepsChangingError(
            f"{namespace}/{name}: it was changed {ATTEMPTS_MAX} times meanwhile; try again; "
            "nothing was done"
        )
    for _ in range(LOOKS_MAX):
        found = await person_place.resource(api, namespace, name)
        seen = (found.get("status") or {}).get("observedGeneration", 0)
        if seen >= found["metadata"]["generation"]:
            return True
        await pause()
    return False
