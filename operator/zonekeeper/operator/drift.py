"""Does an object in the cluster still say what we want it to say? Pure.

The API server adds defaults and other people add what is theirs, so an object holds ours when every
field that we say is there and the same. A field that we do not say any more shows in the mark of
what was applied last. A wrong "differs" costs one apply that changes nothing, so quantities are
compared by value and nothing else is.
"""

from zonekeeper.operator import quantities
from zonekeeper.operator.api import Json


def holds(wanted: Json, found: Json) -> bool:
    """Is everything that is wanted in what was found?"""
    return _holds(wanted, found)


def _holds(wanted: object, found: object) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and _holds(value, found[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(wanted) == len(found)
            and all(_holds(one, other) for one, other in zip(wanted, found, strict=True))
        )
    return wanted == found or _same_quantity(wanted, found)


def _same_quantity(wanted: object, found: object) -> bool:
    one, other = quantities.value(wanted), quantities.value(found)
    return one is not None and one == other
