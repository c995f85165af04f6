"""Answers of looking commands while the store is away: tables and data of what processes say.

Each answer begins with a line that says so. Nothing is guessed: what no process says is unknown
(``null``), and a page of another process is shown as one, and counted for nobody.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.shell.reaching import reaching, second_hand, sights
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reaching.second_hand import SecondHand
from zonekeeper.shell.reaching.sights import Answering, HttpSight, Mistaken
from zonekeeper.wire.running.page_identity import ProcessKind

#: What is said of a zone or the cluster, of the names that autorecovery's page has.
_RECORD: Final = ("observation", "because", "permission", "reason", "available", "counted")
RUNBOOK: Final = "storeAway"


# ── the data ──


def process(sight: HttpSight) -> dict[str, object]:
    """Give how a process is, as plain data."""
    known = sight.process
    ready = sight.ready if isinstance(sight, Answering) else None
    said = list(sight.reasons) if isinstance(sight, Answering) else [sight.why]
    return {
        "kind": known.kind,
        "name": known.name,
        "zone": sights.zone_of(sight),
        "http": None if known.http is None else str(known.http),
        "answers": ready is not None,
        "otherProcess": isinstance(sight, Mistaken),
        "ready": ready,
        "said": said,
    }


def bookie(sight: HttpSight) -> dict[str, object]:
    """Give how a bookie is, as plain data, under the names of ``bookies list`` where it has one."""
    state = sight.state if isinstance(sight, Answering) else {}
    domain = sight.process.upgrade_domain
    if isinstance(sight, Answering):
        domain = sight.identity.upgrade_domain or domain
    return {
        **process(sight),
        "bookie": sight.process.name,
        "upgradeDomain": domain,
        "state": state.get("state"),
        "freeBytes": state.get("freeBytes"),
        "totalBytes": state.get("totalBytes"),
        "restrictions": state.get("restrictions", []),
    }


def zones(found: SecondHand, wanted: Iterable[ZoneName]) -> dict[str, object]:
    """Give how zones are: by what the zone watch wrote last, and by which bookies answer."""
    names = _wanted_zones(found, wanted)
    watching = found.sight.watching
    rows = {zone: _zone(found, zone) for zone in names}
    return {
        "storeAway": found.plain(),
        "saidBy": None if watching is None else watching.process.name,
        "zones": rows,
        "whole": _record(found, ""),
    }


def _wanted_zones(found: SecondHand, wanted: Iterable[ZoneName]) -> tuple[ZoneName, ...]:
    watching = found.sight.watching
    recorded = {} if watching is None else _mapping(watching.state.get("records"))
    known = sorted({*found.sight.zones, *(ZoneName(name) for name in recorded if name)})
    for zone in wanted:
        if zone not in known:
            raise RefusedCommand(
                f"there is no zone {zone} among the processes that are remembered; there are "
                f"{', '.join(known) or 'none'}"
            )
    return tuple(wanted) or tuple(known)


def _zone(found: SecondHand, zone: ZoneName) -> dict[str, object]:
    there = [one for one in found.sight.of_kind(ProcessKind.BOOKIE) if sights.zone_of(one) == zone]
    answering = [one for one in there if isinstance(one, Answering)]
    return {
        **_record(found, zone),
        "heldBy": _mapping(_held(found).get(zone)).get("predicate"),
        "bookiesRemembered": len(there),
        "bookiesAnswering": len(answering),
        "bookiesReady": sum(one.ready for one in answering),
    }


def _record(found: SecondHand, zone: str) -> dict[str, object]:
    watching = found.sight.watching
    records = {} if watching is None else _mapping(watching.state.get("records"))
    record = _mapping(records.get(zone))
    return {name: record.get(name) for name in _RECORD}


def _held(found: SecondHand) -> Mapping[str, Plain]:
    watching = found.sight.watching
    return {} if watching is None else _mapping(watching.state.get("heldBy"))


def _mapping(value: Plain) -> Mapping[str, Plain]:
    return value if isinstance(value, dict) else {}


# ── the answers ──


def show_zones(place: Place, found: SecondHand, wanted: Iterable[ZoneName]) -> None:
    """Answer ``zones status``."""
    data = zones(found, wanted)
    if place.as_json:
        reaching.print_json(data)
        return
    _begin(found)
    table = _table("zone", "answering", "state", "repair", "because")
    rows = data["zones"]
    assert isinstance(rows, dict)
    for name, row in rows.items():
        count = f"{row['bookiesAnswering']}/{row['bookiesRemembered']}"
        _add(table, name, count, *_judged(row))
    whole = data["whole"]
    assert isinstance(whole, dict)
    _add(table, "(cluster)", "", *_judged(whole))
    reaching.console().print(table)
    _say_source(found)
    _show_mistaken(found)


def show_bookies(place: Place, found: SecondHand) -> None:
    """Answer ``bookies list``: as data each row says that the store is away."""
    rows = [bookie(one) for one in found.sight.of_kind(ProcessKind.BOOKIE)]
    if place.as_json:
        reaching.print_json([{**row, "storeAway": found.plain()} for row in rows])
        return
    _begin(found)
    table = _table("bookie", "zone", "upgrade domain", "state", "what it says")
    for row, one in zip(rows, found.sight.of_kind(ProcessKind.BOOKIE), strict=True):
        where = (row["zone"] or "?", row["upgradeDomain"] or "?")
        _add(table, one.process.name, *where, _state(one), _said(one))
    reaching.console().print(table)


def show_bookie(place: Place, found: SecondHand, name: BookieId) -> None:
    """Answer ``bookies show``."""
    sight = found.sight.bookie(name)
    if sight is None:
        known = ", ".join(one.process.name for one in found.sight.of_kind(ProcessKind.BOOKIE))
        raise RefusedCommand(
            f"no bookie {name} is remembered, and the store is away; there are {known or 'none'}"
        )
    row = bookie(sight)
    if place.as_json:
        state = dict(sight.state) if isinstance(sight, Answering) else None
        reaching.print_json({**row, "storeAway": found.plain(), "says": state})
        return
    _begin(found)
    table = Table(box=box.SIMPLE, show_header=False)
    for title, value in (
        ("bookie", name),
        ("stands in", f"zone {row['zone'] or '?'}, upgrade domain {row['upgradeDomain'] or '?'}"),
        ("pages", row["http"] or "none"),
        ("address", sight.process.address or "none"),
        ("state", _state(sight)),
        ("says", _said(sight) or "nothing"),
    ):
        table.add_row(title, Text(str(value)))
    if isinstance(sight, Answering):
        for key in ("bootEpoch", "version", "ledgers", "ledgersInLimbo", "freeBytes"):
            table.add_row(key, Text(str(sight.state.get(key, "not known"))))
    reaching.console().print(table)


def show_plan(place: Place, found: SecondHand) -> None:
    """Answer ``plan``: what holds each zone, as the zone watch's process knows it."""
    watching = found.sight.watching
    held = [
        {
            "what": f"zone {zone}",
            "predicate": _mapping(one).get("predicate"),
            "text": _mapping(one).get("text"),
            "runbook": _mapping(one).get("predicate"),
        }
        for zone, one in sorted(_held(found).items())
    ]
    missing = [] if watching is None else sorted(_mapping(watching.state.get("missing")))
    if place.as_json:
        known = watching is not None
        away = {"storeAway": found.plain(), "saidBy": watching.process.name if watching else None}
        data = {"held": held if known else None, "missing": missing if known else None}
        reaching.print_json({**away, **data, "notNamed": None})
        return
    _begin(found)
    if held:
        table = _table("what", "predicate", "why")
        for row in held:
            _add(table, row["what"], row["predicate"], row["text"])
        reaching.console().print(table)
    if missing:
        text = f"missing when the store was read: {', '.join(missing)}"
        reaching.console().print(text, markup=False, soft_wrap=True)
    _say_source(found)


