"""What a process shows of itself: its numbers, its state, and whether it is ready."""

from collections.abc import Callable, Mapping
from typing import Final

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones.losses import Held
from zonekeeper.placement.zones.zone_records import Record
from zonekeeper.replication.orders.order_keeper import OrderKeeper
from zonekeeper.replication.run.autorecovery import Autorecovery
from zonekeeper.replication.run.settings import AutorecoverySettings
from zonekeeper.replication.view.held_back import SEVERITIES, HeldBack
from zonekeeper.replication.view.view import View
from zonekeeper.wire.formats import exposition
from zonekeeper.wire.formats.exposition import Family, Labels, labelled, single
from zonekeeper.wire.running import looking, page_identity, process_figures
from zonekeeper.wire.running.looking import Page
from zonekeeper.wire.running.page_identity import ProcessIdentity, ProcessKind
from zonekeeper.wire.socket.page_rights import PageRights

#: What keeps a process from its work before it has reached the metadata store.
UNREACHED: Final[Mapping[str, str]] = {"metadata": "not reached yet"}
_READY: Final = "1 if /readyz says so, else 0."
_LANES_BLOCKED: Final = (
    "How often the socket lane of a bookie was found to be out of reach while gRPC was not."
)


def metrics(process: Autorecovery, rights: PageRights | None = None) -> Page:
    """Give ``/metrics``; ``rights`` are those to the pages, None: the pages are plain."""
    families = [
        single("zonekeeper_autorecovery_ready", not process.unready(), _READY),
        labelled(
            "zonekeeper_autorecovery_lanes_blocked_total",
            "bookie",
            {str(bookie): many for bookie, many in process.client.counters.lanes_blocked.items()},
            _LANES_BLOCKED,
        ),
        *process_figures.families(),
        looking.store_connected(connected=process.client.cluster.store.session.connected),
    ]
    families += exposition.counted(
        "zonekeeper_zone_watch", process.zone_watch.counters, of_now=True
    )
    families += exposition.counted("zonekeeper_auditor", process.auditor.metrics, of_now=True)
    families += exposition.counted("zonekeeper_log_keeper", process.log_keeper.metrics, of_now=True)
    families += exposition.counted("zonekeeper_repair", process.replicator.metrics, of_now=False)
    families += _of_orders(process.order_keeper)
    families.append(_alerts(process.view, process.held_back))
    if process.view.looks:
        families += _of_view(process.view)
    if rights is not None:
        families += rights.families()
    return Page(exposition.render(families), content_type=exposition.CONTENT_TYPE)


def begun(settings: AutorecoverySettings, version: str) -> dict[str, object]:
    """Give what ``/state`` says before the metadata store is reached."""
    mine = _identity(settings, None).plain()
    return {**mine, page_identity.VERSION: version, "unready": dict(UNREACHED)}


def state(process: Autorecovery, settings: AutorecoverySettings, version: str) -> Page:
    """Give ``/state``: what this process knows, as JSON."""
    view = process.view
    data: dict[str, object] = {
        **_identity(settings, process.client.cluster.instance).plain(),
        page_identity.VERSION: version,
        "unready": process.unready(),
    }
    data["leads"] = {
        "zoneWatch": bool(process.zone_watch.counters.leading),
        "auditor": bool(process.auditor.metrics.leading),
        "logKeeper": bool(process.log_keeper.metrics.leading),
    }
    data["alerts"] = dict(process.held_back.alerts)
    data["orders"] = {
        str(bookie): None if one.progress is None else str(one.progress.phase)
        for bookie, one in (process.order_keeper.orders or {}).items()
    } | {str(bookie): "cannot be read" for bookie in process.order_keeper.unreadable}
    if view.looks:
        records = _records(view)
        data["replicationEnabled"] = view.replication_enabled
        data["unreadable"] = list(view.unreadable)
        data["missing"] = {name: str(where or "") for name, where in view.missing.items()}
        data["records"] = {name: _plain(one) for name, one in records.items()}
        data["heldBy"] = {
            zone: {"predicate": held.by, "text": held.text} for zone, held in _held(view).items()
        }
    return looking.as_json(data)


def _identity(settings: AutorecoverySettings, instance: str | None) -> ProcessIdentity:
    return ProcessIdentity(
        kind=ProcessKind.AUTORECOVERY, name=settings.name, instance=instance, zone=settings.zone
    )


