"""What a fork does to a client: the child cannot use it, and is told so.

gRPC aborts a process that uses it on both sides of a fork, and its threads live on for an unknown
time after the last client of a process. So a child of a process that ever reached bookies over gRPC
is refused every new client. An object that was made before the fork is refused to the child in any
case: its event loop, its connections and its session belong to the parent.

A child that was forked before its parent connected is not refused.
"""

import os

from zonekeeper.client.base.errors import ForkedAfterUse


class _Process:
    """This process, as a client sees it."""

    def __init__(self) -> None:
        #: Raised by each fork, in the child.
        self.life = 0
        #: Has this process used gRPC?
        self.connected = False
        #: Was this process, or one that it was forked from, forked after it had used gRPC?
        self.refuses = False

    def forked(self) -> None:
        """Set up the forked child."""
        self.life += 1
        self.refuses = self.refuses or self.connected


_PROCESS = _Process()
os.register_at_fork(after_in_child=_PROCESS.forked)


class Home:
    """The process that an object was made in."""

    __slots__ = ("_life",)

    def __init__(self) -> None:
        self._life = _PROCESS.life

    @property
    def forked(self) -> bool:
        """Is this a copy of the object, in a process that was forked?"""
        return self._life != _PROCESS.life

    def check(self) -> None:
        """Raise ``ForkedAfterUse`` in a process that was forked since."""
        if self._life != _PROCESS.life:
            raise ForkedAfterUse


def check_connecting() -> None:
    """Raise ``ForkedAfterUse`` if this process must not use gRPC."""
    if _PROCESS.refuses:
        raise ForkedAfterUse


def connecting() -> None:
    """Note that this process uses gRPC from now on; raises ``ForkedAfterUse``."""
    check_connecting()
    _PROCESS.connected = True
