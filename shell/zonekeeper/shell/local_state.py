"""The file in which a local cluster's folder says what was started there.

It is replaced in one step, so that a command which is killed leaves the old or the new one. A
bookie has a mark from its start until somebody stops it on purpose: a mark without its process is a
bookie that ended by itself.
"""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from zonekeeper.placement.ids import BookieId
from zonekeeper.shell.local_processes import Mark
from zonekeeper.shell.local_shape import Shape

NAME: Final = "local.json"
_FORMAT: Final = 1
_BYTES_MAX: Final = 1 << 20


class UnreadableStateError(Exception):
    """The file is there and cannot be read, so nobody knows what runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What was started, and of what."""

    shape: Shape
    marks: Mapping[BookieId, Mark] = field(default_factory=dict)

    def started(self, bookie: BookieId, mark: Mark) -> "State":
        """Note a process."""
        return replace(self, marks={**self.marks, bookie: mark})

    def stopped(self, bookies: Collection[BookieId]) -> "State":
        """Forget processes."""
        kept = {name: mark for name, mark in self.marks.items() if name not in bookies}
        return replace(self, marks=kept)


def read(folder: Path) -> State | None:
    """Read the state of a folder; None: there is no local cluster."""
    path = folder / NAME
    try:
        with path.open("rb") as file:
            return _parse(json.loads(file.read(_BYTES_MAX)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableStateError(
            f"{path} is damaged ({type(error).__name__}: {error}), so it is not known what runs "
            "here: end the bookies of this folder by hand, then remove the folder"
        ) from error


def write(folder: Path, state: State) -> None:
    """Replace the state of a folder."""
    part = folder / f"{NAME}.part"
    with part.open("w", encoding="utf-8") as file:
        json.dump(_plain(state), file, indent=2, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / NAME)


def _plain(state: State) -> dict[str, object]:
    return {
        "format": _FORMAT,
        "zones": state.shape.zones,
        "bookiesPerZone": state.shape.bookies_per_zone,
        "upgradeDomains": state.shape.upgrade_domains,
        "processes": {
            name: {"pid": mark.pid, "startedTicks": mark.started_ticks, "boot": mark.boot}
            for name, mark in state.marks.items()
        },
    }


def _parse(data: dict[str, object]) -> State:
    if data["format"] != _FORMAT:
        raise ValueError(f"it has format {data['format']!r}, and this program knows {_FORMAT}")
    marks = data["processes"]
    if not isinstance(marks, dict):
        raise TypeError("processes is no mapping")
    return State(
        shape=Shape(
            zones=_count(data["zones"]),
            bookies_per_zone=_count(data["bookiesPerZone"]),
            upgrade_domains=_count(data["upgradeDomains"]),
        ),
        marks={
            BookieId(name): Mark(
                pid=_count(mark["pid"]),
                started_ticks=_count(mark["startedTicks"]),
                boot=str(mark["boot"]),
            )
            for name, mark in marks.items()
        },
    )


def _count(value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{value!r} is no count")
    return value
