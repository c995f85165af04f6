"""The network in memory: links to bookies of this process, with delays and faults under one seed.

Everything above the transport is real: ``StreamLink`` at one end, ``Host`` at the other, and the
same carriers between them. The network is simulated with the properties of gRPC over TCP:

* The messages of a stream arrive in order or not at all; after a lost message none arrives. Calls
  and streams may overtake each other.
* A *cut* has one direction, and holds back messages in that direction. If it heals in time, all of
  them arrive late. Otherwise keep-alive ends the connection, with everything under way on it.
* A bookie that is taken down loses its connections and its running calls, wherever they are. Its
  clients hear of that at once. If the connections are left *half-open*, its clients hear of it only
  by keep-alive, as when a machine loses power. What the bookie sent before still arrives, even if
  the bookie is up again by then. What a client sends over such a connection is lost.
* The request or the reply of a call can be lost. A call can be served twice, as by a client that
  repeats it. Its reply may come when the caller does not wait any more.

A message under way is at neither end: it arrives even if its sender is stopped meanwhile. The code
that serves it runs in the task group and the context with which the bookie was put up.

Time is the event loop's, or that of a ``TwinTime``, and chance is passed in. On a loop with virtual
time one seed is one run.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from contextvars import Context, copy_context
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.contract.inlets import NotFlat
from zonekeeper.wire.contract.links import LinkSettings
from zonekeeper.wire.contract.pipes import StreamKind
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.versions import WireVersions
from zonekeeper.wire.host.methods import Call, Q, R, Subscription
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.link.stream_link import StreamLink
from zonekeeper.wire.twin.twin_ways import Live, TwinTime, Way

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """The network's own faults; tests cause others by calling ``Network``."""

    delay_min_ms: float = 0
    delay_max_ms: float = 0
    #: The probability that the request or the reply of a call is lost.
    call_loss: float = 0
    #: The probability that a call is served twice.
    call_repeat: float = 0
    #: The probability that a message of a stream breaks its whole connection.
    disconnect: float = 0
    #: After this time of a cut, keep-alive ends the connections over it.
    keep_alive_ms: int = 15_000
    #: Whether each way between two ends has a speed of its own: most are fast, a few very slow.
    uneven: bool = False


@dataclass(frozen=True, slots=True)
class _Up:
    """A bookie that is up: its boot, its host, and where the code that serves runs."""

    boot: int
    host: Host
    tasks: asyncio.TaskGroup
    context: Context


