"""The volumes of a bookie: their kinds, and the least sizes at which it has room to work. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.shapes import names, quantities
from zonekeeper.placement.base import fields
from zonekeeper.placement.base.fields import Problem
from zonekeeper.wire.running.bookie_config import ARRIVAL_BYTES_MIN, CAPACITY_BYTES_MIN

CLASS: Final = fields.Text(names.SUBDOMAIN, "the name of a storage class", "fast")
SIZE: Final = fields.Text(r"[1-9][0-9]{0,5}(Mi|Gi|Ti)", "a whole number and Mi, Gi or Ti", "100Gi")
#: What is said of a size that is smaller than that of the volumes that are there.
NO_SHRINKING: Final = (
    "cannot become less once the cluster is built: no volume shrinks; set it to what it was or more"
)
#: How a bookie gets a volume of another class or of a smaller size.
OTHER_VOLUMES: Final = (
    "for other volumes set spec.storage.newVolumes, and give each bookie one "
    "(zonekeeper.io/replace)"
)
_BYTES: Final = {"Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_MIB: Final = _BYTES["Mi"]

#: The least size of a volume that holds arrival segments beside all else, and of any other.
WHOLE_MIB_MIN: Final = (CAPACITY_BYTES_MIN + ARRIVAL_BYTES_MIN) // _MIB
PART_MIB_MIN: Final = CAPACITY_BYTES_MIN // _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume's size, and its storage class; None: the default class."""

    size: str
    storage_class: str | None


def too_small(least_mib: int) -> tuple[str, str]:
    """Give the rule that a volume breaks, and what to do."""
    return (
        f"must be at least {least_mib}Mi, or the bookie has no room to work",
        f"write {least_mib}Mi or more",
    )


def of_class(size: str, storage_class: object) -> Volume:
    """Give a volume of this size; the class may be left out."""
    return Volume(size=size, storage_class=None if storage_class is None else str(storage_class))


def is_same(one: Volume, other: Volume) -> bool:
    """Are two volumes of one size and class? Sizes are compared by value."""
    same_size = quantities.value(one.size) == quantities.value(other.size)
    return same_size and one.storage_class == other.storage_class


def growth_stop(storage_class: str | None, growable: Mapping[str, bool | None]) -> str | None:
    """Say why the volumes of a class do not grow; None: they may.

    ``growable``: what was read of classes; None: a class may not be read.
    """
    if not storage_class:
        return "volumes without a storage class cannot grow"
    may = growable.get(storage_class)
    if may is None:
        return (
            f"whether volumes of storage class {storage_class} may grow was not read: give the "
            "operator's role the rights of this release (manifests/operator/rbac.yaml)"
        )
    if may:
        return None
    return (
        f"storage class {storage_class} does not let its volumes grow (allowVolumeExpansion), "
        "or is gone"
    )


def problems(sizes: Mapping[str, object], journal_size: object) -> Iterator[Problem]:
    """Find volumes that are too small; None: there is none, or its size cannot be read."""
    whole = WHOLE_MIB_MIN if journal_size is None else PART_MIB_MIN
    asked = [(path, given, whole) for path, given in sizes.items()]
    for path, given, least_mib in (*asked, ("storage.journal.size", journal_size, PART_MIB_MIN)):
        if given is not None and _bytes(str(given)) < least_mib * _MIB:
            yield Problem(f"spec.{path}", fields.shown(given), *too_small(least_mib))


def _bytes(size: str) -> int:
    return int(size[:-2]) * _BYTES[size[-2:]]
