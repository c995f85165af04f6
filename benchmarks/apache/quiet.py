"""When a side is quiet: what a lap leaves behind is done, and only idling is left. Pure.

A side flushes and rewrites behind a lap: Apache's bookies sync their ledgers every ten seconds.
So it counts as quiet once it has had time for that, and a stretch at the end cost next to nothing.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

#: The stretch that must be quiet, and what all processes of a side may take in it together. Each
#: side takes 0.005 to 0.01 CPUs when it idles; what is hidden below the bound is a tenth of a
#: second.
STRETCH_S: Final = 2.0
IDLE_CPUS_MAX: Final = 0.05


class Look(NamedTuple):
    """A look at a side's processes."""

    at_s: float
    cpu_s: float


class LeftBehind(NamedTuple):
    """What a side did behind a lap."""

    cpu_s: float
    seconds: float
    quiet: bool


def idle_cpus(looks: Sequence[Look]) -> float | None:
    """Give how many CPUs the last stretch took; None: there is no whole stretch yet."""
    last = looks[-1]
    begins = [look for look in looks if last.at_s - look.at_s >= STRETCH_S]
    if not begins:
        return None
    return (last.cpu_s - begins[-1].cpu_s) / (last.at_s - begins[-1].at_s)


def is_over(looks: Sequence[Look], *, settle_s: float, most_s: float) -> bool:
    """Say whether the side is quiet, or has had all the time that it gets."""
    passed_s = looks[-1].at_s - looks[0].at_s
    idle = idle_cpus(looks)
    quiet = idle is not None and idle <= IDLE_CPUS_MAX and passed_s >= settle_s
    return quiet or passed_s >= most_s


def left_behind(looks: Sequence[Look]) -> LeftBehind:
    """Give the work behind a lap; what idling takes all the time is taken off."""
    seconds, spent = looks[-1].at_s - looks[0].at_s, looks[-1].cpu_s - looks[0].cpu_s
    idle = idle_cpus(looks)
    if idle is None or idle > IDLE_CPUS_MAX:
        return LeftBehind(spent, seconds, quiet=False)
    return LeftBehind(max(0.0, spent - idle * seconds), seconds, quiet=True)
