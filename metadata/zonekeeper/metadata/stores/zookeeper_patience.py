"""How long a client waits for one server of an ensemble, so that it can try all of them.

kazoo tries the servers one after the other. It gives one that takes a connection, or a greeting,
and never answers, the whole time of a session. So one such server could use up the time in which
the others would have answered.
"""

import socket
from collections.abc import Callable
from typing import Final

from zonekeeper.metadata.stores.timeouts import Timeouts

#: Within the session's time at least this many greetings of servers can be tried.
_GREETINGS_MIN: Final = 3


def patience_s(timeouts: Timeouts, servers: int) -> float:
    """Give how long one server is waited for: within either limit all of them can be tried."""
    within_session_ms = timeouts.session_ms / _GREETINGS_MIN
    return min(within_session_ms, timeouts.first_ms / servers) / 1000


def limited(connect: Callable[..., socket.socket], most_s: float) -> Callable[..., socket.socket]:
    """Limit the time that kazoo gives a connection."""

    def connect_soon(*where: object, timeout: float, **options: object) -> socket.socket:
        return connect(*where, timeout=min(timeout, most_s), **options)

    return connect_soon
