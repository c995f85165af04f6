"""Asks the processes of a cluster for their pages over HTTP: all at once, and only for looking.

Everything is bounded: the time of one page, the time of all, the bytes of a page, the connections
at once. A process that does not answer costs its own time, and none of another's.

One connection carries one request, as the processes serve them (``wire/running/looking``). A
process whose pages are by certificate is asked over TLS, and is shown the caller's certificate. It
is never asked in plain instead.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.metadata.store import reachable
from zonekeeper.shell.reaching import sights
from zonekeeper.shell.reaching.last_seen import KnownProcess
from zonekeeper.shell.reaching.sights import ClusterSight, FetchedPage, HttpSight, Pages
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running import seam
from zonekeeper.wire.running.page_asking import PageAsking, PageFiles

_HEAD_END: Final = b"\r\n\r\n"
_STATUS_WORDS: Final = 2
_PART_BYTES: Final = 64 << 10
_NO_FILES: Final = (
    "its pages are by certificate: name the files of one with the role admin or monitor, by "
    f"{seam.TLS_AUTHORITY}, {seam.TLS_CERTIFICATE} and {seam.TLS_KEY}"
)

#: TLS, and the name that the certificate of the other side must have; empty: any.
Secured: TypeAlias = tuple[ssl.SSLContext, str]


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
    files: PageFiles | None = None,
) -> ClusterSight:
    """Ask all processes; ``instance`` is that of their cluster (None: unknown).

    ``metrics``: ask for ``/metrics``, too. A process that could not be asked in time is ``Silent``.
    ``files``: the certificate to show to processes whose pages are by certificate.
    """
    round_ = _Round(limits, asyncio.Semaphore(limits.connections), _asking(processes, files))
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_sight(one, instance, metrics, round_)) for one in processes]
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


@dataclass(frozen=True, slots=True)
class _Round:
    """What the questions of one round share."""

    limits: HttpLimits
    turn: asyncio.Semaphore
    #: A text: why no page that is by certificate can be asked for.
    asking: PageAsking | str

    def secured(self, process: KnownProcess) -> Secured | None:
        """Give the TLS to ask a process with; None: its pages are plain."""
        if not process.http_tls:
            return None
        if isinstance(self.asking, str):
            raise _NoPageError(self.asking)
        return self.asking.of(process.kind, process.name)


def _asking(processes: Iterable[KnownProcess], files: PageFiles | None) -> PageAsking | str:
    if files is None or not any(one.http_tls for one in processes):
        return _NO_FILES
    try:
        return PageAsking(files)
    except OSError as error:
        return str(error)


async def page(
    process: KnownProcess, path: str, limits: HttpLimits, files: PageFiles | None
) -> FetchedPage | str:
    """Get one page of one process, or the reason why there is none."""
    turn = asyncio.Semaphore(limits.connections)
    return await _page(process, path, _Round(limits, turn, _asking([process], files)))


async def _sight(
    process: KnownProcess, instance: str | None, metrics: bool, round_: _Round
) -> HttpSight:
    if process.http is None:
        return sights.Silent(process=process, why="it serves no HTTP")
    paths = [seam.STATE_PATH, seam.READY_PATH, *([seam.METRICS_PATH] if metrics else [])]
    work = (_page(process, path, round_) for path in paths)
    state, ready, *more = await asyncio.gather(*work)
    pages = Pages(
        state=state if isinstance(state, FetchedPage) else None,
        ready=ready if isinstance(ready, FetchedPage) else None,
        metrics=more[0] if more and isinstance(more[0], FetchedPage) else None,
        trouble=state if isinstance(state, str) else "",
    )
    return sights.judge(process, instance, pages)


async def _page(process: KnownProcess, path: str, round_: _Round) -> FetchedPage | str:
    where, limits = process.http, round_.limits
    if where is None:
        return "it serves no HTTP"
    async with round_.turn:
        try:
            async with asyncio.timeout(limits.page_ms / 1000):
                question = _Question(where, path, limits.page_bytes, round_.secured(process))
                return await _fetched(question)
        except TimeoutError:
            return f"{where}: no answer within {limits.page_ms} ms"
        except ssl.SSLError as error:
            return f"{where}: TLS ended: {error}"
        except OSError as error:
            return f"{where}: {reachable.reason(error)}"
        except _NoPageError as error:
            return f"{where}: {error}"


@dataclass(frozen=True, slots=True)
class _Question:
    """One page of one process."""

    where: Address
    path: str
    bytes_max: int
    #: None: in plain.
    secured: Secured | None

    @property
    def bytes(self) -> bytes:
        head = f"GET {self.path} HTTP/1.1\r\nHost: {self.where}\r\nConnection: close\r\n\r\n"
        return head.encode("ascii", "replace")


async def _fetched(question: _Question) -> FetchedPage:
    where = question.where
    trouble: OSError | None = None
    for family, address in await reachable.resolved(where.bare_host, where.port):
        with socket.socket(family, socket.SOCK_STREAM) as connection:
            try:
                await reachable.connect(connection, address)
            except OSError as error:  # a host may have an address at which nothing listens
                trouble = error
                continue
            if question.secured is None:
                return await _read(connection, question)
            return await _read_over_tls(connection, question, question.secured)
    raise trouble or OSError("the host has no address")


async def _read(connection: socket.socket, question: _Question) -> FetchedPage:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, question.bytes)
    return await _whole(question, lambda: loop.sock_recv(connection, _PART_BYTES))


async def _read_over_tls(
    connection: socket.socket, question: _Question, secured: Secured
) -> FetchedPage:
    context, name = secured
    reader, writer = await asyncio.open_connection(
        sock=connection, ssl=context, server_hostname=name
    )
    try:
        writer.write(question.bytes)
        return await _whole(question, lambda: reader.read(_PART_BYTES))
    finally:
        writer.transport.abort()  # the page is whole, or of no use


async def _whole(question: _Question, part: Callable[[], Awaitable[bytes]]) -> FetchedPage:
    raw = bytearray()
    while read := await part():
        raw += read
        if len(raw) > question.bytes_max:
            raise _NoPageError(f"{question.path} has more than {question.bytes_max} bytes")
    return _parsed(bytes(raw), question.path)


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
