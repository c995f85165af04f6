"""Shares: what one principal may take of a host, over all its streams, and what is left."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.support import virtual_time
from tests.wire.host.test_serving import ByHand
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE, Writer
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.host.access import Access, Guard
from zonekeeper.wire.host.host_limits import HostLimits
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.host.shares import PrincipalShares, Shared
from zonekeeper.wire.identity.callers import Enforcement
from zonekeeper.wire.identity.principals import PeerNames

GREEDY = PeerNames(uris=("zonekeeper://any/client/greedy",))
MODEST = PeerNames(uris=("zonekeeper://any/client/modest",))
BYTES = b"x" * 1_000
FOLLOW = service.TailRequest(
    ledger_id=Writer(7).ledger_id, first_entry_id=EntryId(0), bytes_max=1, quiet_ms=1
)


def guards(access: Access) -> tuple[Guard, Guard]:
    return access.guard(GREEDY, "h:1"), access.guard(MODEST, "h:2")


def rights(enforcement: Enforcement = Enforcement.ON) -> Access:
    return Access(enforcement, instance="here")


@dataclass
class Streams:
    """Append streams of a bookie that answers when it is told to."""

    bookie: ReferenceBookie
    host: Host
    tasks: asyncio.TaskGroup
    pipes: list[ByHand] = field(default_factory=list)

    async def opened(self, guard: Guard | None, writer: Writer) -> ByHand:
        """Begin a stream on which the writer's ledger is open."""
        pipe = ByHand()
        self.pipes.append(pipe)
        self.tasks.create_task(self.host.serve_appends(pipe, guard=guard))
        assert await pipe.answers() == (carriers.Hello(boot_epoch=1),)
        pipe.put(carriers.Open(number=0, opening=writer.opening()))
        assert await pipe.answers() == (carriers.Acked(number=0, last=0),)
        return pipe

    async def written(self, pipe: ByHand, writer: Writer, numbers: Sequence[int]) -> None:
        """Put one frame a carrier on the stream, and let the host take what it will."""
        for number in numbers:
            pipe.put(carriers.Append(number=number, frame=writer.frame(BYTES)))
        await asyncio.sleep(1)


@asynccontextmanager
async def streams(
    limits: HostLimits,
    enforcement: Enforcement = Enforcement.ON,
    bookie: ReferenceBookie | None = None,
) -> AsyncGenerator[Streams, None]:
    bookie = bookie or ReferenceBookie(BOOKIE, Disk())
    async with asyncio.TaskGroup() as tasks:
        made = Streams(bookie, Host(bookie, limits, access=rights(enforcement)), tasks)
        yield made
        for pipe in made.pipes:
            pipe.coming.put_nowait(None)
        bookie.held = False
        bookie.release()
    assert not len(made.host.shares), "nothing is left of them"


@virtual_time.played
async def test_the_streams_of_one_principal_are_held_together_and_those_of_another_go_on() -> None:
    limits = HostLimits(principal_append_bytes_max=5_000)
    async with streams(limits) as world:
        greedy, modest = guards(world.host.access)
        writers = [Writer(ledger) for ledger in (7, 8, 9)]
        first, second = [await world.opened(greedy, writer) for writer in writers[:2]]
        other = await world.opened(modest, writers[2])
        world.bookie.held = True
        await world.written(first, writers[0], range(1, 10))
        taken = world.bookie.waiting
        assert taken == 5
        assert first.coming.qsize() > 0
        await world.written(second, writers[1], range(1, 10))
        assert world.bookie.waiting == taken + 1, "what was received already comes on top"
        before = world.bookie.waiting
        await world.written(other, writers[2], range(1, 4))
        assert world.bookie.waiting == before + 3

        world.bookie.release()
        world.bookie.held = False
        await asyncio.sleep(1)
        assert not first.coming.qsize()
        assert not second.coming.qsize()


class ByChoice(ReferenceBookie):
    """A bookie whose appends a test answers, in an order of its own."""

    def __init__(self) -> None:
        super().__init__(BOOKIE, Disk())
        self.taken: list[tuple[service.Replies, int]] = []

    def append(self, items: Sequence[carriers.Request], replies: service.Replies) -> None:
        for item in items:
            if isinstance(item, carriers.Open):
                replies.acked([item.number])
            else:
                self.taken.append((replies, item.number))

    def answer(self, replies: service.Replies) -> None:
        """Answer all that came on one stream."""
        numbers = [number for on, number in self.taken if on is replies]
        self.taken = [one for one in self.taken if one[0] is not replies]
        replies.acked(numbers)


