"""Clients that break a rule among calls and tails: each harms itself alone."""

import asyncio
import dataclasses

import pytest

from tests.support.raw_sockets import LIMIT_S, raw_socket
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE, SocketWorld, opened
from tests.wire.socket.hostile_world import (
    SOON_MS,
    call,
    ended,
    honest,
    limited,
    played,
    soon,
    tail,
)
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.contract import messages
from zonekeeper.wire.formats import carriers, errors, socket_messages
from zonekeeper.wire.formats.proofs import Shown
from zonekeeper.wire.formats.socket_messages import (
    AnswerTaken,
    CallAnswer,
    CallCancelled,
    CallEnd,
    ConnectionKind,
)
from zonekeeper.wire.socket import socket_calls
from zonekeeper.wire.socket.connection import EndCause
from zonekeeper.wire.socket.socket_server import SocketLimits


@pytest.mark.parametrize(
    "lie",
    [
        carriers.build([carriers.Hello(boot_epoch=1)]),
        socket_messages.build(CallEnd(number=1, code=0)),
        socket_messages.build(CallAnswer(number=1, answer=b"")),
        b"ZKCL",
        b"nonsense",
    ],
)
@played()
async def test_a_lie_among_calls_ends_their_connection_with_the_reason(
    world: SocketWorld, lie: bytes
) -> None:
    async with honest(world), raw_socket(world.port) as peer:
        await peer.greet(BOOKIE, ConnectionKind.CALLS)
        peer.say(lie)
        end = await peer.heard_end()
        assert end is not None
        assert end.code == errors.BadRequest.code
        await ended(world, {EndCause.MALFORMED: 1})


@played()
async def test_a_call_that_is_unknown_or_unreadable_is_refused_and_the_next_one_is_served(
    world: SocketWorld,
) -> None:
    async with raw_socket(world.port) as peer:
        await peer.greet(BOOKIE, ConnectionKind.CALLS)
        for number, (name, request, kind) in enumerate(
            [
                ("Juggle", b"", errors.UnsupportedVersion),
                ("Fence", b"\xff\xff\xff", errors.BadRequest),
                ("Tail", b"\xff\xff\xff", errors.BadRequest),
            ]
        ):
            peer.say(call(number, name, request))
            answer = await peer.hear()
            assert answer is not None
            end = socket_messages.parse(answer)
            assert isinstance(end, CallEnd)
            assert (end.number, end.code) == (number, kind.code)
        peer.say(call(9))
        assert (await peer.hear() or b"").startswith(b"ZKAN")


@played()
async def test_a_number_that_is_under_way_already_ends_the_connection(world: SocketWorld) -> None:
    async with raw_socket(world.port) as peer:
        await peer.greet(BOOKIE, ConnectionKind.CALLS)
        peer.say(call(5, "Tail", tail(1_000_000)))
        peer.say(call(5))
        end = await peer.heard_end()
        assert end is not None
        assert end.detail == "call 5 is under way already"


@played()
async def test_tails_and_calls_above_the_limits_of_a_connection_are_refused(
    world: SocketWorld,
) -> None:
    await limited(world, dataclasses.replace(SocketLimits(), tails_max=3))
    async with honest(world), raw_socket(world.port) as peer:
        await peer.greet(BOOKIE, ConnectionKind.CALLS)
        for number in range(5):
            peer.say(call(number, "Tail", tail(60_000)))
        refused: set[int] = set()
        while len(refused) < 2:
            message = await peer.hear()
            assert message is not None
            said = socket_messages.parse(message)
            if isinstance(said, CallEnd):
                assert said.code == errors.TooManyRequests.code
                refused.add(said.number)
            else:
                assert isinstance(said, CallAnswer)
                peer.say(socket_messages.build(AnswerTaken(number=said.number)))
        assert refused == {3, 4}


