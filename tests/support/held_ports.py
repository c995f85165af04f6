"""Ports that stay a test's own, whether a process listens there or not."""

import socket
from contextlib import ExitStack


def choose(count: int, host: str, held: ExitStack) -> list[int]:
    """Choose ports; no other process is given them as long as they are held.

    Who asks for an address to be used again, as ZooKeeper does, may listen where such a socket is
    bound and does not listen; the kernel gives it to nobody who asks for any port.
    """
    sockets = [held.enter_context(socket.socket()) for _ in range(count)]
    for each in sockets:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind((host, 0))
    return [each.getsockname()[1] for each in sockets]
