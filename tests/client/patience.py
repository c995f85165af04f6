"""What clients of tests have for machines under load: who answers at all is waited for."""

from typing import Final

from tests.wire.link import worlds
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.stores.timeouts import Timeouts

PATIENT: Final = ClientConfig(
    links=worlds.PATIENT,
    store=Timeouts(session_ms=60_000, request_ms=60_000),
    start_timeout_ms=60_000,
)
