"""What a bookie shows on its HTTP port: ``/healthz``, ``/readyz``, ``/metrics``, ``/state``.

All of it is made when it is asked for, from numbers that are there anyway; nothing is remembered
for it, and nothing waits for a disk. ``docs/bookie.md`` lists the names.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus

from zonekeeper.bookie import collecting, exposition
from zonekeeper.bookie.exposition import Family, Sample, counter, gauge
from zonekeeper.bookie.life import Begun
from zonekeeper.bookie.looking import Conditions, Page, readiness
from zonekeeper.bookie.measuring import Measures
from zonekeeper.bookie.segments import rewrite
from zonekeeper.bookie.service import Bookie


@dataclass(slots=True)
class View:
    """What there is to look at; more of it while the bookie comes up."""

    name: str
    version: str
    conditions: Conditions
    measures: Measures
    begun: Begun | None = None
    bookie: Bookie | None = None
    collected: collecting.Counters | None = None

    def pages(self) -> Mapping[str, Callable[[], Page]]:
        """Give all pages, by their paths."""
        return {
            "/healthz": lambda: Page(HTTPStatus.OK, "alive\n"),
            "/readyz": self.ready,
            "/metrics": self.metrics,
            "/state": self.state,
        }

    def ready(self) -> Page:
        """Say whether it can do its work, and if not, why."""
        return readiness(self._missing())

    def _missing(self) -> dict[str, str]:
        missing = self.conditions.unmet
        if self.begun is not None and (behind := self.begun.storage.backlog.trouble) is not None:
            missing["rewrite"] = behind
        if self.bookie is not None and self.bookie.conditions:
            missing["disk"] = "; ".join(self.bookie.conditions)
        return missing

    def metrics(self) -> Page:
        """Give the numbers, for Prometheus."""
        families = [
            gauge(
                "zonekeeper_bookie_info",
                "What runs here; always 1.",
                1,
                {"bookie": self.name, "version": self.version},
            ),
            gauge(
                "zonekeeper_bookie_ready",
                "1 if /readyz says so, else 0.",
                not self._missing(),
            ),
            counter(
                "process_cpu_seconds_total",
                "CPU time of the process, its threads included.",
                time.process_time(),
            ),
            *self.measures.families(),
        ]
        if self.begun is not None and self.bookie is not None:
            families += _of_storage(self.begun, self.bookie)
            families += _counted("storage", self.begun.storage.counters)
        if self.collected is not None:
            families += _counted("gc", self.collected)
        return Page(HTTPStatus.OK, exposition.render(families), exposition.CONTENT_TYPE)

    def state(self) -> Page:
        """Give what a person wants to know first, as JSON."""
        found: dict[str, object] = {
            "bookie": self.name,
            "version": self.version,
            "notReady": self._missing(),
        }
        if self.begun is not None and self.bookie is not None:
            memory, log = self.begun.storage.memory, self.begun.storage.log
            found |= {
                "location": str(self.begun.cookie.location),
                "bootEpoch": self.begun.boot_epoch,
                "state": self.bookie.state.value,
                "readOnlyReasons": self.bookie.read_only_reasons,
                "ledgers": len(memory.ledgers),
                "ledgersInLimbo": _in_limbo(self.begun),
                "totalBytes": log.space.total_bytes,
                "freeBytes": log.space.free_bytes,
            }
        text = json.dumps(found, indent=2, sort_keys=True) + "\n"
        return Page(HTTPStatus.OK, text, "application/json")


def _of_storage(begun: Begun, bookie: Bookie) -> list[Family]:
    storage = begun.storage
    backlog, space = storage.backlog, storage.log.space
    return [
        gauge("zonekeeper_bookie_boot_epoch", "Which start this is.", begun.boot_epoch),
        Family(
            name="zonekeeper_bookie_read_only",
            help="1 for each reason why appends are refused; none if they are taken.",
            kind="gauge",
            samples=[
                Sample(value=1, labels={"reason": reason}) for reason in bookie.read_only_reasons
            ],
        ),
        gauge("zonekeeper_bookie_ledgers", "Ledgers known here.", len(storage.memory.ledgers)),
        gauge(
            "zonekeeper_bookie_ledgers_in_limbo",
            "Ledgers of which this bookie may have lost data.",
            _in_limbo(begun),
        ),
        gauge(
            "zonekeeper_bookie_waiting_bytes",
            "Appends that wait for the disk.",
            storage.log.waiting_bytes,
        ),
        gauge(
            "zonekeeper_bookie_rewrite_sealed_segments",
            "Arrival segments that wait for the rewrite.",
            backlog.sealed,
        ),
        gauge(
            "zonekeeper_bookie_rewrite_segments_in_reach",
            "Arrival segments that can be begun before appends wait for the rewrite.",
            backlog.in_reach,
        ),
        gauge("zonekeeper_bookie_disk_total_bytes", "Size of the device.", space.total_bytes),
        gauge("zonekeeper_bookie_disk_free_bytes", "Room on the device.", space.free_bytes),
    ]


def _counted(part: str, counters: rewrite.Counters | collecting.Counters) -> list[Family]:
    """Give the plain counters of a part, by their names."""
    return [
        counter(
            f"zonekeeper_bookie_{part}_{name}_total",
            f"Since the start: {name.replace('_', ' ')}.",
            count,
        )
        for name, count in asdict(counters).items()
    ]


def _in_limbo(begun: Begun) -> int:
    return sum(ledger.durable.in_limbo for ledger in begun.storage.memory.ledgers.values())