@virtual_time.played
async def test_held_streams_go_on_once_half_of_their_bytes_are_answered() -> None:
    bookie = ByChoice()
    limits = HostLimits(principal_append_bytes_max=6_000)
    async with streams(limits, bookie=bookie) as world:
        greedy, _ = guards(world.host.access)
        writers = [Writer(ledger) for ledger in (7, 8)]
        full, other = [await world.opened(greedy, writer) for writer in writers]
        await world.written(other, writers[1], range(1, 2))
        await world.written(full, writers[0], range(1, 8))
        await world.written(other, writers[1], range(2, 6))
        second, first = bookie.taken[0][0], bookie.taken[1][0]
        assert first is not second
        bookie.answer(second)
        await asyncio.sleep(1)
        assert {on for on, _ in bookie.taken} == {first}, "the other stream is held"
        assert other.coming.qsize()
        bookie.answer(first)
        await asyncio.sleep(1)
        assert not other.coming.qsize()
        while bookie.taken:
            bookie.answer(bookie.taken[0][0])
        assert not world.host.access.figures.over_share


@virtual_time.played
async def test_a_stream_that_has_ended_is_followed_no_more() -> None:
    host = Host(ByChoice(), access=rights())
    greedy, _ = guards(host.access)
    with host.shares.joined(greedy, Shared.TAILS) as share:
        with host.appending(NoOutlet(), 1, greedy):
            assert share.appending == 1
        assert share.appending == 0


@virtual_time.played
async def test_a_carrier_that_breaks_a_rule_leaves_nothing_in_the_share() -> None:
    host = Host(ReferenceBookie(BOOKIE, Disk()), access=rights())
    greedy, _ = guards(host.access)
    writer = Writer(7)
    with host.appending(NoOutlet(), 1, greedy) as inlet:
        inlet.taken(carriers.build([carriers.Open(number=0, opening=writer.opening())]))
        await asyncio.sleep(1)
        wrong = [carriers.Append(number=at, frame=writer.frame(BYTES)) for at in (2, 1)]
        with pytest.raises(errors.BadRequest):
            inlet.taken(carriers.build(wrong))
    assert not len(host.shares)


class Refusing(ReferenceBookie):
    """A bookie that takes every key for a guess."""

    def append(self, items: Sequence[carriers.Request], replies: service.Replies) -> None:
        for item in items:
            replies.refused(item.number, errors.UnauthorizedAccess("wrong key"))


@virtual_time.played
async def test_a_stream_that_ends_for_its_guesses_leaves_nothing_in_the_share() -> None:
    host = Host(Refusing(BOOKIE, Disk()), access=rights())
    greedy, _ = guards(host.access)
    many = [carriers.Open(number=at, opening=Writer(7).opening()) for at in range(40)]
    with (
        host.appending(NoOutlet(), 1, greedy) as inlet,
        pytest.raises(errors.UnauthorizedAccess),
    ):
        inlet.taken(carriers.build(many))
    assert not len(host.shares)


@virtual_time.played
async def test_an_opening_is_never_refused_for_its_principal() -> None:
    limits = HostLimits(principal_append_bytes_max=100)
    host = Host(bookie := ByChoice(), limits, access=rights())
    greedy, _ = guards(host.access)
    writer = Writer(7)
    with host.appending(NoOutlet(), 1, greedy) as inlet:
        inlet.taken(carriers.build([carriers.Open(number=0, opening=writer.opening())]))
        frames = [carriers.Append(number=at, frame=writer.frame(BYTES)) for at in (1, 2)]
        inlet.taken(carriers.build(frames))
        assert [number for _, number in bookie.taken] == [1], "the second is above the limit"
        inlet.taken(carriers.build([carriers.Open(number=3, opening=Writer(8).opening())]))
        assert host.access.figures.over_share == {"appends": 1}
        bookie.answer(bookie.taken[0][0])


def test_certificates_without_a_principal_count_by_their_names() -> None:
    access = rights(Enforcement.NAMED)
    shares = PrincipalShares(HostLimits(principal_streams_max=1), access)
    one, other = (access.guard(PeerNames(dns=(name,)), "h:1") for name in ("app-a", "app-b"))
    with shares.joined(one, Shared.STREAMS), shares.joined(other, Shared.STREAMS):
        with pytest.raises(errors.TooManyRequests, match="the certificate of app-a has 1 streams"):
            shares.check(one, Shared.STREAMS)
        assert len(shares) == 2


