"""A client of one cluster: create, open, delete and list ledgers.

``connect`` is for applications: it opens the store at an address, and reaches bookies by the wire.
``on`` gives the same client over any store and any links.
"""

import asyncio
import dataclasses
import hmac
import logging
import random
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import NoneType
from typing import Literal, TypeVar

from zonekeeper.client.api.making import Making
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.api.wishes import LedgerWish
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import arguments, boundary, errors, forks, time_limits
from zonekeeper.client.base.beside_store import completed
from zonekeeper.client.base.config import ClientConfig, own_way, own_zone
from zonekeeper.client.base.counters import ClientCounters
from zonekeeper.client.base.tasks import Tasks
from zonekeeper.client.bookies import wire_links
from zonekeeper.client.bookies.bookies import Bookies
from zonekeeper.client.bookies.link_pool import LinkFactory, LinkPool
from zonekeeper.client.bookies.wire_links import WireLinks
from zonekeeper.client.sessions.creations import Creations
from zonekeeper.client.sessions.identity import Identity
from zonekeeper.client.sessions.owner import Owner
from zonekeeper.client.sessions.presence import WriterPresence
from zonekeeper.client.sessions.read_session import Reading
from zonekeeper.client.sessions.recovery import Recovery
from zonekeeper.client.sessions.write_session import WriteSession
from zonekeeper.client.writing.writer_core import WriterCore
from zonekeeper.client.writing.writer_start import WriterLimits, WriterStart
from zonekeeper.metadata.cluster.cluster import (
    Cluster,
    ForeignRootError,
    NotAClusterError,
    open_cluster,
)
from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import OWNER_KEY, Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers import ledger_listing, ledgers, presences
from zonekeeper.metadata.ledgers.deletions import Deleter
from zonekeeper.metadata.store.errors import NoStoreError
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import digests, entries

_logger = logging.getLogger(__name__)
Result = TypeVar("Result")
LinkMaker = Callable[[asyncio.TaskGroup], LinkFactory]


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """The sources of a client's chance and wall time."""

    chance: Chance
    #: Only stored for people to read; nothing is decided by it.
    wall_ms: Callable[[], int]


