"""What people are told by a process: lines of its log, and events of the cluster's timeline.

The records say which alerts stand. So every process can show them, and none has to remember them.
Lines and events are for *changes*. An alert that is raised, cleared or reminded of is a line in the
log of the process that is the zone watch at that moment. A raised alert is logged at the level of
its severity. A transition or a reminder is an event of the timeline as well. An event that cannot
be written becomes a line of the log; nothing waits for it.
"""

import logging
from collections.abc import Callable
from typing import Final

from zonekeeper.metadata.cluster import timeline
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.timeline import Event
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones.zone_effects import (
    AlertCleared,
    AlertRaised,
    Noted,
    Reminder,
    Severity,
)

#: An event whose reason has this size is under the timeline's limit, whatever its characters are.
REASON_BYTES_MAX: Final = 2_000

_LEVELS: Final = {
    Severity.PAGE: logging.ERROR,
    Severity.WARNING: logging.WARNING,
    Severity.INFO: logging.INFO,
}

_logger = logging.getLogger(__name__)


class Chronicle:
    """Writes events into the timeline: what a person or a process did, or saw."""

    def __init__(
        self, cluster: Cluster, *, by: str, chance: Chance, wall_ms: Callable[[], int]
    ) -> None:
        self._cluster = cluster
        self._by = by
        self._chance = chance
        self._wall_ms = wall_ms
        #: How many events may be missing from the timeline.
        self.lost = 0

    async def write(self, kind: str, subject: str, reason: str) -> bool:
        """Add an event; False: it may be missing, and the log says so."""
        event = Event(
            at_ms=self._wall_ms(),
            kind=kind,
            subject=subject,
            by=self._by,
            reason=shortened(reason),
            token=drawn_token(self._chance),
        )
        try:
            await timeline.append(self._cluster, event)
        except StoreError as error:
            self.lost += 1
            _logger.warning("the timeline may lack %r of %s: %s", kind, subject, error)
            return False
        return True


async def tell(chronicle: Chronicle, effect: AlertRaised | AlertCleared | Reminder | Noted) -> None:
    """Log one effect. A transition or a reminder goes into the timeline as well."""
    about = subject(effect.zone)
    where = {} if effect.zone is None else {"zone": effect.zone}
    match effect:
        case AlertRaised():
            level = _LEVELS[effect.alert.severity]
            facts = {"alert": str(effect.alert), "severity": str(effect.alert.severity)}
            _logger.log(
                level,
                "%s: %s: %s",
                about,
                effect.alert,
                effect.text,
                extra={**where, **facts},
            )
        case AlertCleared():
            alert = {"alert": str(effect.alert)}
            _logger.info(
                "%s: %s is over: %s", about, effect.alert, effect.text, extra={**where, **alert}
            )
        case Reminder():
            _logger.warning("%s: %s", about, effect.text, extra=where)
            await chronicle.write("reminded", about, effect.text)
        case Noted():
            _logger.info("%s: %s", about, effect.text, extra=where)
            await chronicle.write("changed", about, effect.text)


def subject(zone: ZoneName | None) -> str:
    """Name the zone that an effect is about, or the cluster."""
    return "cluster" if zone is None else f"zone {zone}"


def drawn_token(chance: Chance) -> str:
    """Draw a name of 128 random bits: no other draw gives the same."""
    return "".join(f"{int(chance.random() * (1 << 32)):08x}" for _ in range(4))


def shortened(text: str) -> str:
    """Cut a text to at most ``REASON_BYTES_MAX`` bytes."""
    raw = text.encode()
    if len(raw) <= REASON_BYTES_MAX:
        return text
    return raw[: REASON_BYTES_MAX - 3].decode(errors="ignore") + "…"
