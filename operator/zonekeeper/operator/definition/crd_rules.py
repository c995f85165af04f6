"""The rules between fields of a resource that need no judgement, in CEL. Pure.

Each rule has its words and names its field. The operator checks all of them again, in the same
words where it can: the definition that is installed may be older than the operator. What needs the
judgement of placement is the operator's alone.

The API server does not check a rule again whose part of the resource is unchanged. So a resource
that was stored under an older definition can still have its status written, if the rule stands at
the part that it is about and not at the top.
"""

from typing import Final

from zonekeeper.operator.cluster import desired, heal_rules
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes import images, volumes
from zonekeeper.placement.policy import rules

#: A cluster is built once its instance is known. Before that, every field can be corrected.
_BUILT: Final = "has(oldSelf.status) && has(oldSelf.status.instance)"
_DEFAULTS: Final = rules.Policy(placement=rules.PlacementRules(zones=()))
#: The upgrade domains of a zone, which have a default in the record.
_DOMAINS: Final = (
    f"{{}}.spec.?policy.?placement.?upgradeDomains.orValue({_DEFAULTS.placement.upgrade_domains})"
)
#: The condition of a resource whose pods all run what it asks for (``plan.conditions``).
UP_TO_DATE: Final = "UpToDate"

#: A name cannot be corrected later, so a resource that is there already keeps its name.
_NAME_RULE: Final = {
    "rule": f"oldSelf.hasValue() || self.metadata.name.matches('^{desired.CLUSTER_NAME}$')",
    "optionalOldSelf": True,
    "message": f"{desired.CLUSTER_NAME_RULE}; choose another name",
    "fieldPath": ".metadata.name",
}
_VOLUMES_STAY: Final = (
    "cannot change once the cluster is built: its volumes are there; set it to what it was"
)
#: What was said of new volumes may be said of all of them: the operator looks whether it is so.
_NEW: Final = "oldSelf.spec.storage.newVolumes"
_BOTH_JOURNALS: Final = "(has(self.spec.storage.journal) && has(oldSelf.spec.storage.journal))"


def _larger(size: str, before: str) -> str:
    """Give the rule that a size is not smaller than it was."""
    return f"quantity({size}).compareTo(quantity({before})) >= 0"


def _same_class(now: str, before: str) -> str:
    """Give the rule that a storage class stays; an equality of optionals counts as too costly."""
    return (
        f"has({now}.className) == has({before}.className) && "
        f"(!has({now}.className) || {now}.className == {before}.className)"
    )


def _had(name: str) -> str:
    """Give the rule that a field was there that says what new volumes are like."""
    return f"has({_NEW}) && has({_NEW}.{name})"


#: What a built cluster must keep: the condition, the field, and the message if it changes.
_CHANGES: Final = (
    (
        "self.spec.metadata.uri == oldSelf.spec.metadata.uri",
        ".spec.metadata.uri",
        "cannot change once the cluster is built: its bookies belong to that root; set it to what "
        "it was",
    ),
    (
        _larger("self.spec.storage.size", "oldSelf.spec.storage.size")
        + f" || ({_had('size')} && {_larger('self.spec.storage.size', f'{_NEW}.size')})",
        ".spec.storage.size",
        f"{volumes.NO_SHRINKING}; {volumes.OTHER_VOLUMES}",
    ),
    (
        f"({_same_class('self.spec.storage', 'oldSelf.spec.storage')}) || "
        f"({_had('className')} && {_same_class('self.spec.storage', _NEW)})",
        ".spec.storage.className",
        f"{_VOLUMES_STAY}; {volumes.OTHER_VOLUMES}",
    ),
    (
        "has(self.spec.storage.journal) == has(oldSelf.spec.storage.journal)",
        ".spec.storage.journal",
        _VOLUMES_STAY,
    ),
    (
        f"!{_BOTH_JOURNALS} || "
        + _larger("self.spec.storage.journal.size", "oldSelf.spec.storage.journal.size"),
        ".spec.storage.journal.size",
        volumes.NO_SHRINKING,
    ),
    (
        f"!{_BOTH_JOURNALS} || ("
        + _same_class("self.spec.storage.journal", "oldSelf.spec.storage.journal")
        + ")",
        ".spec.storage.journal.className",
        _VOLUMES_STAY,
    ),
    (
        f"{_DOMAINS.format('self')} == {_DOMAINS.format('oldSelf')}",
        ".spec.policy.placement.upgradeDomains",
        "cannot change once the cluster is built: the cookies of its bookies have their upgrade "
        "domains; set it to what it was",
    ),
)
#: A roll that is under way, or that has halted, may be taken back.
_RUNS_THE_NEWER: Final = (
    f"{_BUILT} && has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(one, "
    f"one.type == '{UP_TO_DATE}' && one.status == 'True')"
)


def of_resource() -> list[Json]:
    """Give the rules over the whole resource."""
    changes = (
        {"rule": f"!({_BUILT}) || {holds}", "message": message, "fieldPath": path}
        for holds, path, message in _CHANGES
    )
    older = _rule(
        ".spec.image",
        f"!({_RUNS_THE_NEWER}) || !has(self.spec.image) || !has(oldSelf.spec.image) || "
        + images.is_not_older_cel("self.spec.image", "oldSelf.spec.image"),
        (
            f"%s: {images.OLDER_RULE} (%s); {images.OLDER_FIX}",
            *("self.spec.image", "oldSelf.spec.image"),
        ),
    )
    return [_NAME_RULE, *changes, older]


