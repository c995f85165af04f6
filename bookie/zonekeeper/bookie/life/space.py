"""Room on the bookie's devices: from what is free to whether entries may come.

A device *warns* when so much of it is used, and is *full* at more. A bookie with a full device, or
with a ledger directory that failed, takes no more entries, and takes them again only when no device
is above the low mark any more: between full and low nothing changes, so that a bookie at the brink
does not come and go. A device that cannot say how full it is counts as it did before.

``judge`` decides; ``DeviceWatch`` looks from time to time and tells whom it concerns.
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
    """Used shares of a device."""

    warn: float = 0.90
    full: float = 0.95
    #: At or under it a full device takes entries again.
    low: float = 0.90

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.full <= 1 or not 0 < self.warn <= self.full:
            raise ValueError(
                f"disk marks: warn {self.warn} and low {self.low} must be above 0 and at most "
                f"full {self.full}, and that at most 1"
            )


class DeviceLevel(enum.Enum):
    """What a device allows."""

    GOOD = "good"
    WARNED = "warned"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceVerdict:
    """What is to be done about the devices."""

    levels: Mapping[str, DeviceLevel] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)
    #: Why no entries are taken; none: they are.
    refusing: tuple[str, ...] = ()


def judge(
    before: DeviceVerdict, spaces: Mapping[str, Space | None], troubles: Sequence[str], marks: Marks
) -> DeviceVerdict:
    """Judge devices, by name (None: it cannot say), and what else is wrong."""
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
    """Looks at some devices."""

    def __init__(
        self,
        devices: Mapping[str, FileSystem],
        disk: Disk,
        marks: Marks,
        *,
        troubles: Callable[[], Sequence[str]],
        on_change: Callable[[tuple[str, ...]], None],
    ) -> None:
        """``on_change`` hears why no entries are to be taken, or nothing, whenever that changes."""
        self.verdict = DeviceVerdict()
        self._devices = devices
        self._disk = disk
        self._marks = marks
        self._troubles = troubles
        self._on_change = on_change

    async def run(self, every_ms: int) -> None:
        """Look for ever."""
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
                _logger.warning(
                    "%s: %s, %.1f%% used", name, level.value, 100 * self.verdict.used[name]
                )
        if _kinds(before) != _kinds(self.verdict):
            self._on_change(self.verdict.refusing)

    async def _space(self, files: FileSystem) -> Space | None:
        try:
            return await self._disk.run(files.space)
        except OSError:
            return None


def _kinds(verdict: DeviceVerdict) -> tuple[object, ...]:
    """Give what of a verdict is news; how full exactly a device is, is not."""
    full = [name for name, level in verdict.levels.items() if level is DeviceLevel.FULL]
    others = len(verdict.refusing) - len(full)
    return (tuple(full), verdict.refusing[len(full) :] if others else ())
