"""Puts a snapshot together from what is known at a moment.

The judgements are those that commands print: ``View`` says what holds, ``ungated`` and ``unnamed``
say which zones cannot be held and which get no data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from zonekeeper.metadata.bookies.bookie_records import BookieRecord, Mark
from zonekeeper.metadata.bookies.restrictions import Restriction
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.topology import Bookie
from zonekeeper.placement.policy import unnamed
from zonekeeper.placement.zones.counted_time import spelled
from zonekeeper.placement.zones.losses import Held, HeldBy
from zonekeeper.replication.view.view import View
from zonekeeper.shell.console import bands, http_parts, zone_parts
from zonekeeper.shell.console.sampling import SampledRound
from zonekeeper.shell.console.snapshot import BookiePart, GatePart, Snapshot, StorePart
from zonekeeper.shell.console.store_looks import StoreLook
from zonekeeper.shell.console.zone_parts import PlacedBookie, ToldZone
from zonekeeper.shell.reaching.last_seen import LastSeen, NothingSeen
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reports import ungated
from zonekeeper.wire.grpc.tls import TlsFiles

#: So many events of the timeline stand on the page; more are drawn as bands.
EVENTS_SHOWN: Final = 60


@dataclass(slots=True, kw_only=True)
class KnownThings:
    """All that is known of a cluster; None or empty: not yet."""

    place: Place
    tls: TlsFiles | None
    cluster: str = ""
    instance: str | None = None
    view: View | None = None
    #: Was the zone watch watched for as long as it may need for an evaluation?
    evaluations_seen: bool = False
    store: StorePart = field(default_factory=StorePart)
    look: StoreLook = field(default_factory=StoreLook)
    round: SampledRound = field(default_factory=SampledRound)
    seen: LastSeen | NothingSeen = field(default_factory=lambda: NothingSeen("not read yet"))


def of(known: KnownThings, *, now_ms: int) -> Snapshot:
    """Give the snapshot."""
    found, figures = placed(known), known.round.figures
    zones_told, whole, over_http = _told(known)
    view, look = known.view, known.look
    queue = look.queue and replace(look.queue, bytes_per_second=known.round.bytes_per_second)
    states = {zone: (one.gate.observation, one.gate.permission) for zone, one in zones_told.items()}
    return Snapshot(
        cluster=known.cluster or known.place.address,
        instance=known.instance or _remembered_instance(known),
        place=_place(known),
        tls=_tls(known.tls),
        store=known.store,
        zones_over_http=over_http,
        replication_enabled=None if view is None else view.replication_enabled,
        whole=whole,
        zones=zone_parts.zones(
            found,
            zones_told,
            {} if view is None else _maintenance(view),
            figures,
            otherwise=zone_parts.NOT_READ if view is None else zone_parts.NO_RECORD,
        ),
        bookies=len(found),
        is_aggregated=len(found) > zone_parts.BOOKIES_SHOWN_MAX,
        alerts=look.alerts,
        warnings=() if view is None else _warnings(view),
        queue=queue,
        events=look.events[:EVENTS_SHOWN],
        bands=bands.of_zones(look.events, states, now_ms=now_ms // 1000 * 1000),
        figures=figures.whole,
    )


def placed(known: KnownThings) -> list[PlacedBookie]:
    """Give all bookies: as the store shows them, or while it is away, as they say themselves."""
    if known.view is None:
        seen = known.seen
        if not isinstance(seen, LastSeen):
            return []
        return http_parts.remembered(seen.processes, known.round.states)
    found = _placed_by(known.view, known.look.restrictions, evaluations_seen=known.evaluations_seen)
    return http_parts.over(found, known.round.states) if known.store.away else found


def _told(known: KnownThings) -> tuple[dict[str, ToldZone], GatePart | None, bool]:
    if known.view is not None:
        found = told(known.view, evaluations_seen=known.evaluations_seen)
        record = known.view.cluster_record
        return found, zone_parts.gate_part(record), False
    watching = known.round.watching
    if watching is None:
        return {}, None, False
    return *http_parts.told(watching.state), True


def _remembered_instance(known: KnownThings) -> str | None:
    return known.seen.instance if isinstance(known.seen, LastSeen) else None


def _place(known: KnownThings) -> tuple[str, ...]:
    instance = known.instance or _remembered_instance(known)
    named = ("--cluster-id", instance) if instance else ()
    return ("--metadata", known.place.address, *named)


def _tls(files: TlsFiles | None) -> tuple[str, ...]:
    if files is None:
        return ()
    return (
        *("--tls-authority", str(files.authority)),
        *("--tls-certificate", str(files.certificate)),
        *("--tls-key", str(files.key)),
    )


# ── from the view ──

Restrictions = Mapping[BookieId, Sequence[Restriction]]


def _placed_by(
    view: View, restricted: Restrictions, *, evaluations_seen: bool
) -> list[PlacedBookie]:
    """Give every bookie with what is said of it."""
    return [
        PlacedBookie(
            bookie=_bookie(
                one,
                view.bookie_records.get(one.id) or BookieRecord(),
                restricted.get(one.id, ()),
                _sure(view.what_holds_bookie(one.id), evaluations_seen=evaluations_seen),
            ),
            zone=None if one.location is None else one.location.zone,
            upgrade_domain=None if one.location is None else one.location.upgrade_domain,
        )
        for one in view.topology
    ]


def _bookie(
    one: Bookie, record: BookieRecord, restricted: Sequence[Restriction], held: Held | None
) -> BookiePart:
    remarks = [str(each) for each in restricted]
    if record.written_off is not None:
        remarks.append(_marked("written off", record.written_off))
    if record.lost_data is not None:
        remarks.append("lost data, and is being filled in")
    if held is not None:
        remarks.append(f"repair held by {held.by}")
    return BookiePart(
        id=one.id,
        state=one.registration.value,
        remarks=tuple(remarks),
        draining=one.draining,
        written_off=record.written_off is not None,
        held=zone_parts.hold_part(held),
        free_bytes=one.free_bytes,
        total_bytes=one.total_bytes,
    )


def _marked(what: str, mark: Mark) -> str:
    return f"{what} (by {mark.by}: {mark.reason})"


def told(view: View, *, evaluations_seen: bool) -> dict[str, ToldZone]:
    """Give what the records say of every zone that the policy, a cookie or a record names."""
    zones = {*view.policy.placement.zones, *view.topology.zones, *view.zones}
    return {
        zone: ToldZone(
            gate=zone_parts.gate_part(view.zones.get(zone)),
            held=zone_parts.hold_part(
                _sure(view.what_holds_zone(zone), evaluations_seen=evaluations_seen)
            ),
            is_named=zone in view.policy.placement.zones,
        )
        for zone in sorted(zones)
    }


def _sure(held: Held | None, *, evaluations_seen: bool) -> Held | None:
    """Leave out that no zone watch is at work while this process cannot know it yet."""
    unknown = held is not None and held.by is HeldBy.NOT_WATCHED and not evaluations_seen
    return None if unknown else held


def _maintenance(view: View) -> dict[tuple[str, str], str]:
    """Say for each unit under maintenance who declared it, why, and for how long."""
    return {
        (unit.zone, unit.upgrade_domain): (
            f"by {one.declared_by.name}: {one.declared_by.reason}, for {spelled(one.lasts_ms)}"
        )
        for unit, one in view.maintenance.items()
    }


def _warnings(view: View) -> tuple[str, ...]:
    """Give what `zones status` warns of."""
    broken = ungated.warnings(
        view.policy,
        view.topology,
        written_off=view.written_off,
        in_maintenance=frozenset(view.maintenance),
    )
    lines = [one.reason for one in broken]
    lines += unnamed.warnings(view.topology, view.policy.placement).values()
    if view.unreadable:
        lines.append(f"cannot be read, so it holds: {', '.join(view.unreadable)}")
    return tuple(lines)


def zone_of(view: View, bookie: BookieId) -> ZoneName | None:
    """Give the zone in which a bookie stands; None: not known."""
    where = view.topology.location(bookie)
    return None if where is None else where.zone
