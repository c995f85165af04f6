"""Does an object in Kubernetes still have every field that the operator wants? Pure.

The API server adds defaults, and other people add fields of their own. So an object is as wanted
when every wanted field is there with its value; more fields do no harm. If the operator wants a
field no longer, the annotation with the hash of the applied object differs.

A list whose wanted items all have names may have more items: an injector of sidecars adds some. A
difference that is none would cost an apply in each turn, so quantities are compared by value.
"""

from zonekeeper.operator.cluster import quantities
from zonekeeper.operator.kubernetes.api import Json


def holds(wanted: Json, found: Json) -> bool:
    """Does ``found`` have every field of ``wanted``?"""
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
