"""An address is not a bookie: what is meant for one is never done by another one."""

import asyncio
import dataclasses
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Final

import grpc
import pytest
from grpc import aio

from tests.support import fronts
from tests.support.fronts import Fronts
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import KEY, PATIENT, Outcomes, WatchedHost, Writer, opened, read
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.contract.pipes import StreamKind
from zonekeeper.wire.formats import bookie_names, errors
from zonekeeper.wire.grpc import grpc_edge, grpc_link
from zonekeeper.wire.grpc.grpc_server import GrpcServer
from zonekeeper.wire.host import methods
from zonekeeper.wire.host.host_limits import HostLimits
from zonekeeper.wire.host.serving import Host

A: Final = BookieId("bk-a-0")
B: Final = BookieId("bk-a-1")
LEDGER: Final = LedgerId(7)
SETTINGS: Final = dataclasses.replace(PATIENT, back_off_first_ms=1, back_off_max_ms=10)


class Place:
    """Bookies on ports of their own, each behind a front; the register never changes."""

    def __init__(self, stack: AsyncExitStack, ways: Fronts, tasks: asyncio.TaskGroup) -> None:
        self._stack = stack
        self._tasks = tasks
        self.ways = ways
        self.hosts: dict[BookieId, WatchedHost] = {}
        self.bookies: dict[BookieId, ReferenceBookie] = {}

    async def put_up(self, bookie_id: BookieId) -> None:
        self.bookies[bookie_id] = ReferenceBookie(bookie_id, Disk())
        host = self.hosts[bookie_id] = WatchedHost(self.bookies[bookie_id], HostLimits())
        server = GrpcServer(host, "127.0.0.1:0", name=bookie_id, credentials=None)
        await server.start()
        self._stack.push_async_callback(server.stop, 0)
        await self.ways.add(bookie_id, server.port)

    def address(self, bookie_id: BookieId) -> str:
        return f"127.0.0.1:{self.ways[bookie_id].port}"

    @asynccontextmanager
    async def link(self, bookie_id: BookieId) -> AsyncIterator[BookieLink]:
        """Give a link to a bookie, at the address where it was once."""
        link = grpc_link.connect(
            bookie_id,
            self.address(bookie_id),
            credentials=None,
            tasks=self._tasks,
            chance=random.Random(1),
            settings=SETTINGS,
        )
        try:
            yield link
        finally:
            await link.close()


@asynccontextmanager
async def place() -> AsyncIterator[Place]:
    """A and B, each at its address."""
    async with (
        asyncio.timeout(300),
        AsyncExitStack() as stack,
        fronts.fronts() as ways,
        asyncio.TaskGroup() as tasks,
    ):
        made = Place(stack, ways, tasks)
        for bookie_id in (A, B):
            await made.put_up(bookie_id)
        yield made


async def _tail(link: BookieLink) -> None:
    asked = service.TailRequest(
        ledger_id=LEDGER, first_entry_id=EntryId(0), bytes_max=1, quiet_ms=60_000
    )
    async with aclosing(link.tail(asked)) as updates:
        await anext(updates)


async def _list(link: BookieLink) -> None:
    first = EntryId(0)
    await link.list_entries(
        service.ListEntriesRequest(ledger_id=LEDGER, first_entry_id=first, ranges_max=9)
    )


#: All that a link can ask.
QUESTIONS: Final[dict[str, Callable[[BookieLink], Awaitable[object]]]] = {
    "open_fragment": lambda link: link.open_fragment(Writer(LEDGER).opening(), Outcomes()),
    "read": lambda link: link.read(read(LEDGER, 0, 0)),
    "fence": lambda link: link.fence(LEDGER, KEY),
    "read_lac": lambda link: link.read_lac(LEDGER),
    "force": lambda link: link.force(LEDGER),
    "tail": _tail,
    "list_entries": _list,
    "info": lambda link: link.info(),
    "set_read_only": lambda link: link.set_read_only(read_only=True),
    "end_limbo": lambda link: link.end_limbo(LEDGER, 1),
    "compact": lambda link: link.compact(major=True),
}


def test_the_questions_are_all_that_a_link_can_ask() -> None:
    assert {*QUESTIONS, "bookie_id"} == {
        name for name in vars(BookieLink) if not name.startswith("_")
    }


@pytest.mark.parametrize("question", QUESTIONS)
async def test_what_is_meant_for_another_bookie_is_refused_before_anything_is_done(
    question: str,
) -> None:
    async with place() as made:
        async with made.link(B) as honest:
            await opened(honest, LEDGER)
            made.ways.lead(A, to=B)
            async with made.link(A) as link:
                with pytest.raises(errors.NotConnected) as caught:
                    await QUESTIONS[question](link)
        assert not caught.value.maybe_applied
        assert f"at {made.address(A)}: {A} was meant, and {B} answers" in str(caught.value)
        other, ledger = made.bookies[B], made.bookies[B].disk.ledgers[LEDGER]
        assert len(made.hosts[B].pipes) == len(ledger.fragments) == 1, "those of the honest link"
        done = [ledger.fenced, ledger.packets, other.forced, other.out_of_limbo]
        assert not any([*done, other.read_only, other.compactions])


NAMES: Final = [
    *(kind.value for kind in StreamKind),
    *(call.name for call in methods.CALLS),
    *(subscription.name for subscription in methods.SUBSCRIPTIONS),
]


