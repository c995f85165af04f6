"""A local cluster's status, for people and for programs."""

from collections.abc import Iterator

from rich import box
from rich.table import Table
from rich.text import Text

from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_records import ZoneRecord
from zonekeeper.shell.local import local_shape
from zonekeeper.shell.local.local_looking import LocalStatus, Process, SeenBookie, SeenProcess
from zonekeeper.shell.local.local_shape import Timers
from zonekeeper.shell.local.local_state import LocalState
from zonekeeper.shell.reaching import reaching

_STYLES = {
    Process.RUNNING: "",
    Process.CUT_OFF: "yellow",
    Process.STOPPED: "red",
    Process.ENDED: "red",
}
#: The only column that may be wrapped.
_REASON = "because"
_NO_RECORD = "no zone watch has evaluated it yet"

SHORT_TIMERS = "timers are scaled down, so that an outage is seen and judged in seconds"


def encryption(state: LocalState) -> str:
    """Say how the bookies of a cluster serve, and what programs need for it."""
    if not state.shape.tls:
        return "bookies serve plain text: every user of this machine may do everything"
    if state.shape.zookeeper:
        return "bookies serve over TLS only; programs name the files in the folder's tls/client"
    return (
        "bookies serve over TLS only; programs and commands find their certificates by themselves"
    )


def plain(found: LocalStatus) -> dict[str, object]:
    """Give the status as plain data."""
    recorded = found.recorded
    server = found.zookeeper
    return {
        "metadata": found.metadata,
        "timers": found.state.shape.timers,
        "tls": found.state.shape.tls,
        "unknown": recorded.unknown or None,
        "underReplicated": recorded.underreplicated,
        "zooKeeper": None if server is None else {"process": server.process, "pid": server.pid},
        "zones": {
            zone: _plain_zone(recorded.zones.get(zone))
            for zone in local_shape.zones(found.state.shape)
        },
        "bookies": [
            {
                "id": seen.name,
                "zone": seen.location.zone,
                "upgradeDomain": seen.location.upgrade_domain,
                "process": seen.process,
                "pid": seen.pid,
                "registration": _registration(seen),
                "address": seen.address,
            }
            for seen in found.bookies
        ],
        "autorecovery": [
            {
                "name": seen.name,
                "zone": seen.zone,
                "process": seen.process,
                "pid": seen.pid,
                "http": seen.http,
                "leads": list(seen.leads),
            }
            for seen in found.autorecovery
        ],
    }


def show(found: LocalStatus) -> None:
    """Draw the status for people."""
    console = reaching.console()
    console.print(_bookies(found))
    console.print(_zones(found))
    if found.autorecovery:
        console.print(_autorecovery(found))
    for line in _lines(found):
        console.print(line, markup=False)
    if found.recorded.unknown:
        console.print(f"unknown, because {found.recorded.unknown}", style="red", markup=False)


def _bookies(found: LocalStatus) -> Table:
    table = _table("bookie", "location", "process", "registered", "address")
    for seen in found.bookies:
        row = (seen.name, str(seen.location), _process(seen), _registration(seen))
        table.add_row(*row, seen.address or "")
    return table


def _zones(found: LocalStatus) -> Table:
    table = _table("zone", "state", "bookies", "repair", _REASON)
    for zone in local_shape.zones(found.state.shape):
        record = found.recorded.zones.get(zone)
        if record is None:
            unknown = found.recorded.unknown and "it cannot be read"
            row = (Observation.UNKNOWN, "?", Permission.HELD, unknown or _NO_RECORD)
        else:
            there = f"{record.evidence.available}/{record.evidence.total}"
            held = not record.gate.permits
            reason = record.gate.reason if held else record.observed.reason
            row = (record.observed.state, there, record.gate.permission, reason)
        table.add_row(zone, *map(Text, row))
    return table


def _autorecovery(found: LocalStatus) -> Table:
    table = _table("autorecovery", "zone", "process", "leads", "look at")
    for seen in found.autorecovery:
        where = f"http://{seen.http}/state" if seen.http else ""
        table.add_row(seen.name, seen.zone, _process(seen), ", ".join(seen.leads), where)
    return table


def _lines(found: LocalStatus) -> Iterator[str]:
    count = found.recorded.underreplicated
    yield f"ledgers that wait for repair: {'unknown' if count is None else count}"
    if found.zookeeper is not None:
        yield f"ZooKeeper: {_process(found.zookeeper).plain}"
    if found.state.shape.timers is Timers.SHORT:
        yield SHORT_TIMERS
    yield encryption(found.state)
    yield f"metadata: {found.metadata}"


def _table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE)
    for title in titles:
        table.add_column(title, no_wrap=title != _REASON)
    return table


def _process(seen: SeenProcess) -> Text:
    if seen.process is Process.RUNNING:
        return Text(f"pid {seen.pid}")
    return Text(seen.process, style=_STYLES[seen.process])


def _registration(seen: SeenBookie) -> str:
    return "unknown" if seen.registration is None else seen.registration.value


def _plain_zone(record: ZoneRecord | None) -> dict[str, object]:
    if record is None:
        return {"observation": None, "permission": Permission.HELD, "reason": _NO_RECORD}
    return {
        "observation": record.observed.state,
        "because": record.observed.reason,
        "permission": record.gate.permission,
        "reason": record.gate.reason,
        "available": record.evidence.available,
        "counted": record.evidence.total,
    }
