"""Events: one cause is one event, which is counted up when the cause is told again.

The name of an event follows from the resource and the cause. So the next operator finds the event
that an earlier one made, and a cause that comes and goes for an hour makes no flood. Kubernetes
forgets an event some time after its last count; a cause that is told later makes a new one.
"""

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Final

from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    EVENTS,
    FIELD_MANAGER,
    Json,
    Kubernetes,
)
from zonekeeper.operator.plan.conditions import Notice

MESSAGE_MAX: Final = 1_000


class EventTeller:
    """Tells of resources by events; ``wall`` gives the time for people."""

    def __init__(self, kubernetes: Kubernetes, wall: Callable[[], datetime]) -> None:
        self._kubernetes = kubernetes
        self._wall = wall

    async def tell(self, notice: Notice, resource: Json) -> None:
        """Make the event of a cause, or count it up; raises ``KubernetesError``."""
        body = _event(notice, resource, text_of(self._wall()))
        meta = body["metadata"]
        found = await self._kubernetes.get(EVENTS, meta["namespace"], meta["name"])
        if found is None:
            await self._kubernetes.create(EVENTS, body)
            return
        first = found.get("firstTimestamp") or body["firstTimestamp"]
        count = int(found.get("count") or 1) + 1
        await self._kubernetes.apply(EVENTS, {**body, "firstTimestamp": first, "count": count})


def text_of(moment: datetime) -> str:
    """Give a time as the API writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _event(notice: Notice, resource: Json, now: str) -> Json:
    meta = resource["metadata"]
    cause = "\n".join((meta["uid"], notice.about, notice.reason))
    about = {name: meta[name] for name in ("name", "namespace", "uid")}
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.name,
        "metadata": {
            "name": f"{meta['name']}.{hashlib.sha256(cause.encode()).hexdigest()[:16]}",
            "namespace": meta["namespace"],
        },
        "involvedObject": {
            "apiVersion": BOOKIE_CLUSTERS.api_version,
            "kind": BOOKIE_CLUSTERS.name,
            **about,
        },
        "type": "Warning" if notice.warning else "Normal",
        "reason": notice.reason,
        "message": notice.message[:MESSAGE_MAX],
        "source": {"component": FIELD_MANAGER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
