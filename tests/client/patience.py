"""Settings of clients in tests, for machines under load: they wait for every slow answer."""

from typing import Final

from tests.wire.link import worlds
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.stores.timeouts import Timeouts

PATIENT: Final = ClientConfig(
    links=worlds.PATIENT,
    store=Timeouts(session_ms=60_000, request_ms=60_000),
    start_timeout_ms=60_000,
)