class Network:
    """Clients and bookies by their names, and the network between them."""

    def __init__(
        self,
        *,
        tasks: asyncio.TaskGroup,
        chance: Chance,
        weather: Weather | None = None,
        timing: TwinTime | None = None,
    ) -> None:
        self.tasks = tasks
        self.weather = weather or Weather()
        #: Clients and bookies that are slow in both directions, and their delay in milliseconds.
        self.slow_ms: dict[str, float] = {}
        self._chance = chance
        #: The part of the weather's delay that each way has, if ways are uneven.
        self._paces: dict[tuple[str, str], float] = {}
        self._timing: TwinTime = timing or asyncio.get_running_loop()
        #: Each bookie with its boot number: a message to one boot never reaches another boot.
        self._hosts: dict[BookieId, _Up] = {}
        self._boots = count(1)
        #: Each direction that is cut, with an object of its own for each cut; and the messages that
        #: wait for it to heal.
        self._cuts: dict[tuple[str, str], object] = {}
        self._held: dict[tuple[str, str], list[Callable[[], None]]] = {}
        #: Everything under way, by client and bookie. Dicts, because sets have no order.
        self._live: dict[tuple[str, BookieId], dict[Live, None]] = {}

    def link(
        self,
        client: str,
        bookie_id: BookieId,
        settings: LinkSettings | None = None,
        *,
        tasks: asyncio.TaskGroup | None = None,
    ) -> StreamLink:
        """Give a client's only link to a bookie, which may be up or down.

        ``tasks`` is the client's own group; without one the link lives as long as the network.
        """
        settings = settings or LinkSettings()
        transport = _TwinTransport(self, client, bookie_id, settings.speaks)
        return StreamLink(
            bookie_id, transport, tasks=tasks or self.tasks, chance=self._chance, settings=settings
        )

    def put_up(
        self, bookie_id: BookieId, host: Host, *, tasks: asyncio.TaskGroup | None = None
    ) -> None:
        """Start a bookie. It serves in ``tasks`` and in the caller's context."""
        assert bookie_id not in self._hosts
        self._hosts[bookie_id] = _Up(next(self._boots), host, tasks or self.tasks, copy_context())

    def take_down(self, bookie_id: BookieId, *, half_open: bool = False) -> None:
        """Stop a bookie, as in a crash: nothing in it goes on.

        With ``half_open`` its clients do not hear of it before keep-alive gives up.
        """
        del self._hosts[bookie_id]
        for client, bookie in list(self._live):
            if bookie == bookie_id:
                if half_open:
                    self._leave_half_open(client, bookie_id)
                else:
                    self.disconnect(client, bookie_id)

    def disconnect(self, client: str, bookie_id: BookieId) -> None:
        """Break the connections between a client and a bookie; new ones may be made."""
        self._snap(client, bookie_id, errors.ConnectionLost("the connection was reset"))

    def cut(self, source: str, target: str) -> None:
        """Stop all arrivals in one direction."""
        cut = self._cuts[source, target] = object()
        self._keep_alive(source, target, cut)

    def heal(self, source: str, target: str) -> None:
        """Let messages arrive again; those that were held back arrive now, in order."""
        self._cuts.pop((source, target), None)
        for arrive in self._held.pop((source, target), ()):
            arrive()

    def boot(self, bookie_id: BookieId) -> int | None:
        """Give the present boot of a bookie; None if it is down."""
        there = self._hosts.get(bookie_id)
        return None if there is None else there.boot

    def serve(
        self,
        bookie_id: BookieId,
        boot: int | None,
        serving: Callable[[Host], Coroutine[None, None, None]],
    ) -> "asyncio.Task[None]":
        """Run something at a bookie, if it is up and still in this boot."""
        there = self._hosts.get(bookie_id)
        if there is None or there.boot != boot:
            raise errors.ConnectionLost(f"no bookie listens at {bookie_id}")
        work = serving(there.host)
        try:
            return there.tasks.create_task(work, context=there.context.copy())
        except RuntimeError as ending:  # its group takes no task any more: it is stopping
            work.close()
            raise errors.ConnectionLost(f"{bookie_id} is on its way down") from ending

    def chances(self, probability: float) -> bool:
        """Decide by chance; no chance is drawn for probability 0."""
        return probability > 0 and self._chance.random() < probability

    def breaks(self, live: Live) -> bool:
        """Decide by chance whether a message of a stream breaks its whole connection."""
        if not self.chances(self.weather.disconnect):
            return False
        self.disconnect(live.client, live.bookie_id)
        return True

    def arrival(self, source: str, target: str) -> float:
        """Give the time at which a message that is sent now arrives."""
        low, high = self.weather.delay_min_ms, self.weather.delay_max_ms
        delay_ms = low + (high - low) * self._chance.random() * self._pace(source, target)
        if self.slow_ms:
            delay_ms += self.slow_ms.get(source, 0) + self.slow_ms.get(target, 0)
        return self._timing.time() + delay_ms / 1_000

    def _pace(self, source: str, target: str) -> float:
        if not self.weather.uneven:
            return 1
        pace = self._paces.get((source, target))
        if pace is None:
            pace = self._paces[source, target] = self._chance.random() ** 4
        return pace

    def pass_on(self, source: str, target: str, when: float, arrive: Callable[[], None]) -> None:
        """Call ``arrive`` at that time, or once the direction is healed."""
        self._timing.call_at(when, lambda: self._arrive(source, target, arrive))

    def join(self, live: Live) -> None:
        """Note that this is under way."""
        self._live.setdefault((live.client, live.bookie_id), {})[live] = None

    def leave(self, live: Live) -> None:
        """Note that this has ended."""
        pair = (live.client, live.bookie_id)
        self._live.get(pair, {}).pop(live, None)
        if not self._live.get(pair):
            self._live.pop(pair, None)

    def _arrive(self, source: str, target: str, arrive: Callable[[], None]) -> None:
        if (source, target) in self._cuts:
            self._held.setdefault((source, target), []).append(arrive)
        else:
            arrive()

    def _keep_alive(self, source: str, target: str, cut: object) -> None:
        when = self._timing.time() + self.weather.keep_alive_ms / 1_000
        self._timing.call_at(when, lambda: self._give_up(source, target, cut))

    def _give_up(self, source: str, target: str, cut: object) -> None:
        if self._cuts.get((source, target)) is not cut:
            return
        for client, bookie in list(self._live):
            if (client, bookie) in ((source, target), (target, source)):
                self._snap(client, bookie, errors.ConnectionLost("keep-alive had no answer"))
        self._held.pop((source, target), None)
        self._keep_alive(source, target, cut)  # for connections that are tried during the cut

    def _leave_half_open(self, client: str, bookie_id: BookieId) -> None:
        left = list(self._live.get((client, bookie_id), ()))
        for live in left:
            live.lose_peer()

        def give_up() -> None:
            for live in left:
                live.snap(errors.ConnectionLost("keep-alive had no answer"))

        when = self._timing.time() + self.weather.keep_alive_ms / 1_000
        self._timing.call_at(when, give_up)

    def _snap(self, client: str, bookie_id: BookieId, error: errors.ProtocolError) -> None:
        for live in list(self._live.get((client, bookie_id), ())):
            live.snap(error)


