"""A preflight as text for people, and as plain data for programs. Pure."""

import json
from collections.abc import Iterator

from zonekeeper.operator.cluster.choices import OnScaleDown
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan.preflight import ObjectChange, ResourcePreflight, StepAhead
from zonekeeper.operator.roll.last_copies import StepPrice
from zonekeeper.operator.sight import naming
from zonekeeper.placement.base import units

NOTHING_CHANGED = "nothing was changed"


def lines(found: ResourcePreflight) -> Iterator[str]:
    """Give the text, line by line."""
    for title, said in (
        ("refused", found.refused),
        ("warnings", found.warnings),
        ("not seen", found.unseen),
    ):
        if said:
            yield f"{title}:"
            yield from (f"  {line}" for one in said for line in one.splitlines())
    if not found.refused:
        yield from _objects(found.changes)
        yield from _steps(found)
        yield from _removals(found)
        yield from _drains(found)
        yield from (f"volume: {one}" for one in found.full)
    yield from _releases(found)
    if found.is_paused:
        yield "spec.paused is true: nothing of it is done until it is false"
    yield NOTHING_CHANGED


def plain(found: ResourcePreflight) -> Json:
    """Give it as plain data."""
    return {
        "legal": not found.refused,
        "refused": list(found.refused),
        "warnings": list(found.warnings),
        "notSeen": list(found.unseen),
        "changes": [
            {
                "kind": one.kind,
                "name": one.name,
                "what": one.what,
                "fields": [
                    {"field": path, "from": before, "to": after}
                    for path, before, after in one.fields
                ],
            }
            for one in found.changes
        ],
        "steps": [
            {
                "unit": str(one.step.unit),
                "bookies": list(one.step.bookies),
                "text": str(one.step),
                "copies": None if one.price is None else _plain_price(one.price),
            }
            for one in found.steps
        ],
        "removals": [
            {
                "bookie": one.bookie,
                "ledgers": None if one.held is None else one.held.ledgers,
                "bytes": None if one.held is None else one.held.closed_bytes,
            }
            for one in found.removals
        ],
        "removedZones": list(found.zones),
        "drainedZones": list(found.drains),
        "fullVolumes": list(found.full),
        "movedBytes": found.moved_bytes if found.removals else 0,
        "releases": [
            {
                "gate": one.gate,
                "reason": one.reason,
                "bookies": list(one.bookies),
                "ledgers": one.work.ledgers,
                "open": one.work.open_ledgers,
                "beyondRepair": one.work.beyond_repair,
                "unreadable": one.work.unreadable,
                "bytes": one.work.bytes,
                "crossingBytes": round(one.work.crossing_bytes),
            }
            for one in found.releases
        ],
        "paused": found.is_paused,
        "leastMs": found.least_ms,
        "mostMs": found.most_ms,
    }


def _plain_price(price: StepPrice) -> Json:
    return {
        "ledgers": price.ledgers,
        "lastCopy": price.last_copy,
        "unreadable": price.unreadable,
        "unrecoverable": price.unrecoverable,
        "first": price.first,
    }


def _objects(changes: tuple[ObjectChange, ...]) -> Iterator[str]:
    if not changes:
        yield "objects: none would change"
        return
    yield "objects:"
    for one in changes:
        yield f"  {one.what} {one.kind} {one.name}"
        for path, before, after in one.fields:
            yield f"    {path}: {_shown(before)} -> {_shown(after)}"


def _steps(found: ResourcePreflight) -> Iterator[str]:
    if not found.steps:
        yield "roll: no bookie is made anew"
        return
    yield f"roll: {len(found.steps)} steps, one after the other:"
    for number, one in enumerate(found.steps, 1):
        yield f"  {number}. {one.step}"
        yield f"     {_price(one)}"
    assert found.update is not None, "a roll has its rules"
    yield (
        f"the roll takes {units.duration_text(found.least_ms)} of rest (update.bake, "
        f"{units.duration_text(found.update.bake_ms)}, after each step) and the restarts of the "
        f"steps, which were not measured. It is done, or has halted, within "
        f"{units.duration_text(found.most_ms)} (update.deadline, "
        f"{units.duration_text(found.update.deadline_ms)}, for each step), if no gate waits"
    )
    if found.update.paused:
        yield "update.paused: no step begins"


def _removals(found: ResourcePreflight) -> Iterator[str]:
    if not found.removals:
        return
    assert found.on_scale_down is not None, "it was read with the rest"
    word = "deleted" if found.on_scale_down is OnScaleDown.DELETE else "left"
    yield (
        f"scale-down: {len(found.removals)} bookies are emptied and removed, one after the other; "
        f"their volumes are {word} (storage.onScaleDown):"
    )
    for number, one in enumerate(found.removals, 1):
        said = "what it holds is not known"
        if one.held is not None:
            said = (
                f"{one.held.ledgers} ledgers name it; of the closed ones it holds "
                f"{one.held.closed_bytes} bytes"
            )
        yield f"  {number}. {one.bookie}: {said}"
    moved = found.moved_bytes
    total = "how much is copied is not known" if moved is None else f"{moved} bytes are copied"
    zones = "".join(f"; zone {zone} leaves, and the others take it" for zone in found.zones)
    yield f"  in all, {total}{zones}"


def _drains(found: ResourcePreflight) -> Iterator[str]:
    if found.drains:
        zones = ", ".join(found.drains)
        yield (
            f"drains: nodes are cordoned in these zones: {zones}; one after another is open to its "
            "drain, each once its gates hold: see the condition Drainable"
        )


def _releases(found: ResourcePreflight) -> Iterator[str]:
    for one in found.releases:
        work = one.work
        yield f"held: {one.gate}: {one.reason}"
        yield (
            f"  a release copies what {naming.some(list(one.bookies))} held: {work.ledgers} "
            f"ledgers, {work.bytes} bytes of those that are closed ({work.open_ledgers} are "
            f"open), {round(work.crossing_bytes)} of them across zones on average"
        )
        if work.beyond_repair or work.unreadable:
            yield (
                f"  {work.beyond_repair} ledgers have entries without a living copy; "
                f"{work.unreadable} cannot be read"
            )


def _price(ahead: StepAhead) -> str:
    price = ahead.price
    if price is None:
        return "what it leaves of ledgers is not known"
    if not price.ledgers:
        return "no ledger has a copy there"
    said = [f"ledgers with a copy there: {price.ledgers}"]
    if price.last_copy:
        said.append(f"at their last copy: {price.last_copy} (the first: {price.first})")
    if price.unreadable:
        said.append(f"perhaps not readable: {price.unreadable}")
    if price.unrecoverable:
        said.append(f"not to be recovered for certain: {price.unrecoverable}")
    if len(said) == 1:
        said.append("each keeps two copies or more")
    return "; ".join(said)


def _shown(value: object) -> str:
    return "nothing" if value is None else json.dumps(value, sort_keys=True)
