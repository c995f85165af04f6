"""Does an object in the cluster still say what we want it to say? Pure.

The API server adds defaults and other people add what is theirs, so an object holds ours when every
field that we say is there and the same. A field that we do not say any more shows in the mark of
what was applied last. Where all that we say in a list has names, others may add to it, as an
injector of sidecars does. A wrong "differs" costs an apply that changes nothing in each turn, so
quantities are compared by value.
"""

from zonekeeper.operator.cluster import quantities
from zonekeeper.operator.kubernetes.api import Json


def holds(wanted: Json, found: Json) -> bool:
    """Is everything that is wanted in what was found?"""
    return _holds(wanted, found)


def _holds(wanted: object, found: object) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and _holds(value, found[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and _list_holds(wanted, found)
    return wanted == found or _same_quantity(wanted, found)


def _list_holds(wanted: list[object], found: list[object]) -> bool:
    if all(isinstance(one, dict) and "name" in one for one in wanted):
        return all(any(_holds(one, other) for other in found) for one in wanted)
    return len(wanted) == len(found) and all(map(_holds, wanted, found))


def _same_quantity(wanted: object, found: object) -> bool:
    one, other = quantities.value(wanted), quantities.value(found)
    return one is not None and one == other
