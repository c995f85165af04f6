"""Asks the processes of a cluster for their pages over HTTP: all at once, and only for looking.

Everything is bounded: the time of one page, the time of all, the bytes of a page, the connections
at once. A process that does not answer costs its own time, and none of another's.

One connection carries one request, as the processes serve them (``wire/running/looking``).
"""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.store import reachable
from zonekeeper.shell.reaching import sights
from zonekeeper.shell.reaching.last_seen import KnownProcess
from zonekeeper.shell.reaching.sights import ClusterSight, FetchedPage, HttpSight, Pages
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running import seam

_HEAD_END: Final = b"\r\n\r\n"
_STATUS_WORDS: Final = 2
_PART_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of asking."""

    #: For one page, from the look-up of the host to its last byte.
    page_ms: int = 700
    #: For all pages of all processes.
    whole_ms: int = 1_000
    page_bytes: int = 4 << 20
    connections: int = 128

    def __post_init__(self) -> None:
        assert min(self.page_ms, self.whole_ms, self.page_bytes, self.connections) > 0, (
            "a limit of nothing lets nothing through"
        )


_LIMITS: Final = HttpLimits()


class _NoPageError(Exception):
    """There is no such page; the message says why."""


async def ask(
    processes: Sequence[KnownProcess],
    *,
    instance: str | None,
    metrics: bool = False,
    limits: HttpLimits = _LIMITS,
) -> ClusterSight:
    """Ask all processes; ``instance`` is that of their cluster (None: unknown).

    ``metrics``: ask for ``/metrics``, too. A process that could not be asked in time is ``Silent``.
    """
    turn = asyncio.Semaphore(limits.connections)
    async with asyncio.TaskGroup() as group:
        asked = [
            group.create_task(_sight(one, instance, metrics, limits, turn)) for one in processes
        ]
        if asked:
            await asyncio.wait(asked, timeout=limits.whole_ms / 1000)
        for task in asked:
            task.cancel()
    found = [
        _late(process, limits) if task.cancelled() else task.result()
        for process, task in zip(processes, asked, strict=True)
    ]
    return ClusterSight(
        sights=tuple(sorted(found, key=lambda one: (one.process.kind, one.process.name)))
    )


def _late(process: KnownProcess, limits: HttpLimits) -> HttpSight:
    return sights.Silent(process=process, why=f"no answer within {limits.whole_ms} ms")


async def _sight(
    process: KnownProcess,
    instance: str | None,
    metrics: bool,
    limits: HttpLimits,
    turn: asyncio.Semaphore,
) -> HttpSight:
    if process.http is None:
        return sights.Silent(process=process, why="it serves no HTTP")
    paths = [seam.STATE_PATH, seam.READY_PATH, *([seam.METRICS_PATH] if metrics else [])]
    work = (_page(process.http, path, limits, turn) for path in paths)
    state, ready, *more = await asyncio.gather(*work)
    pages = Pages(
        state=state if isinstance(state, FetchedPage) else None,
        ready=ready if isinstance(ready, FetchedPage) else None,
        metrics=more[0] if more and isinstance(more[0], FetchedPage) else None,
        trouble=state if isinstance(state, str) else "",
    )
    return sights.judge(process, instance, pages)


async def _page(
    where: Address, path: str, limits: HttpLimits, turn: asyncio.Semaphore
) -> FetchedPage | str:
    """Get a page, or the reason why there is none."""
    async with turn:
        try:
            async with asyncio.timeout(limits.page_ms / 1000):
                return await _fetched(where, path, limits.page_bytes)
        except TimeoutError:
            return f"{where}: no answer within {limits.page_ms} ms"
        except OSError as error:
            return f"{where}: {reachable.reason(error)}"
        except _NoPageError as error:
            return f"{where}: {error}"


async def _fetched(where: Address, path: str, bytes_max: int) -> FetchedPage:
    trouble: OSError | None = None
    for family, address in await reachable.resolved(where.bare_host, where.port):
        with socket.socket(family, socket.SOCK_STREAM) as connection:
            try:
                await reachable.connect(connection, address)
            except OSError as error:  # a host may have an address at which nothing listens
                trouble = error
                continue
            return await _read(connection, where, path, bytes_max)
    raise trouble or OSError("the host has no address")


async def _read(
    connection: socket.socket, where: Address, path: str, bytes_max: int
) -> FetchedPage:
    loop = asyncio.get_running_loop()
    head = f"GET {path} HTTP/1.1\r\nHost: {where}\r\nConnection: close\r\n\r\n"
    await loop.sock_sendall(connection, head.encode("ascii", "replace"))
    raw = bytearray()
    while part := await loop.sock_recv(connection, _PART_BYTES):
        raw += part
        if len(raw) > bytes_max:
            raise _NoPageError(f"{path} has more than {bytes_max} bytes")
    return _parsed(bytes(raw), path)


def _parsed(raw: bytes, path: str) -> FetchedPage:
    head, end, body = raw.partition(_HEAD_END)
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    named = len(words) >= _STATUS_WORDS and words[0].startswith("HTTP/1.")
    if not (end and named and words[1].isascii() and words[1].isdigit()):
        raise _NoPageError(f"{path} gives no HTTP answer")
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip().lower() == "content-length" and value.strip() != str(len(body)):
            raise _NoPageError(f"{path} ends too early")
    return FetchedPage(int(words[1][:4]), body.decode("utf-8", "replace"))
