"""Tells that this process stands by: in its log, and for another installation by an event.

One replica of an installation acts and the others stand by, and nobody need hear of it. Two
installations that serve the same namespaces are a mistake: the second one does nothing, and its
owner would look for the reason.
"""

import logging
import uuid
from collections.abc import Callable
from datetime import datetime

from zonekeeper.operator.kubernetes.api import (
    EVENTS,
    FIELD_MANAGER,
    LEASES,
    Json,
    Kubernetes,
    KubernetesError,
)
from zonekeeper.operator.lead import leading
from zonekeeper.operator.lead.lease_objects import LeasePlace
from zonekeeper.operator.run import operator_pages

REASON = "StandsBy"

_logger = logging.getLogger(__name__)


async def tell(
    kubernetes: Kubernetes, place: LeasePlace, holder: str, me: str, wall: Callable[[], datetime]
) -> None:
    """Tell it once; an event that cannot be stored is left out."""
    words = operator_pages.standing_by(place, holder, me)
    if not leading.is_of_another(holder, me):
        _logger.info("stands by: %s", words)
        return
    _logger.warning("stands by: %s", words)
    try:
        await kubernetes.create(EVENTS, _event(place, f"{me} stands by: {words}", wall()))
    except KubernetesError as error:
        _logger.warning("an event was not stored: %s", error)


def _event(place: LeasePlace, message: str, now: datetime) -> Json:
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.name,
        "metadata": {
            "name": f"{place.name}.{uuid.uuid4().hex[:16]}",
            "namespace": place.namespace,
        },
        "involvedObject": {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.name,
            "name": place.name,
            "namespace": place.namespace,
        },
        "type": "Warning",
        "reason": REASON,
        "message": message,
        "source": {"component": FIELD_MANAGER},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