def _of_orders(keeper: OrderKeeper) -> list[Family]:
    """Give the figures of the orders about bookies, whichever process works on them."""
    orders = keeper.orders or {}
    kinds = {bookie: str(one.kind) for bookie, one in orders.items()}
    still: dict[Labels, float] = {
        (("bookie", str(bookie)), ("order", kinds[bookie])): still_ms / 1000
        for bookie, still_ms in keeper.still_ms().items()
    }
    left = {
        str(bookie): float(one.progress.bytes_left)
        for bookie, one in orders.items()
        if one.progress is not None
    }
    return [
        Family(
            "zonekeeper_order_still_seconds",
            still,
            "For how long nothing moved of an order about a bookie; 0 while it is held.",
        ),
        labelled(
            "zonekeeper_order_left_bytes",
            "bookie",
            left,
            "Bytes of closed ledgers that are to leave a bookie by an order.",
        ),
    ]


def _alerts(view: View, held_back: HeldBack) -> Family:
    """Give all alerts; what keeps bookies from collecting is known also before the first look."""
    alerts: dict[Labels, float] = {
        (("alert", alert), ("severity", alert.severity), ("zone", name)): 1
        for name, one in _records(view).items()
        for alert in one.alerts
    }
    for name in held_back.alerts:
        severity = SEVERITIES[name]
        alerts[(("alert", name), ("severity", severity), ("zone", ""))] = 1
    return Family(
        "zonekeeper_alert",
        alerts,
        "1 for each alert that stands; without a zone it is the cluster's.",
    )


def _of_view(view: View) -> list[Family]:
    records = _records(view)
    held: dict[Labels, float] = {
        (("by", one.by), ("zone", zone)): 1 for zone, one in _held(view).items()
    }
    return [
        single(
            "zonekeeper_replication_enabled",
            view.replication_enabled,
            "1 if automatic repair is switched on, else 0.",
        ),
        single(
            "zonekeeper_missing_bookies",
            len(view.missing),
            "Bookies that have a cookie and are not registered.",
        ),
        single(
            "zonekeeper_unreadable_records",
            len(view.unreadable),
            "Records in the store that this process cannot read.",
        ),
        Family(
            "zonekeeper_repair_held",
            held,
            "1 for each zone whose losses are not repaired now, and by what they are held.",
        ),
        *(_of_records(name, *told, records) for name, told in _NUMBERS.items()),
        *(_states_of(name, *told, records) for name, told in _STATES.items()),
    ]


#: What is shown of each zone's record. The cluster's record is shown with an empty zone name.
_NUMBERS: Final[Mapping[str, tuple[Callable[[Record], float], str]]] = {
    "available_bookies": (
        lambda record: record.evidence.available,
        "Bookies of the zone that are available.",
    ),
    "counted_bookies": (
        lambda record: record.evidence.total,
        "Bookies of the zone that its marks count.",
    ),
    "evaluations_total": (
        lambda record: record.evaluation,
        "Evaluations of the zone by the zone watch; if it stands still, nobody watches.",
    ),
    "held_seconds": (
        lambda record: 0 if record.gate.permits else record.gate.held_ms / 1000,
        "How long the repair of the zone's losses has been held; 0 if it is not.",
    ),
}
_STATES: Final[Mapping[str, tuple[Callable[[Record], str], str]]] = {
    "state": (lambda record: record.observed.state, "1 for the state that the zone is in."),
    "permission": (
        lambda record: record.gate.permission,
        "1 for what the gate says to the repair of the zone's losses.",
    ),
}


def _of_records(
    name: str, take: Callable[[Record], float], help_text: str, records: Mapping[str, Record]
) -> Family:
    values = {zone: take(record) for zone, record in records.items()}
    return labelled(f"zonekeeper_zone_{name}", "zone", values, help_text)


def _states_of(
    name: str, take: Callable[[Record], str], help_text: str, records: Mapping[str, Record]
) -> Family:
    samples: dict[Labels, float] = {
        ((name, take(record)), ("zone", zone)): 1 for zone, record in records.items()
    }
    return Family(f"zonekeeper_zone_{name}", samples, help_text)


def _records(view: View) -> dict[str, Record]:
    found: dict[str, Record] = dict(sorted(view.zones.items()))
    if view.cluster_record is not None:
        found[""] = view.cluster_record
    return found


def _held(view: View) -> dict[ZoneName, Held]:
    zones = sorted({*view.policy.placement.zones, *view.zones, *view.topology.zones})
    asked = ((zone, view.what_holds_zone(zone)) for zone in zones)
    return {zone: held for zone, held in asked if held is not None}


def _plain(record: Record) -> dict[str, object]:
    return {
        "observation": record.observed.state,
        "because": record.observed.reason,
        "permission": record.gate.permission,
        "reason": record.gate.reason,
        "setBy": record.gate.set_by,
        "token": record.gate.token,
        "heldMs": record.gate.held_ms,
        "evaluation": record.evaluation,
        "available": record.evidence.available,
        "counted": record.evidence.total,
        "alerts": list(record.alerts),
    }