def show_autorecovery(place: Place, found: SecondHand) -> None:
    """Answer ``autorecovery status``: each process, the roles that it leads, and its alerts."""
    rows = [
        {
            **process(one),
            "leads": _leads(one),
            "alerts": one.state.get("alerts") if isinstance(one, Answering) else None,
        }
        for one in found.sight.of_kind(ProcessKind.AUTORECOVERY)
    ]
    if place.as_json:
        watching = found.sight.watching
        enabled = None if watching is None else watching.state.get("replicationEnabled")
        switch = {True: "on", False: "off"}.get(enabled) if isinstance(enabled, bool) else None
        reaching.print_json({"storeAway": found.plain(), "switch": switch, "processes": rows})
        return
    _begin(found)
    table = _table("process", "zone", "leads", "state", "what it says")
    for row, one in zip(rows, found.sight.of_kind(ProcessKind.AUTORECOVERY), strict=True):
        leads = ", ".join(_leads(one)) or "nothing"
        _add(table, one.process.name, row["zone"] or "?", leads, _state(one), _said(one))
    reaching.console().print(table)
    _say_source(found)


# ── the words ──


def begin(found: SecondHand) -> str:
    """Give the first lines of an answer: the store is away, why, and what follows."""
    age_s = max(0, reaching.wall_ms() - found.last.seen_ms) // 1000
    return (
        f"the metadata store is away: {found.why}\n"
        f"what follows is what processes say over HTTP, at the endpoints seen at "
        f"{second_hand.when(found.last.seen_ms)} ({age_s} s ago); what to do: zonekeeper runbook "
        f"{RUNBOOK}"
    )


