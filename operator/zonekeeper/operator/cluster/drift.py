"""Does an object in Kubernetes still have every field that the operator wants? Pure.

The API server adds defaults, and other people add fields of their own. So an object is as wanted
when every wanted field is there with its value; more fields do no harm. If the operator wants a
field no longer, the annotation with the hash of the applied object differs.

A list whose wanted items all have names may have more items: an injector of sidecars adds some. A
difference that is none would cost an apply in each turn, so quantities are compared by value.
"""

from collections.abc import Iterator
from typing import Any

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes import quantities


def holds(wanted: Json, found: Json) -> bool:
    """Does ``found`` have every field of ``wanted``?"""
    return _holds(wanted, found)


def changes(wanted: Json, found: Json) -> Iterator[tuple[str, object, object]]:
    """Give each field of ``wanted`` that ``found`` has not: its path, what is there, what shall be.

    There is one if and only if ``found`` does not hold ``wanted``. None: nothing is there.
    """
    yield from _changes("", wanted, found)


def _changes(path: str, wanted: object, found: object) -> Iterator[tuple[str, object, object]]:
    if _holds(wanted, found):
        return
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name, value in wanted.items():
            if name not in found:
                yield f"{path}.{name}".lstrip("."), None, value
            else:
                yield from _changes(f"{path}.{name}".lstrip("."), value, found[name])
        return
    if isinstance(wanted, list) and isinstance(found, list) and _has_names(wanted):
        known = {one.get("name"): one for one in found if isinstance(one, dict)}
        for one in wanted:
            name = one["name"]
            yield from _changes(f"{path}[{name}]", one, known.get(name))
        return
    yield path, found, wanted


def _holds(wanted: object, found: object) -> bool:
    if wanted == found:
        return True  # most parts are the same, and to see that is cheap
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and _holds(value, found[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and _list_holds(wanted, found)
    return _same_quantity(wanted, found)


def _list_holds(wanted: list[object], found: list[object]) -> bool:
    if _has_names(wanted):
        return all(any(_holds(one, other) for other in found) for one in wanted)
    return len(wanted) == len(found) and all(map(_holds, wanted, found))


def _has_names(wanted: list[Any]) -> bool:
    return all(isinstance(one, dict) and "name" in one for one in wanted)


def _same_quantity(wanted: object, found: object) -> bool:
    one, other = quantities.value(wanted), quantities.value(found)
    return one is not None and one == other
