"""Autorecovery as real processes: each auditor, replicator and stand-in zone watch in one.

What they do is read from their metrics, as a person would.
"""

import asyncio
import contextlib
import re
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.ready_processes import SHELL, ReadyProcesses
from zonekeeper.placement.base.ids import BookieId, ZoneName

_ANSWER_SECONDS: Final = 60
_SAMPLE: Final = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Metrics:
    """The numbers of one process at one moment."""

    def __init__(self, text: str) -> None:
        self._samples: list[tuple[str, dict[str, str], float]] = []
        for line in text.splitlines():
            if not line.startswith("#") and (found := _SAMPLE.fullmatch(line)):
                name, labels, value = found.groups()
                self._samples.append((name, dict(_LABEL.findall(labels or "")), float(value)))

    def sum_of(self, name: str, **labels: str) -> float:
        """Add up the samples of this name that have these labels, whatever else they have."""
        return sum(
            value
            for each, has, value in self._samples
            if each == name and labels.items() <= has.items()
        )


@dataclass(slots=True, kw_only=True)
class AutorecoveryProcesses(ReadyProcesses):
    """The autorecovery processes of one cluster, by their names."""

    address: str
    #: In which zone each runs.
    zones: Mapping[BookieId, ZoneName]

    @property
    def command(self) -> Sequence[str]:
        return (*SHELL, "autorecovery", "run")

    def names(self) -> Iterable[BookieId]:
        return self.zones

    def settings(self, name: BookieId) -> Mapping[str, str]:
        return {
            "--metadata": self.address,
            "--name": name,
            "--zone": self.zones[name],
            "--http": "127.0.0.1:0",
        }

    async def metrics(self, name: BookieId) -> Metrics:
        """Ask a process for its numbers."""
        port = self.said(name).strip().rpartition(":")[2]
        return Metrics(await asyncio.to_thread(_get, f"http://127.0.0.1:{port}/metrics"))


def _get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=_ANSWER_SECONDS) as answer:
        text: str = answer.read().decode()
        return text


@contextlib.contextmanager
def autorecovery_processes(
    address: str, folder: Path, zones: Mapping[BookieId, ZoneName]
) -> Iterator[AutorecoveryProcesses]:
    """Give the autorecovery processes of a cluster, none of them started yet."""
    processes = AutorecoveryProcesses(folder=folder, address=address, zones=zones)
    try:
        yield processes
    finally:
        processes.close()