def of_spec() -> list[Json]:
    """Give the rules between fields of ``spec``."""
    quorums, watch = _DEFAULTS.quorums, _DEFAULTS.zone_watch
    ensemble = _value("quorums.ensemble", quorums.ensemble)
    write = _value("quorums.write", quorums.write)
    ack = _value("quorums.ack", quorums.ack)
    ack_zones = _value("quorums.ackZones", quorums.ack_zones)
    low = _value("zoneWatch.lowMark", watch.low_mark)
    high = _value("zoneWatch.highMark", watch.high_mark)
    least = _value("placement.minZones", _DEFAULTS.placement.min_zones)
    strict = _value("placement.strict", str(_DEFAULTS.placement.strict).lower())
    bookies, zones = "self.bookiesPerZone * size(self.zones)", "size(self.zones)"
    most, size = "self.heal.grow.max", "self.storage.size"
    return [
        _rule(
            ".policy.quorums.ack",
            f"{ack} <= {write}",
            ("%d: must not exceed quorums.write (%d); set it to %d or less", ack, write, write),
        ),
        _rule(
            ".policy.quorums.ackZones",
            f"{ack_zones} <= {ack}",
            ("%d: must not exceed quorums.ack (%d); set it to %d or less", ack_zones, ack, ack),
        ),
        _rule(
            ".policy.quorums.write",
            f"{write} <= {ensemble}",
            (
                "%d: must not exceed quorums.ensemble (%d); set quorums.ensemble to a multiple of "
                "%d",
                *(write, ensemble, write),
            ),
        ),
        _rule(
            ".policy.placement.minZones",
            f"!{strict} || {least} < {zones}",
            (
                "%d: must be below the number of placement.zones (%d), or the loss of one zone "
                "stops every new ensemble; use %d or add a zone",
                *(least, zones, f"{zones} - 1"),
            ),
        ),
        _rule(
            ".policy.zoneWatch.lowMark",
            f"{low} < {high}",
            (
                "%s: must be below zoneWatch.highMark (%s); lower it or raise zoneWatch.highMark "
                "(at most 1)",
                *(low, high),
            ),
        ),
        _rule(
            ".bookiesPerZone",
            f"{ensemble} <= {bookies}",
            (
                "%d: must give at least as many bookies as spec.policy.quorums.ensemble (%d), and "
                "%d zones have %d; set it to %d or more",
                *("self.bookiesPerZone", ensemble, zones, bookies),
                f"({ensemble} + {zones} - 1) / {zones}",
            ),
        ),
        _rule(
            ".heal.grow.max",
            f"!has(self.heal) || !has(self.heal.grow) || !has({most}) || !isQuantity({most}) || "
            f"!isQuantity({size}) || {_larger(most, size)}",
            (f"%s: {heal_rules.MOST_RULE} (%s); {heal_rules.MOST_FIX}", most, size),
        ),
    ]


def of_zones() -> list[Json]:
    """Give the rules between zones."""
    same = "self.filter(zone, !self.exists_one(other, other.name == zone.name))"
    selected = "has(zone.nodeSelector) && size(zone.nodeSelector) > 0"
    shared = (
        f"self.filter(zone, {selected} && !self.exists_one(other, has(other.nodeSelector) && "
        "other.nodeSelector == zone.nodeSelector))"
    )
    return [
        _rule(
            None,
            f"{same}.size() == 0",
            ("zone %s is named twice; remove one of them", f"{same}[0].name"),
        ),
        _rule(
            None,
            f"{shared}.size() == 0",
            (
                f"zones %s have the same nodeSelector; {desired.APART}",
                f"{shared}.map(zone, zone.name)",
            ),
        ),
    ]


def of_storage() -> list[Json]:
    """Give the rules on the size of a bookie's volume, with and without a journal beside it."""
    no_new = "!has(self.newVolumes) || !has(self.newVolumes.size)"
    return [
        _large_enough(least_mib, unless=unless, name=name)
        for name, none in (("size", None), ("newVolumes.size", no_new))
        for least_mib, where in (
            (volumes.WHOLE_MIB_MIN, "has(self.journal)"),
            (volumes.PART_MIB_MIN, "!has(self.journal)"),
        )
        for unless in (where if none is None else f"{none} || {where}",)
    ]


def of_journal() -> list[Json]:
    """Give the rule on the size of a journal volume."""
    return [_large_enough(volumes.PART_MIB_MIN, unless="!has(self.size)", name="size")]


def _large_enough(least_mib: int, *, unless: str, name: str) -> Json:
    return {
        "rule": f"{unless} || !isQuantity(self.{name}) || "
        f"quantity(self.{name}).compareTo(quantity('{least_mib}Mi')) >= 0",
        "message": "; ".join(volumes.too_small(least_mib)),
        "fieldPath": f".{name}",
    }


def _value(name: str, default: object) -> str:
    """Give the value of a field of the policy in CEL, or its default."""
    return f"self.?policy.?{name.replace('.', '.?')}.orValue({default})"


def _rule(path: str | None, holds: str, words: tuple[str, ...]) -> Json:
    """Give a rule with its words, in which expressions are filled in; ``path``: the wrong field.

    Without the values, the words are those that are said if CEL cannot fill them in.
    """
    text, *values = words
    bare = text.replace("%d: ", "").replace("%s: ", "").replace(" (%d)", "").replace(" (%s)", "")
    field = {} if path is None else {"fieldPath": path}
    return {
        "rule": holds,
        "message": bare.replace("%d", "N").replace("%s", "NAME"),
        "messageExpression": f"'{text}'.format([{', '.join(values)}])",
        **field,
    }