class _Line(Generic[ItemT]):
    """One stream or subscription: the code at the bookie, and the two ways between."""

    def __init__(
        self,
        network: Network,
        client: str,
        bookie_id: BookieId,
        serve: Callable[[Host, "_Line[ItemT]"], Awaitable[None]],
    ) -> None:
        self.network = network
        self.client = client
        self.bookie_id = bookie_id
        self.there: Way[bytes] = Way(network, self, client, bookie_id)
        self.back: Way[ItemT] = Way(network, self, bookie_id, client)
        self._serve = serve
        self._boot = network.boot(bookie_id)
        self._server: asyncio.Task[None] | None = None
        self._snapped = False
        self._peerless = False
        #: What the bookie said of its versions.
        self.answered_by: WireVersions | None = None
        network.join(self)
        network.pass_on(client, bookie_id, network.arrival(client, bookie_id), self._start)

    def snap(self, error: errors.ProtocolError) -> None:
        """Break it for both ends."""
        self._snapped = True
        self.there.snap(error)
        self.back.snap(error)
        if self._server is not None:
            self._server.cancel()
        self.network.leave(self)

    def lose_peer(self) -> None:
        """Let the bookie's end be gone, and the client's end not know it."""
        self._peerless = True
        self.back.mute()
        if self._server is not None:
            self._server.cancel()

    def _start(self) -> None:
        if self._snapped or self._peerless:
            return
        try:
            self._server = self.network.serve(self.bookie_id, self._boot, self._run)
        except errors.ConnectionLost as error:
            self.back.finish(error)

    async def _run(self, host: Host) -> None:
        self.answered_by = host.speaks
        try:
            await self._serve(host, self)
            self.back.finish(None)
        except errors.ProtocolError as error:
            self.back.finish(error)


