"""The state of a local cluster: a file in its folder that says which processes were started.

The file is replaced in one step, so that a command which is killed leaves the old or the new one. A
process has a mark from its start until a command stops it. So a mark without a process means that
the process ended by itself. Names are those of bookies and of autorecovery processes, and
``ZOOKEEPER``.
"""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.shell.local.local_processes import ProcessMark
from zonekeeper.shell.local.local_shape import Shape, Timers

NAME: Final = "local.json"
ZOOKEEPER: Final = BookieId("zookeeper")
_FORMAT: Final = 2
#: A cluster with certificates: a program that knows none must not start its bookies.
_FORMAT_TLS: Final = 3
_BYTES_MAX: Final = 1 << 20


class UnreadableStateError(Trouble):
    """The file exists and cannot be read, so it is not known what runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalState:
    """The shape of a cluster, and the processes that were started."""

    shape: Shape
    #: The port of the ZooKeeper server, which never changes; None: the cluster has no such server.
    zookeeper_port: int | None = None
    marks: Mapping[BookieId, ProcessMark] = field(default_factory=dict)
    #: The HTTP address of each autorecovery process: ``host:port``.
    http: Mapping[BookieId, str] = field(default_factory=dict)

    def started(self, name: BookieId, mark: ProcessMark) -> "LocalState":
        """Note the start of a process."""
        return replace(self, marks={**self.marks, name: mark})

    def looked_at(self, name: BookieId, where: str) -> "LocalState":
        """Note the HTTP address of a process."""
        return replace(self, http={**self.http, name: where})

    def stopped(self, names: Collection[BookieId]) -> "LocalState":
        """Forget processes that were stopped."""
        return replace(
            self,
            marks={name: mark for name, mark in self.marks.items() if name not in names},
            http={name: where for name, where in self.http.items() if name not in names},
        )


def read(folder: Path) -> LocalState | None:
    """Read the state in a folder; None: the folder has no local cluster."""
    path = folder / NAME
    try:
        with path.open("rb") as file:
            return _parse(json.loads(file.read(_BYTES_MAX)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableStateError(
            f"{path} is damaged ({type(error).__name__}: {error}), so it is not known what runs "
            "here: end the processes of this folder by hand, then remove the folder"
        ) from error


def write(folder: Path, state: LocalState) -> None:
    """Replace the state in a folder."""
    part = folder / f"{NAME}.part"
    with part.open("w", encoding="utf-8") as file:
        json.dump(_plain(state), file, indent=2, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / NAME)


def _plain(state: LocalState) -> dict[str, object]:
    return {
        "format": _FORMAT_TLS if state.shape.tls else _FORMAT,
        "zones": state.shape.zones,
        "bookiesPerZone": state.shape.bookies_per_zone,
        "upgradeDomains": state.shape.upgrade_domains,
        "autorecovery": state.shape.autorecovery,
        "timers": state.shape.timers,
        "zooKeeperPort": state.zookeeper_port,
        "processes": {
            name: {
                "pid": mark.pid,
                "startedTicks": mark.started_ticks,
                "boot": mark.boot,
                "http": state.http.get(name),
            }
            for name, mark in state.marks.items()
        },
    }


def _parse(data: dict[str, object]) -> LocalState:
    if data["format"] not in (_FORMAT, _FORMAT_TLS):
        raise ValueError(
            f"it has format {data['format']!r}, and this program knows {_FORMAT} and {_FORMAT_TLS}"
        )
    marks, port = data["processes"], data["zooKeeperPort"]
    if not isinstance(marks, dict):
        raise TypeError("processes is no mapping")
    return LocalState(
        shape=Shape(
            zones=_count(data["zones"]),
            bookies_per_zone=_count(data["bookiesPerZone"]),
            upgrade_domains=_count(data["upgradeDomains"]),
            autorecovery=_count(data["autorecovery"], least=0),
            timers=Timers(str(data["timers"])),
            zookeeper=port is not None,
            tls=data["format"] == _FORMAT_TLS,
        ),
        zookeeper_port=None if port is None else _count(port),
        marks={
            BookieId(name): ProcessMark(
                pid=_count(mark["pid"]),
                started_ticks=_count(mark["startedTicks"]),
                boot=str(mark["boot"]),
            )
            for name, mark in marks.items()
        },
        http={
            BookieId(name): str(mark["http"])
            for name, mark in marks.items()
            if mark["http"] is not None
        },
    )


def _count(value: object, *, least: int = 1) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"{value!r} is no count")
    return value