@played()
async def test_a_tail_of_which_nothing_is_taken_waits_and_ends_and_calls_beside_it_are_served(
    world: SocketWorld,
) -> None:
    await limited(world, soon(send_ms=4 * SOON_MS))
    async with honest(world), raw_socket(world.port) as peer:
        await peer.greet(BOOKIE, ConnectionKind.CALLS)
        peer.say(call(1, "Tail", tail(60_000)))
        answers = 0
        while True:
            message = await peer.hear()
            assert message is not None
            said = socket_messages.parse(message)
            if isinstance(said, CallEnd):
                break
            answers += 1
        assert said.code == errors.Timeout.code
        assert "took nothing of this tail" in said.detail
        assert answers == socket_calls.ANSWERS_UNTAKEN_MAX
        peer.say(call(2))
        assert (await peer.hear() or b"").startswith(b"ZKAN")


@played()
async def test_what_was_never_sent_cannot_be_taken(world: SocketWorld) -> None:
    async with raw_socket(world.port) as peer:
        await opened(world.link(), 1)
        await peer.greet(BOOKIE, ConnectionKind.CALLS)
        peer.say(call(1, "Tail", tail(60_000)))
        assert (await peer.hear() or b"").startswith(b"ZKAN")
        for _ in range(2):
            peer.say(socket_messages.build(AnswerTaken(number=1)))
        end = await peer.heard_end()
        assert end is not None
        assert end.detail == "an answer was taken that was never sent"


class Ponders(ReferenceBookie):
    """A bookie whose force lasts until its caller has gone."""

    def __init__(self, bookie_id: BookieId, disk: Disk) -> None:
        super().__init__(bookie_id, disk)
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def force(self, ledger_id: LedgerId, key: Shown | None = None) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


@pytest.mark.parametrize("how", ["cancelled", "gone", "late"])
@played()
async def test_a_call_ends_at_the_bookie_when_nobody_waits_for_it_any_more(
    world: SocketWorld, how: str
) -> None:
    await world.crash()
    world.bookie = bookie = Ponders(BOOKIE, world.disk)
    await world.start()
    request = messages.ledger(messages.LedgerCall(ledger_id=LedgerId(1))).SerializeToString()
    async with asyncio.timeout(LIMIT_S), raw_socket(world.port) as peer:
        await peer.greet(BOOKIE, ConnectionKind.CALLS)
        peer.say(call(1, "Force", request, timeout_ms=50 if how == "late" else 0))
        await bookie.began.wait()
        if how == "cancelled":
            peer.say(socket_messages.build(CallCancelled(number=1)))
        elif how == "gone":
            peer.close()
        await bookie.ended.wait()
        if how == "late":
            said = socket_messages.parse(await peer.hear() or b"")
            assert isinstance(said, CallEnd)
            assert said.code == errors.Timeout.code


@played()
async def test_calls_above_the_limit_of_a_connection_are_refused_and_it_goes_on(
    world: SocketWorld,
) -> None:
    await limited(world, dataclasses.replace(SocketLimits(), calls_max=2))
    await world.crash()
    world.bookie = Ponders(BOOKIE, world.disk)
    await world.start()
    request = messages.ledger(messages.LedgerCall(ledger_id=LedgerId(1))).SerializeToString()
    async with raw_socket(world.port) as peer:
        await peer.greet(BOOKIE, ConnectionKind.CALLS)
        for number in range(3):
            peer.say(call(number, "Force", request))
        said = socket_messages.parse(await peer.hear() or b"")
        assert isinstance(said, CallEnd)
        assert (said.number, said.code) == (2, errors.TooManyRequests.code)
        peer.say(socket_messages.build(CallCancelled(number=0)))
        peer.say(call(5))
        assert (await peer.hear() or b"").startswith(b"ZKAN")


@played()
async def test_a_caller_that_goes_away_is_told_to_the_bookie(world: SocketWorld) -> None:
    await world.crash()
    world.bookie = bookie = Ponders(BOOKIE, world.disk)
    await world.start()
    link = world.link()
    calling = asyncio.ensure_future(link.force(LedgerId(1)))
    async with asyncio.timeout(LIMIT_S):
        await bookie.began.wait()
        calling.cancel()
        await bookie.ended.wait()
        assert (await link.info()).bookie_id == BOOKIE, "on the same connection"
