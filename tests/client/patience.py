"""What clients of tests have for machines under load: who answers at all is waited for."""

from typing import Final

from zonekeeper.client.config import ClientConfig
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.wire.links import LinkSettings

PATIENT: Final = ClientConfig(
    links=LinkSettings(
        connect_timeout_ms=60_000,
        append_timeout_ms=60_000,
        read_timeout_ms=60_000,
        call_timeout_ms=60_000,
    ),
    store=Timeouts(session_ms=60_000, request_ms=60_000),
    start_timeout_ms=60_000,
)