def test_the_order_of_principals_in_a_certificate_says_nothing() -> None:
    access = rights()
    uris = (*GREEDY.uris, *MODEST.uris)
    known = {access.guard(PeerNames(uris=each), "h:1").known_as for each in (uris, uris[::-1])}
    assert known == {"client/greedy+client/modest"}


@virtual_time.played
async def test_tails_of_one_principal_have_a_limit_of_their_own() -> None:
    limits = HostLimits(principal_tails_max=1)
    host = Host(Chatty(BOOKIE, Disk()), limits, access=rights())
    greedy, modest = guards(host.access)
    async with aclosing(host.tail(FOLLOW, greedy)) as first:
        await anext(first)
        with pytest.raises(errors.TooManyRequests, match="client/greedy has 1 tails"):
            await anext(host.tail(FOLLOW, greedy))
        async with aclosing(host.tail(FOLLOW, modest)) as served:
            await anext(served)


@virtual_time.played
async def test_without_tls_each_stream_counts_alone() -> None:
    limits = HostLimits(principal_append_bytes_max=5_000, principal_streams_max=1)
    async with streams(limits, Enforcement.OFF) as world:
        writers = [Writer(ledger) for ledger in (7, 8)]
        first, second = [await world.opened(None, writer) for writer in writers]
        world.bookie.held = True
        await world.written(first, writers[0], range(1, 10))
        await world.written(second, writers[1], range(1, 10))
        assert world.bookie.waiting == 18
        assert not len(world.host.shares)


@virtual_time.played
async def test_what_many_held_streams_send_on_top_is_refused_above_the_limit() -> None:
    limits = HostLimits(principal_append_bytes_max=5_000)
    async with streams(limits) as world:
        greedy, _ = guards(world.host.access)
        writer = Writer(7)
        pipe = await world.opened(greedy, writer)
        world.bookie.held = True
        items = [
            carriers.Append(number=number, frame=writer.frame(BYTES)) for number in range(1, 20)
        ]
        pipe.put(*items)  # one carrier: the host has it all at once
        await asyncio.sleep(1)
        assert world.bookie.waiting == 6
        answers = await pipe.answers()
        assert [one.number for one in answers if isinstance(one, carriers.Refused)] == [
            *range(7, 20)
        ]
        assert all(
            one.code == errors.TooManyRequests("").code and "client/greedy" in one.detail
            for one in answers
            if isinstance(one, carriers.Refused)
        )
        assert world.host.access.figures.over_share == {"appends": 13}


@virtual_time.played
async def test_what_an_ended_stream_left_counts_until_the_bookie_has_answered_it() -> None:
    limits = HostLimits(principal_append_bytes_max=3_000)
    bookie = ReferenceBookie(BOOKIE, Disk())
    host = Host(bookie, limits, access=rights())
    greedy, _ = guards(host.access)
    for _ in range(3):  # streams that come and go get no more than one that stays
        writer, pipe = Writer(7), ByHand()
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(host.serve_appends(pipe, guard=greedy))
            await pipe.answers()
            bookie.held = False
            pipe.put(carriers.Open(number=0, opening=writer.opening()))
            await asyncio.sleep(1)
            bookie.held = True
            for number in range(1, 9):
                pipe.put(carriers.Append(number=number, frame=writer.frame(BYTES)))
            await asyncio.sleep(1)
            serving.cancel()
    assert bookie.waiting <= 5
    assert len(host.shares) == 1
    bookie.release()
    await asyncio.sleep(1)
    assert not len(host.shares), "nothing is left of it"


def test_streams_and_tails_of_a_principal_are_counted_over_all_its_connections() -> None:
    access = rights()
    shares = PrincipalShares(HostLimits(principal_streams_max=2, principal_tails_max=1), access)
    greedy, modest = guards(access)
    again = access.guard(GREEDY, "h:9")
    with ExitStack() as stack:
        for guard in (greedy, again):
            stack.enter_context(shares.joined(guard, Shared.STREAMS))
        stack.enter_context(shares.joined(again, Shared.TAILS))
        for kind, most in ((Shared.STREAMS, 2), (Shared.TAILS, 1)):
            said = f"client/greedy has {most} {kind.value} here"
            with (
                pytest.raises(errors.TooManyRequests, match=said) as caught,
                shares.joined(greedy, kind),
            ):
                pytest.fail("it was let in")
            assert caught.value.retryable
            with shares.joined(modest, kind):
                assert len(shares) == 2
        assert len(shares) == 1
    assert not len(shares)
    assert access.figures.over_share == {"streams": 1, "tails": 1}
    with shares.joined(greedy, Shared.TAILS):
        assert len(shares) == 1


