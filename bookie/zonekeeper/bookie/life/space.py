"""The room on a bookie's devices: a device that is full makes the bookie read-only.

A device is *warned* about at the warn mark, and is *full* at the full mark. A full device stays
full until its used share is at or under the low mark. So a bookie near the full mark does not
switch to and fro. While a device is full, or a ledger directory has failed, the bookie takes no
plain appends. A device that cannot say how full it is keeps its last level.

``judge`` decides; ``DeviceWatch`` looks from time to time and reports changes.
"""

import asyncio
import enum
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from zonekeeper.bookie.disk.disks import Disk
from zonekeeper.bookie.disk.files import FileSystem, Space

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Used shares of a device: ``0 < low <= full <= 1`` and ``0 < warn <= full``."""

    warn: float = 0.90
    full: float = 0.95
    #: At or under this share, a full device is no longer full.
    low: float = 0.90

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.full <= 1 or not 0 < self.warn <= self.full:
            raise ValueError(
                f"disk marks: warn {self.warn} and low {self.low} must be above 0 and at most "
                f"full {self.full}, and that at most 1"
            )


class DeviceLevel(enum.Enum):
    """The level of a device."""

    GOOD = "good"
    WARNED = "warned"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceVerdict:
    """The judgement of all devices."""

    levels: Mapping[str, DeviceLevel] = field(default_factory=dict)
    #: Used shares.
    used: Mapping[str, float] = field(default_factory=dict)
    #: Why the bookie takes no plain appends; empty: it takes them.
    refusing: tuple[str, ...] = ()


def judge(
    before: DeviceVerdict, spaces: Mapping[str, Space | None], troubles: Sequence[str], marks: Marks
) -> DeviceVerdict:
    """Judge the devices by their spaces (None: not known) and by other troubles."""
    levels: dict[str, DeviceLevel] = {}
    used: dict[str, float] = {}
    for name, space in spaces.items():
        was = before.levels.get(name, DeviceLevel.GOOD)
        if space is None or space.total_bytes <= 0:
            levels[name], used[name] = was, before.used.get(name, 0.0)
            continue
        share = used[name] = 1 - space.free_bytes / space.total_bytes
        stays_full = was is DeviceLevel.FULL and share > marks.low
        if share >= marks.full or stays_full:
            levels[name] = DeviceLevel.FULL
        else:
            levels[name] = DeviceLevel.WARNED if share >= marks.warn else DeviceLevel.GOOD
    full = tuple(
        f"{name} is full: {used[name]:.1%} used; make room until {marks.low:.1%} are"
        for name, level in levels.items()
        if level is DeviceLevel.FULL
    )
    return DeviceVerdict(levels=levels, used=used, refusing=(*full, *troubles))


class DeviceWatch:
    """Looks at the devices from time to time, and reports changes."""

    def __init__(
        self,
        devices: Mapping[str, FileSystem],
        disk: Disk,
        marks: Marks,
        *,
        troubles: Callable[[], Sequence[str]],
        on_change: Callable[[tuple[str, ...]], None],
    ) -> None:
        """``on_change`` is called with ``refusing`` whenever its reasons change."""
        self.verdict = DeviceVerdict()
        #: Set when the devices were looked at for the first time.
        self.begun = asyncio.Event()
        self._devices = devices
        self._disk = disk
        self._marks = marks
        self._troubles = troubles
        self._on_change = on_change

    async def run(self, every_ms: int) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(every_ms / 1_000)

    async def look(self) -> None:
        """Look once."""
        spaces = {name: await self._space(files) for name, files in self._devices.items()}
        before, self.verdict = (
            self.verdict,
            judge(self.verdict, spaces, self._troubles(), self._marks),
        )
        for name, level in self.verdict.levels.items():
            if level is not before.levels.get(name, DeviceLevel.GOOD):
                used = self.verdict.used[name]
                _logger.log(
                    logging.INFO if level is DeviceLevel.GOOD else logging.WARNING,
                    "%s: %s, %.1f%% used",
                    name,
                    level.value,
                    100 * used,
                    extra={"device": name, "used_share": round(used, 4)},
                )
        if _kinds(before) != _kinds(self.verdict):
            self._on_change(self.verdict.refusing)
        self.begun.set()

    async def _space(self, files: FileSystem) -> Space | None:
        try:
            return await self._disk.run(files.space)
        except OSError:
            return None


def _kinds(verdict: DeviceVerdict) -> tuple[object, ...]:
    """Give the part of a verdict that counts as a change; the exact used share does not."""
    full = [name for name, level in verdict.levels.items() if level is DeviceLevel.FULL]
    others = len(verdict.refusing) - len(full)
    return (tuple(full), verdict.refusing[len(full) :] if others else ())
