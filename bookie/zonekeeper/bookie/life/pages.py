"""The pages of a bookie's HTTP port, and the gauges on its ``/metrics``.

The pages are ``/healthz``, ``/readyz``, ``/metrics`` and ``/state``.

A page is made when it is asked for, from numbers that the bookie has anyway. Nothing is stored for
a page, and no page waits for a disk. ``docs/bookie.md`` lists the metrics.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from zonekeeper.bookie.life.life import Begun, Conditions
from zonekeeper.bookie.life.own_record import OwnRecord
from zonekeeper.bookie.serving.collecting import Collector
from zonekeeper.bookie.serving.measuring import Measures
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats import exposition
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.formats.exposition import Family, labelled, single
from zonekeeper.wire.host.access import Access
from zonekeeper.wire.running import looking, page_identity, process_figures, seam
from zonekeeper.wire.running.looking import Page, Pages
from zonekeeper.wire.running.page_identity import ProcessIdentity, ProcessKind
from zonekeeper.wire.socket.accepting import SocketFigures
from zonekeeper.wire.socket.connection import EndCause
from zonekeeper.wire.socket.page_rights import PageRights


@dataclass(slots=True)
class PagesView:
    """The parts of a bookie that pages show; None: the start has not come so far yet."""

    name: str
    version: str
    conditions: Conditions
    measures: Measures
    begun: Begun | None = None
    bookie: BookieServer | None = None
    collector: Collector | None = None
    own_record: OwnRecord | None = None
    store: MetadataStore | None = None
    access: Access | None = None
    #: None as well: there is no socket lane.
    socket: SocketFigures | None = None
    #: None as well: the pages are plain.
    rights: PageRights | None = None

    def served(self, address: Address) -> AbstractAsyncContextManager[int]:
        """Serve the pages while the block lasts, and give the port. Raises ``OSError``."""
        by_certificate = None if self.rights is None else self.rights.by_certificate()
        return looking.served(self.pages(), address, by_certificate)

    def pages(self) -> Pages:
        """Give all pages, by their paths."""
        return {
            seam.ALIVE_PATH: lambda: Page("alive\n"),
            seam.READY_PATH: self.ready,
            seam.METRICS_PATH: self.metrics,
            seam.STATE_PATH: self.state,
        }

    def ready(self) -> Page:
        """Say whether the bookie can do its work, and if not, why."""
        return looking.readiness(self.missing(), self.conditions.remarks)

    def missing(self) -> dict[str, str]:
        """Give the conditions of readiness that are not met, by name, and why."""
        missing = self.conditions.unmet
        if self.begun is not None and (behind := self.begun.storage.backlog.trouble) is not None:
            missing["rewrite"] = behind
        if self.bookie is not None and self.bookie.modes.conditions:
            missing["disk"] = "; ".join(self.bookie.modes.conditions)
        return missing

    def metrics(self) -> Page:
        """Give the metrics, for Prometheus."""
        families = [
            Family(
                "zonekeeper_bookie_info",
                {
                    (
                        ("bookie", self.name),
                        ("version", self.version),
                        ("zone", self._identity().zone or ""),
                    ): 1
                },
                "The bookie, its version and its zone, as labels; always 1.",
            ),
            single("zonekeeper_bookie_ready", not self.missing(), "1 if /readyz says so, else 0."),
            *process_figures.families(),
            looking.store_connected(
                connected=self.store is not None and self.store.session.connected
            ),
            *self.measures.families(),
        ]
        if self.begun is not None and self.bookie is not None:
            families += _of_storage(self.begun, self.bookie)
            families += self.bookie.keys.families()
            families += exposition.counted(
                "zonekeeper_bookie_storage", self.begun.storage.counters, of_now=False
            )
        if self.access is not None:
            families += self.access.figures.families(self.access.enforcement, self.access.owners)
        if self.socket is not None:
            families += _of_socket(self.socket)
        if self.rights is not None:
            families += self.rights.families()
        if self.collector is not None:
            collector = self.collector
            families += exposition.counted("zonekeeper_bookie_gc", collector.counters, of_now=False)
            families += exposition.counted("zonekeeper_bookie_gc", collector.state, of_now=True)
        return Page(exposition.render(families), content_type=exposition.CONTENT_TYPE)

    def state(self) -> Page:
        """Give the facts that a person needs first, as JSON."""
        found: dict[str, object] = {
            **self._identity().plain(),
            "bookie": self.name,
            page_identity.VERSION: self.version,
            "notReady": self.missing(),
            "remarks": self.conditions.remarks,
        }
        if self.begun is not None and self.bookie is not None:
            memory, log = self.begun.storage.memory, self.begun.storage.log
            found |= {
                "location": str(self.begun.cookie.location),
                "bootEpoch": self.begun.boot_epoch,
                "state": self.bookie.state.value,
                "readOnlyReasons": self.bookie.read_only_reasons,
                "restrictions": self._restrictions(self.bookie),
                "ledgers": len(memory.ledgers),
                "ledgersInLimbo": _in_limbo(self.begun),
                "totalBytes": log.space.total_bytes,
                "freeBytes": log.space.free_bytes,
            }
        return looking.as_json(found)

    def _identity(self) -> ProcessIdentity:
        """Say which process this is; instance and location are known once the cookie is."""
        cookie = None if self.begun is None else self.begun.cookie
        where = None if cookie is None else cookie.location
        return ProcessIdentity(
            kind=ProcessKind.BOOKIE,
            name=BookieId(self.name),
            instance=None if cookie is None else cookie.instance,
            zone=None if where is None else where.zone,
            upgrade_domain=None if where is None else where.upgrade_domain,
        )

    def _restrictions(self, bookie: BookieServer) -> list[dict[str, Plain]]:
        """Give what keeps the bookie from new data: the reason, by whom, and since when."""
        if self.own_record is None:
            return []
        return [one.plain() for one in self.own_record.restrictions(bookie.modes.reasons)]


def _of_storage(begun: Begun, bookie: BookieServer) -> list[Family]:
    storage = begun.storage
    backlog, space = storage.backlog, storage.log.space
    return [
        single("zonekeeper_bookie_boot_epoch", begun.boot_epoch, "The number of this start."),
        labelled(
            "zonekeeper_bookie_read_only",
            "reason",
            dict.fromkeys(bookie.read_only_reasons, 1),
            "1 for each reason why appends are refused; no sample if they are taken.",
        ),
        single("zonekeeper_bookie_ledgers", len(storage.memory.ledgers), "Ledgers known here."),
        single(
            "zonekeeper_bookie_ledgers_in_limbo",
            _in_limbo(begun),
            "Ledgers in limbo: this bookie may have lost data of them.",
        ),
        single(
            "zonekeeper_bookie_hint_bytes",
            storage.memory.hint_bytes,
            "What writers told of the fragments of all ledgers, in bytes.",
        ),
        single(
            "zonekeeper_bookie_checkpoint_bytes",
            storage.checkpoint_room_bytes,
            "Room that is kept free for checkpoints, beside --reserve-bytes.",
        ),
        single(
            "zonekeeper_bookie_tombstones",
            len(storage.memory.tombstones),
            "Collected ledgers that are remembered, so that none is opened anew.",
        ),
        single(
            "zonekeeper_bookie_waiting_bytes",
            storage.log.waiting_bytes,
            "Bytes of appends that wait for the disk.",
        ),
        single(
            "zonekeeper_bookie_rewrite_sealed_segments",
            backlog.sealed,
            "Arrival segments that wait for the rewrite.",
        ),
        single(
            "zonekeeper_bookie_rewrite_segments_in_reach",
            backlog.in_reach,
            "Arrival segments that can be begun before appends wait for the rewrite.",
        ),
        single(
            "zonekeeper_bookie_rewrite_used_share",
            backlog.used_share,
            "Share of the arrival segments that is in use; above 0.5 appends are slowed.",
        ),
        single(
            "zonekeeper_bookie_rewrite_bytes_per_second",
            backlog.bytes_per_second,
            "Rate at which the rewrite frees arrival segments, by its last round.",
        ),
        single("zonekeeper_bookie_disk_total_bytes", space.total_bytes, "Size of the device."),
        single("zonekeeper_bookie_disk_free_bytes", space.free_bytes, "Room on the device."),
    ]


def _of_socket(figures: SocketFigures) -> list[Family]:
    return [
        single(
            "zonekeeper_bookie_socket_connections", figures.now, "Connections of the socket lane."
        ),
        single(
            "zonekeeper_bookie_socket_connections_unfinished",
            figures.unfinished,
            "Connections of the socket lane whose peers have not shaken hands.",
        ),
        labelled(
            "zonekeeper_bookie_socket_connections_ended_total",
            "cause",
            {cause.value: figures.ended[cause] for cause in EndCause},
            "Connections of the socket lane that have ended, by cause.",
        ),
    ]


def _in_limbo(begun: Begun) -> int:
    return sum(ledger.durable.in_limbo for ledger in begun.storage.memory.ledgers.values())