class Chatty(ReferenceBookie):
    """A bookie whose tails have news all the time."""

    async def tail(self, request: service.TailRequest) -> AsyncGenerator[service.TailUpdate, None]:
        frame = Writer(request.ledger_id).frame(BYTES)
        while True:
            yield service.TailUpdate(last_add_confirmed=EntryId(0), frames=(frame,))


@virtual_time.played
async def test_untaken_news_of_one_principal_keep_none_from_another() -> None:
    limits = HostLimits(principal_reply_bytes_max=1_000)
    host = Host(Chatty(BOOKIE, Disk()), limits, access=rights())
    greedy, modest = guards(host.access)
    async with aclosing(host.tail(FOLLOW, greedy)) as untaken:
        await anext(untaken)
        assert host.reply_bytes > 1_000
        async with aclosing(host.tail(FOLLOW, greedy)) as waits:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await anext(waits)
        async with aclosing(host.tail(FOLLOW, modest)) as served:
            await anext(served)
    assert not host.reply_bytes
    assert not len(host.shares)


class NoOutlet:
    """A way out that takes everything and leads nowhere."""

    has_room = True

    def put(self, message: bytes) -> None:
        """Drop an answer."""

    def hold(self) -> None:
        """Hand over no more."""

    def go_on(self) -> None:
        """Hand over again."""


class Willing(ReferenceBookie):
    """A bookie that notes the reads that reach it, and answers when it is told to."""

    reads = 0

    async def read(self, request: service.ReadRequest) -> service.ReadReply:
        self.reads += 1
        await asyncio.sleep(3_600)
        return await super().read(request)


@virtual_time.played
async def test_reads_of_one_principal_leave_room_for_those_of_another() -> None:
    bookie = Willing(BOOKIE, Disk())
    host = Host(bookie, HostLimits(principal_reply_bytes_max=3 << 20), access=rights())
    greedy, modest = guards(host.access)
    pipes = {pipe: ByHand() for pipe in ("one", "two", "other")}
    async with asyncio.TaskGroup() as tasks:
        serving = [
            tasks.create_task(host.serve_reads(pipes[name], guard=guard))
            for name, guard in (("one", greedy), ("two", greedy), ("other", modest))
        ]
        for name, reached in (("one", 3), ("two", 3), ("other", 6)):
            for number in range(9):
                pipes[name].put(reading(number))
            await asyncio.sleep(1)
            assert bookie.reads == reached, name
        serving[0].cancel()
        await asyncio.sleep(1)
        assert bookie.reads == 9, "what an ended stream had is there for the next"
        for each in serving[1:]:
            each.cancel()
    assert not host.reply_bytes
    assert not len(host.shares)


@virtual_time.played
async def test_a_share_of_answers_holds_also_when_others_had_all_of_them() -> None:
    limits = HostLimits(principal_reply_bytes_max=4 << 20, all_replies_bytes_max=8 << 20)
    access = rights()
    host = Host(Willing(BOOKIE, Disk()), limits, access=access)
    others = [
        access.guard(PeerNames(uris=(f"zonekeeper://any/client/{name}",)), "h:1") for name in "bc"
    ]
    greedy, _ = guards(access)
    async with asyncio.TaskGroup() as tasks:
        full, mine = list[asyncio.Task[None]](), list[asyncio.Task[None]]()
        for guard in others:
            pipe = ByHand()
            full.append(tasks.create_task(host.serve_reads(pipe, guard=guard)))
            for number in range(4):
                pipe.put(reading(number))
        await asyncio.sleep(1)
        assert host.reply_bytes == 8 << 20
        for _ in range(8):
            pipe = ByHand()
            mine.append(tasks.create_task(host.serve_reads(pipe, guard=greedy)))
            pipe.put(reading(0))
        await asyncio.sleep(1)
        for each in full:
            each.cancel()
        await asyncio.sleep(1)
        assert host.reply_bytes == 4 << 20
        for each in mine:
            each.cancel()


def reading(number: int) -> carriers.Read:
    return carriers.Read(
        number=number,
        ledger_id=Writer(7).ledger_id,
        first=EntryId(0),
        last=EntryId(0),
        max_bytes=1 << 20,
    )