@pytest.mark.parametrize("name", NAMES)
async def test_every_method_refuses_who_names_no_bookie_or_more_than_one(name: str) -> None:
    async with place() as made, aio.insecure_channel(made.address(B)) as channel:
        start: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            grpc_edge.method_path(name)
        )
        for headers, kind in [
            ((), errors.BadRequest),
            ((*grpc_edge.meant_for(A), *grpc_edge.meant_for(B)), errors.NotConnected),
        ]:
            with pytest.raises(aio.AioRpcError) as caught:
                await start(metadata=headers).read()
            fault = caught.value
            assert fault.code() is grpc.StatusCode.ABORTED
            error = grpc_edge.translated(fault.code(), fault.details(), fault.trailing_metadata())
            assert type(error) is kind
            trailers = dict(fault.trailing_metadata())
            assert trailers[grpc_edge.BOOKIE_HEADER] == grpc_edge.ANOTHER
            assert (f"{B} answers" in str(error)) is bool(headers), "only to one that knew it"


async def until_reached(link: BookieLink, writer: Writer) -> None:
    """Write an entry, and read it, as soon as the bookie is reached."""
    while True:
        try:
            lane = await link.open_fragment(writer.opening(), outcomes := Outcomes())
            lane.append(writer.frame(b"x"))
            await outcomes.all_of(1)
            assert outcomes.acked_order == [0]
            assert (await link.read(read(LEDGER, 0, 0))).frames
        except errors.NotConnected:
            await asyncio.sleep(0.001)
        else:
            return


async def test_a_name_that_leads_home_again_is_followed_though_the_other_bookie_lives() -> None:
    async with place() as made, made.link(A) as link:
        made.ways.lead(A, to=B)
        for question in QUESTIONS.values():
            with pytest.raises(errors.NotConnected):
                await question(link)
        made.ways.lead(A, to=A)
        assert (await link.info()).bookie_id == A
        await until_reached(link, Writer(LEDGER))
        assert not made.bookies[B].disk.ledgers


async def test_a_link_that_was_live_is_refused_by_the_other_one_and_live_again_later() -> None:
    async with place() as made, made.link(A) as link:
        writer, lane, outcomes = await opened(link, LEDGER)
        made.ways.lead(A, to=B)
        made.ways[A].cut()
        lane.append(writer.frame(b"lost"))
        await outcomes.all_of(1)
        assert isinstance(outcomes.failures[0], errors.ConnectionLost | errors.NotConnected)
        while True:  # the end of the connection may be heard later
            with pytest.raises((errors.ConnectionLost, errors.NotConnected)) as caught:
                await link.info()
            if f"{B} answers" in str(caught.value):
                break
        made.ways.lead(A, to=A)
        await until_reached(link, Writer(LEDGER))
        assert not made.bookies[B].disk.ledgers


async def test_all_that_a_bookies_id_may_consist_of_fits_into_the_header() -> None:
    name = BookieId("AZaz09:._-" * 20)
    async with place() as made:
        await made.put_up(name)
        async with made.link(name) as link:
            assert (await link.info()).bookie_id == name


async def test_a_bookie_of_that_id_in_another_cluster_is_another_bookie() -> None:
    ours, theirs = (bookie_names.name_of(A, str(uuid.UUID(int=n))) for n in (1, 2))
    bookie = ReferenceBookie(A, Disk())
    server = GrpcServer(Host(bookie), "127.0.0.1:0", name=theirs, credentials=None)
    await server.start()
    try:
        async with asyncio.timeout(300), asyncio.TaskGroup() as tasks, AsyncExitStack() as stack:
            links = {}
            for name in (ours, theirs):
                links[name] = grpc_link.connect(
                    name,
                    f"127.0.0.1:{server.port}",
                    credentials=None,
                    tasks=tasks,
                    chance=random.Random(1),
                    settings=PATIENT,
                )
                stack.push_async_callback(links[name].close)
            with pytest.raises(errors.NotConnected, match=f"{ours} was meant") as caught:
                await links[ours].fence(LEDGER, KEY)
            assert "a bookie of another cluster answers" in str(caught.value)
            assert str(uuid.UUID(int=2)) not in str(caught.value)
            assert not bookie.disk.ledgers
            assert (await links[theirs].info()).bookie_id == A
    finally:
        await server.stop(0)


async def test_s139_no_refusal_gives_the_name_that_would_have_been_right() -> None:
    """Each stranger repeats all that it was told, as the name that it means."""
    instance = str(uuid.UUID(int=2))
    right = bookie_names.name_of(A, instance)
    bookie = ReferenceBookie(A, Disk())
    server = GrpcServer(Host(bookie), "127.0.0.1:0", name=right, credentials=None)
    await server.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            start: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
                grpc_edge.method_path("Info")
            )
            for guess in ((), grpc_edge.meant_for(A), grpc_edge.meant_for(f"{B}@{A}")):
                with pytest.raises(aio.AioRpcError) as caught:
                    await start(metadata=guess).read()
                told = (caught.value.details(), caught.value.trailing_metadata())
                assert instance not in str(told)
            knows = grpc_edge.meant_for(bookie_names.name_of(B, instance))
            with pytest.raises(aio.AioRpcError, match=f"{A} answers"):
                await start(metadata=knows).read()
    finally:
        await server.stop(0)