def _real() -> Surroundings:
    return Surroundings(random.SystemRandom(), lambda: time.time_ns() // 1_000_000)


@asynccontextmanager
async def connect(uri: str, config: ClientConfig | None = None) -> AsyncIterator["Client"]:
    """Give a client of the cluster at a metadata address, until the block ends."""
    arguments.check_address(uri)
    forks.check_connecting()
    config = config or ClientConfig()
    with boundary.translated("opening the cluster"):
        try:
            store = await open_store(uri, config.store, must_exist=True)
        except NoStoreError as error:
            raise errors.ClusterNotReady(str(error)) from error
    try:
        config = completed(config, uri)
        try:
            with boundary.translated("opening the cluster"):
                cluster = await open_cluster(store)
        except (NotAClusterError, ForeignRootError) as error:
            raise errors.ClusterNotReady(str(error)) from error
        async with over_wire(cluster, config) as client:
            yield client
    finally:
        await store.close()


@asynccontextmanager
async def over_wire(cluster: Cluster, config: ClientConfig) -> AsyncIterator["Client"]:
    """Give a client over a cluster that is open already; ``config.store`` is not used."""
    forks.connecting()
    surroundings, counters = _real(), ClientCounters()
    links = partial(
        WireLinks,
        cluster,
        way=own_way(config),
        encryption=wire_links.secrets(config.tls),
        settings=config.links,
        counters=counters,
        chance=surroundings.chance,
    )
    async with on(cluster, links, config, surroundings, counters) as client:
        yield client


@asynccontextmanager
async def on(
    cluster: Cluster,
    links: LinkMaker,
    config: ClientConfig | None = None,
    surroundings: Surroundings | None = None,
    counters: ClientCounters | None = None,
) -> AsyncIterator["Client"]:
    """Give a client over a cluster that is open already, and over links of any kind.

    ``links`` is given the task group of the links' own tasks. Links that count use ``counters``.
    """
    config, failure = config or ClientConfig(), None
    around, counters = surroundings or _real(), counters or ClientCounters()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = Tasks(group)
            client = Client(cluster, links(group), config, around, tasks, counters)
            tasks.start(client.bookies.follow())
            try:
                await client.bookies.known(config.start_timeout_ms)
                yield client
            except Exception as error:  # noqa: BLE001 the group would wrap it in an ExceptionGroup
                failure = error
            finally:
                await client.close()
            _end()
    except* _OverError:
        pass
    if failure is not None:
        raise failure


async def _within(
    timeout: float | None,
    work: Callable[[], Coroutine[None, None, Result]],
    over: Callable[[], errors.WaitTimedOut],
) -> Result:
    """Begin and do the work, or cancel it when the time is over, and raise what ``over`` gives."""
    return await time_limits.of(timeout).hold(work(), over)


class _OverError(Exception):
    """Ends the tasks that still run in a client's group, such as those of a half-read stream."""


def _end() -> None:
    raise _OverError


class Client:
    """Creates, opens, deletes and lists a cluster's ledgers. Made by ``connect`` or ``on``."""

    def __init__(
        self,
        cluster: Cluster,
        links: LinkFactory,
        config: ClientConfig,
        surroundings: Surroundings,
        tasks: Tasks,
        counters: ClientCounters,
    ) -> None:
        self.cluster = cluster
        self.config = config
        self.counters = counters
        self.bookies = Bookies(
            cluster,
            LinkPool(links, self.counters),
            own_zone=own_zone(config),
            chance=surroundings.chance,
            counters=self.counters,
        )
        self._surroundings = surroundings
        self._tasks = tasks
        self._presence = WriterPresence(cluster, surroundings.chance, tasks)
        #: A writer that the application drops goes; its session goes on to the client's end.
        self._writers: dict[LedgerId, tuple[weakref.ref[Writer], WriteSession]] = {}
        self._creations = Creations(cluster, tasks, surroundings.wall_ms)

    def __repr__(self) -> str:
        state = "open"
        if self._tasks.over or self._tasks.failed:
            state = "ended by a fault" if self._tasks.failed else "closed"
        return f"<Client of {self.cluster}: {state}, {len(self._writers)} writers>"

    def create(  # noqa: PLR0913 each is a wish of its own, and has a name
        self,
        *,
        password: bytes | None = None,
        quorums: Quorums | None = None,
        digest: Digest | None = None,
        custom: Mapping[str, bytes] | None = None,
        ledger_id: int | None = None,
        deferred_sync: bool = False,
        owner: str | Literal[True] | None = None,
        timeout: float | None = None,
    ) -> Making[Writer]:
        """Create a ledger, and give its writer; quorums and digest are the policy's by default.

        The password is the configuration's by default. Await it, or enter it with ``async
        with``, whose end closes the ledger. A creation that is cancelled leaves no ledger behind
        (``creations``). ``custom`` is stored in the ledger's metadata, for anyone to read. With
        ``deferred_sync`` entries are durable only once the writer has forced them. ``owner`` is the
        principal that the ledger belongs to (``client/ingest``; True for the one that the client's
        certificate names), for good: bookies hold other clients to it. An owned ledger with a
        password has the digest HMAC by default. Raises ``WaitTimedOut`` after ``timeout`` seconds;
        the creation is then given up.
        """
        arguments.check_timeout(timeout)
        wanted = LedgerWish(
            self._password(password), quorums, digest, custom, ledger_id, deferred_sync, owner
        )

        def over() -> errors.WaitTimedOut:
            return errors.WaitTimedOut(
                "the metadata store has not created the ledger in time, and the creation was given "
                "up: no ledger stays, or a line of the log names it; create another one"
            )

        return Making(_within(timeout, partial(self._create, wanted), over))

    async def _create(self, wanted: LedgerWish) -> Writer:
        self._check_open()
        number = wanted.checked()
        owner = wanted.owner_in(self.cluster.instance, self.config.tls)
        policy = self.bookies.policy
        quorums = wanted.quorums or policy.quorums
        digest = wanted.digest or wanted.own_digest or policy.digest
        stamp = placement_stamp.render(quorums, policy.placement, policy.version)
        with boundary.translated("creating a ledger"):
            ours = {
                placement_stamp.KEY: stamp,
                presences.KEY: (await self._presence.name()).encode(),
            }
            if owner is not None:
                ours[OWNER_KEY] = owner.encode()
            ensemble = self.bookies.choose(quorums)
            ledger = LedgerMetadata(
                ensemble_size=quorums.ensemble,
                write_quorum=quorums.write,
                ack_quorum=quorums.ack,
                fragments=(Fragment(EntryId(0), ensemble),),
                digest=digest,
                password=wanted.password,
                created_ms=self._surroundings.wall_ms(),
                custom=tuple(sorted({**(wanted.custom or {}), **ours}.items())),
                create_token=self._token(),
            )
            stored = await self._creations.create(ledger, number)
        if self._tasks.over:
            raise errors.ClientClosed(
                f"ledger {stored.id} was created, and the client closed meanwhile: connect again, "
                "and delete or recover it",
                maybe_applied=True,
            )
        return self._writer(stored.id, ledger, quorums, deferred_sync=wanted.deferred_sync)

    def open(
        self,
        ledger_id: int,
        *,
        password: bytes | None = None,
        recover: bool | None = None,
        timeout: float | None = None,
    ) -> Making[Reader]:
        """Open a ledger for reading. Await it, or enter it with ``async with``.

        A closed ledger is opened without ``recover``. For a ledger that is not closed the caller
        says which way, else ``LedgerOpen`` is raised and nothing is done. With ``recover=True`` the
        ledger is closed when this returns. Its writer, if there is one, is fenced and gets no
        further acknowledgement. With ``recover=False`` the writer is not disturbed, and the reader
        sees the entries up to the LAC that the writer has told. Raises ``WaitTimedOut`` after
        ``timeout`` seconds.
        """
        arguments.check_timeout(timeout)

        def over() -> errors.WaitTimedOut:
            fenced = "its writer may be fenced, and it may be closed or not; " if recover else ""
            return errors.WaitTimedOut(
                f"ledger {ledger_id} was not opened in time; {fenced}open it again",
                maybe_applied=recover is True,
            )

        work = partial(self._open, ledger_id, self._password(password), recover)
        return Making(_within(timeout, work, over))

    async def _open(self, ledger_id: int, password: bytes, recover: bool | None) -> Reader:
        self._check_open()
        wanted = arguments.ledger_id(ledger_id)
        arguments.check_password(password)
        arguments.check_kind("recover", recover, bool, NoneType)
        self.bookies.check()
        ledger = await self._metadata(wanted)
        if not hmac.compare_digest(password, ledger.password):
            raise errors.Unauthorized(f"ledger {wanted} has another password; nothing was done")
        if not ledger.is_closed and recover is None:
            raise errors.LedgerOpen(wanted, ledger.state.value)
        reading = self.reading(wanted, ledger)
        if recover and not ledger.is_closed:
            recovery = Recovery(wanted, reading, self.bookies, self._tasks, self._limits())
            ledger = await recovery.run()
        reader = Reader(wanted, ledger, reading, self._tasks)
        if not ledger.is_closed:
            await reader.read_last_confirmed()
        return reader

    def _password(self, given: bytes | None) -> bytes:
        return self.config.password if given is None else given

    def reading(self, ledger_id: LedgerId, ledger: LedgerMetadata) -> Reading:
        """Give the way to ask bookies for a ledger's entries; no password is checked."""
        return Reading(
            entries.Sealer(ledger_id, ledger.digest, ledger.password),
            placement_stamp.quorums_of(ledger),
            self.bookies,
            self._tasks,
            key=digests.master_key(ledger.password),
            bytes_max=self.config.read_bytes,
            create_token=ledger.create_token,
        )

    async def delete(
        self, ledger_id: int, *, by: str = "client", timeout: float | None = None
    ) -> None:
        """Delete a ledger; if it does not exist any more, that is no error.

        ``by`` is the kind of program that deletes; the cluster's record of the deletion names it.
        Raises ``WaitTimedOut`` after ``timeout`` seconds.
        """
        await time_limits.of(timeout).hold(
            self._delete(ledger_id, by),
            lambda: errors.WaitTimedOut(
                f"the metadata store has not answered; ledger {ledger_id} may be deleted or not: "
                "delete it again",
                maybe_applied=True,
            ),
        )

    async def _delete(self, ledger_id: int, by: str) -> None:
        self._check_open()
        wanted = arguments.ledger_id(ledger_id)
        with boundary.translated(f"deleting ledger {wanted}"):
            await ledgers.delete(
                self.cluster, wanted, Deleter(by=by, at_ms=self._surroundings.wall_ms())
            )

    async def metadata(self, ledger_id: int, *, timeout: float | None = None) -> LedgerMetadata:
        """Give a ledger's metadata, no older than this call.

        Raises ``WaitTimedOut`` after ``timeout`` seconds.
        """
        return await time_limits.of(timeout).hold(
            self._metadata(ledger_id),
            lambda: errors.WaitTimedOut(
                f"the metadata store has not given the metadata of ledger {ledger_id}: call again"
            ),
        )

    async def _metadata(self, ledger_id: int) -> LedgerMetadata:
        self._check_open()
        wanted = arguments.ledger_id(ledger_id)
        with boundary.translated(f"reading the metadata of ledger {wanted}"):
            stored = await ledgers.read(self.cluster, wanted, sync=True)
        if stored is None:
            raise errors.NoSuchLedger(f"there is no ledger {wanted} in {self.cluster}")
        return stored.metadata

    async def ledgers(self) -> AsyncGenerator[LedgerId, None]:
        """List all ledgers in the order of their ids."""
        self._check_open()
        with boundary.translated("listing ledgers"):
            async for ledger_id in ledger_listing.ids(self.cluster):
                yield ledger_id

    async def close(self) -> None:
        """Stop all writers without closing their ledgers, and give up all connections."""
        if self._tasks.home.forked:
            return  # all of it is the parent's
        self._tasks.end()
        for ledger_id, (reference, session) in list(self._writers.items()):
            if lacking := session.lacking:
                _logger.warning(
                    "ledger %d: the client ends, and entries %d to %d were appended and not "
                    "acknowledged: they may be lost; flush or close the writer before",
                    ledger_id,
                    lacking[0],
                    lacking[-1],
                )
            if (writer := reference()) is not None:
                writer.halt()
            else:
                session.end(errors.WriterClosed(f"ledger {ledger_id}: its client has ended"))
        await self._creations.settled()
        await self.bookies.pool.close()

    async def flush_within(self, most_s: float) -> dict[LedgerId, range]:
        """Wait, at most so long, for all that was appended; give what is not acknowledged then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                for _, session in list(self._writers.values()):
                    with suppress(errors.ClientError):
                        await session.written(session.last_appended)
        writers = self._writers.items()
        return {each: session.lacking for each, (_, session) in writers if session.lacking}

    def _check_open(self) -> None:
        self._tasks.home.check()
        if self._tasks.over:
            raise self._tasks.closed()

    def _writer(
        self, ledger_id: LedgerId, ledger: LedgerMetadata, quorums: Quorums, *, deferred_sync: bool
    ) -> Writer:
        sealer = entries.Sealer(ledger_id, ledger.digest, ledger.password)
        ensemble = ledger.last_fragment.ensemble
        start = WriterStart(
            fragment_first=ledger.last_fragment.first_entry,
            ensemble=ensemble,
            zones=self.bookies.zones(ensemble),
            deferred=deferred_sync,
        )
        identity = Identity(
            ledger_id=ledger_id,
            master_key=digests.master_key(ledger.password),
            quorums=quorums,
            digest=ledger.digest,
            create_token=ledger.create_token,
        )
        owner = Owner(self.bookies, ledger_id, quorums, ledger)
        core = WriterCore(sealer, quorums, start, self._limits())
        session = WriteSession(identity, core, sealer, owner, self.bookies, self._tasks)
        writer = Writer(
            ledger_id,
            session,
            owner,
            budget_bytes=self.config.writer_budget_bytes,
            quiet_ms=self.config.quiet_ms,
            on_end=partial(self._ended, ledger_id, session),
        )
        if (former := self._writers.get(ledger_id)) is not None:
            # Its ledger was deleted. Bookies do not tell two writers of one connection apart.
            former[1].deleted()
        self._writers[ledger_id] = weakref.ref(writer), session
        return writer

    def _ended(self, ledger_id: LedgerId, session: WriteSession) -> None:
        known = self._writers.get(ledger_id)
        if known is not None and known[1] is session:
            del self._writers[ledger_id]

    def _limits(self) -> WriterLimits:
        return WriterLimits(
            budget_bytes=self.config.writer_budget_bytes,
            add_timeout_ms=self.config.add_timeout_ms,
        )

    def _token(self) -> int:
        """Draw a create token: positive, of 62 bits."""
        high, low = (int(self._surroundings.chance.random() * (1 << 31)) for _ in range(2))
        return (high << 31 | low) or 1