class _Exchange(Generic[R]):
    """One call under way."""

    def __init__(
        self,
        network: Network,
        client: str,
        bookie_id: BookieId,
        serve: Callable[[Host], Awaitable[R]],
        timeout_s: float,
    ) -> None:
        self.client = client
        self.bookie_id = bookie_id
        self._network = network
        self._serve = serve
        self._timeout_s = timeout_s
        self._reply: asyncio.Future[R | errors.ProtocolError] = (
            asyncio.get_running_loop().create_future()
        )
        self._waiting = True
        self._servers: dict[asyncio.Task[None], None] = {}
        self._snapped = False
        self._peerless = False

    async def reply(self) -> R:
        """Send the request, and wait for the reply."""
        weather = self._network.weather
        self._network.join(self)
        self._send()
        if self._network.chances(weather.call_repeat):
            self._send()
        try:
            async with asyncio.timeout(self._timeout_s):
                reply = await self._reply
        except TimeoutError as late:
            raise errors.Timeout(f"{self.bookie_id}: no reply in {self._timeout_s:g} s") from late
        finally:
            self._waiting = False
            self._leave_if_over()
        if isinstance(reply, errors.ProtocolError):
            raise reply
        return reply

    def snap(self, error: errors.ProtocolError) -> None:
        """Break it for both ends."""
        self._snapped = True
        self._answer(error)
        for server in self._servers:
            server.cancel()
        self._network.leave(self)

    def lose_peer(self) -> None:
        """Let the bookie's end be gone, and the caller not know it."""
        self._peerless = True
        for server in self._servers:
            server.cancel()

    def _send(self) -> None:
        network = self._network
        if not network.chances(network.weather.call_loss):
            boot = network.boot(self.bookie_id)
            when = network.arrival(self.client, self.bookie_id)
            network.pass_on(self.client, self.bookie_id, when, lambda: self._arrive(boot))

    def _arrive(self, boot: int | None) -> None:
        if self._snapped or self._peerless:
            return
        try:
            server = self._network.serve(self.bookie_id, boot, self._run)
        except errors.ConnectionLost as error:
            self._reply_with(error)
        else:
            self._servers[server] = None
            server.add_done_callback(self._served)

    def _served(self, server: asyncio.Task[None]) -> None:
        del self._servers[server]
        self._leave_if_over()

    def _leave_if_over(self) -> None:
        if not self._waiting and not self._servers:
            self._network.leave(self)

    async def _run(self, host: Host) -> None:
        """Serve the call; like gRPC, the bookie ends it after the caller's timeout."""
        result: R | errors.ProtocolError
        try:
            async with asyncio.timeout(self._timeout_s):
                result = await self._serve(host)
        except errors.ProtocolError as error:
            result = error
        except TimeoutError:
            return
        self._reply_with(result)

    def _reply_with(self, result: R | errors.ProtocolError) -> None:
        if self._peerless:
            return
        network = self._network
        if not network.chances(network.weather.call_loss):
            when = network.arrival(self.bookie_id, self.client)
            network.pass_on(self.bookie_id, self.client, when, lambda: self._answer(result))

    def _answer(self, result: R | errors.ProtocolError) -> None:
        if not self._reply.done():
            self._reply.set_result(result)


class _TwinTransport:
    """A ``transports.Transport``."""

    def __init__(
        self, network: Network, client: str, bookie_id: BookieId, speaks: WireVersions | None
    ) -> None:
        self._network = network
        self._client = client
        self._bookie_id = bookie_id
        self._speaks = speaks
        self.place = f"the network to {bookie_id}"
        self._closed = False

    def stream(self, kind: StreamKind) -> "_ClientPipe":
        async def serve(host: Host, line: _Line[bytes]) -> None:
            pipe, version = _ServerPipe(line), host.meet(self._speaks, self._bookie_id)
            if kind is StreamKind.APPEND:
                await host.serve_appends(pipe, version)
            else:
                await host.serve_reads(pipe, version)

        return _ClientPipe(_Line(self._network, self._client, self._bookie_id, serve))

    async def call(self, method: Call[Q, R], request: Q, timeout_ms: int) -> R:
        def serve(host: Host) -> Awaitable[R]:
            host.meet(self._speaks, self._bookie_id)
            return method.serve(host, request)

        self._check_open()
        return await _Exchange(
            self._network, self._client, self._bookie_id, serve, timeout_ms / 1_000
        ).reply()

    async def subscribe(self, method: Subscription[Q, R], request: Q) -> AsyncGenerator[R, None]:
        async def serve(host: Host, line: _Line[R]) -> None:
            host.meet(self._speaks, self._bookie_id)
            async with aclosing(method.serve(host, request, host.nobody())) as answers:
                async for answer in answers:
                    await line.back.send(answer)

        self._check_open()
        line = _Line(self._network, self._client, self._bookie_id, serve)
        try:
            while (answer := await line.back.receive()) is not None:
                yield answer
        finally:
            line.snap(errors.ConnectionLost("the client has enough"))

    async def close(self) -> None:
        self._closed = True
        self._network.disconnect(self._client, self._bookie_id)

    def _check_open(self) -> None:
        if self._closed:
            raise errors.NotConnected("the link was closed")


class _ClientPipe(NotFlat):
    """A ``pipes.ClientPipe``."""

    def __init__(self, line: _Line[bytes]) -> None:
        self._line = line
        self.send = line.there.send
        self.receive = line.back.receive

    async def answered_by(self) -> WireVersions | None:
        return self._line.answered_by

    def cancel(self) -> None:
        self._line.snap(errors.ConnectionLost("the client has ended the stream"))


class _ServerPipe:
    """The bookie's end of a stream."""

    def __init__(self, line: _Line[bytes]) -> None:
        self.send = line.back.send
        self.receive = line.there.receive
