"""A person may let a deleted resource go although its store does not answer. Pure.

The root in the store goes last, so a store that is gone for good would hold the resource for ever.
The annotation names the instance of the cluster: what is left behind is that instance's root. Where
no instance was noted, it names the uid of the resource.
"""

from zonekeeper.operator.kubernetes.api import FORCE_DELETE
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight.observed import Observed


def is_forced(observed: Observed) -> bool:
    """Has a person let this very resource go without its root?"""
    return _given(observed) == _asked_for(observed)


def advice(observed: Observed) -> str | None:
    """Say what is in the way of the end of a removal, and what lets go; None: nothing is."""
    if not isinstance(observed.root, roots.Unreachable) or is_forced(observed):
        return None
    asked, given = _asked_for(observed), _given(observed)
    other = f" (it says {given}, which is not this one)" if given is not None else ""
    return (
        f"the root cannot be removed: {observed.root.reason}; if the store is gone for good, "
        f"annotate the resource with {FORCE_DELETE}={asked}{other}: all else is removed, and "
        "the root is left behind"
    )


def _asked_for(observed: Observed) -> str:
    return observed.instance or observed.uid


def _given(observed: Observed) -> str | None:
    found = (observed.resource["metadata"].get("annotations") or {}).get(FORCE_DELETE)
    return found if isinstance(found, str) else None