def in_words(sight: HttpSight) -> str:
    """Say in one line how a process is."""
    return ": ".join(filter(None, (_state(sight), _said(sight))))


def _begin(found: SecondHand) -> None:
    reaching.console().print(begin(found), style="yellow", markup=False, soft_wrap=True)


def _say_source(found: SecondHand) -> None:
    watching = found.sight.watching
    if watching is None:
        text = "no autorecovery process answers that has read the records: what is held is unknown"
    else:
        how = "; ".join(watching.reasons) or "ready"
        text = f"records and holds as {watching.process.name} knows them ({how})"
    reaching.console().print(text, markup=False, soft_wrap=True)


def _show_mistaken(found: SecondHand) -> None:
    for one in found.sight.sights:
        if isinstance(one, Mistaken):
            text = f"{one.process.kind} {one.process.name} at {one.process.http}: {one.why}"
            reaching.console().print(text, markup=False, soft_wrap=True)


def _leads(sight: HttpSight) -> list[str]:
    roles = _mapping(sight.state.get("leads")) if isinstance(sight, Answering) else {}
    return sorted(role for role, leads in roles.items() if leads is True)


def _state(sight: HttpSight) -> str:
    if isinstance(sight, Mistaken):
        return "another process"
    if not isinstance(sight, Answering):
        return "no answer"
    state = sight.state.get("state")
    return ", ".join(
        [*([state] if isinstance(state, str) else []), "ready" if sight.ready else "not ready"]
    )


def _said(sight: HttpSight) -> str:
    if not isinstance(sight, Answering):
        return sight.why
    restrictions = sight.state.get("restrictions")
    said = [
        f"{one.get('what')} (by {one.get('by') or 'a person'}: {one.get('reason')})"
        for one in (restrictions if isinstance(restrictions, list) else [])
        if isinstance(one, dict)
    ]
    return "; ".join([*said, *sight.reasons])


def _judged(row: Mapping[str, object]) -> tuple[object, object, object]:
    because = row["reason"] if row["permission"] == "held" else row["because"]
    return row["observation"] or "unknown", row["permission"] or "unknown", because or ""


def _table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE)
    for title in titles:
        table.add_column(title)
    return table


def _add(table: Table, *cells: object) -> None:
    table.add_row(*(Text(str(cell)) for cell in cells))
