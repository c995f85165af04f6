"""A bookie registers: in one ephemeral node, never in two, and never in none while it changes.

``available/<bookie>`` or ``available/readonly/<bookie>`` has the bookie's service info, and exists
as long as the bookie's session. A change of sides is one transaction, so the bookie is never
missing for others. A lost session removes the node; the bookie then calls ``register`` again, in
the new session.

The service info has the room of the bookie, which changes. ``tell_room`` puts the new one into the
node that stands, and each later registration has it. So a room is never older than the session.
``tell_room`` creates no node and changes no side. Only ``register`` does, and before each of these
it does what its caller wants first: to look whether the metadata was set back.

A registration is refused where it would do harm:

* Another session has registered a bookie with this name. The boot epoch tells the cases apart. A
  registration of an earlier start, or of our own start before a lost session, has no owner any
  more, because only a process that holds the bookie's own disk, or a copy of it, can count a
  start. It is replaced at once. A registration of a later start is the present bookie, and this
  process must end. If there is no boot epoch, this process waits as long as a session can last.
* A later start of this bookie was counted, and is not registered. It may have come and gone while
  this process had no session, and what it acknowledged is only on its own disk. This process lacks
  that, and would deny it. So it must end. Each write passes only while no later start is counted.
* A bookie is registered that does not speak our protocol. The root then belongs to a Java cluster,
  whose clients would choose our bookies and fail.
"""

import asyncio
import enum
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final

from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.formats.malformed import UnreadableError, stored_at
from zonekeeper.metadata.formats.service_info import PublishedRoom, ReadOnlyReason, ServiceInfo
from zonekeeper.metadata.store import layout
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.errors import (
    NodeExistsError,
    NoNodeError,
    SessionLostError,
    StoreError,
    VersionConflictError,
)
from zonekeeper.metadata.store.store import Create, Delete, Put, SessionId, Versioned, Write
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.troubles import Refusal, Trouble

READS_IN_FLIGHT_MAX: Final = 32
FOREIGN_NAMED_MAX: Final = 5
#: A session that ends during a write costs one attempt; this many are no coincidence.
_ATTEMPTS_MAX: Final = 10


class Mode(enum.Enum):
    """The services that a bookie offers: writing and reading, or only reading."""

    WRITABLE = "writable"
    READ_ONLY = "read-only"


class ForeignBookiesError(Refusal):
    """Bookies that do not speak our protocol are registered in this root."""


class NameTakenError(Trouble):
    """Another living process is registered under this bookie's name."""

    retryable = True


async def read_service_info(cluster: Cluster, bookie: BookieId) -> ServiceInfo | None:
    """Give the service info of a registered bookie; None if it is not registered.

    The bookie may change to writable between the reads of the two sides. So the first side is read
    once more.
    """
    writable, read_only = cluster.root.writable(bookie), cluster.root.read_only(bookie)
    for path in (writable, read_only, writable):
        if (node := await cluster.store.get(path)) is not None:
            with stored_at(path, cluster.store.name):
                return service_info.parse(node.value)
    return None


async def refuse_foreign(cluster: Cluster) -> None:
    """Raise ``ForeignBookiesError`` if a bookie is registered that is not ours."""
    store, root = cluster.store, cluster.root
    paths = []
    for parent in map(root.below, layout.SIDES):
        names = await store.children(parent, sync=True)
        paths += [f"{parent}/{name}" for name in names or () if name != "readonly"]
    foreign: list[str] = []
    gate = asyncio.Semaphore(READS_IN_FLIGHT_MAX)

    async def look(path: str) -> None:
        async with gate:
            node = await store.get(path)
        if node is not None and not _is_ours(node.value):
            foreign.append(path)

    await together(look(path) for path in paths)
    if foreign:
        named = ", ".join(sorted(foreign)[:FOREIGN_NAMED_MAX])
        raise ForeignBookiesError(
            f"{cluster} has {len(foreign)} registered bookies without the endpoint "
            f"{service_info.BOOKIE} of protocol {service_info.GRPC} ({named}): it belongs to "
            "another bookkeeping cluster; choose another root"
        )


def _is_ours(raw: bytes) -> bool:
    try:
        return service_info.parse(raw).bookie is not None
    except UnreadableError:
        return False


async def _nothing() -> None:
    """Stand where nothing is to be done before a registration."""


class Registrar:
    """Keeps one bookie registered; its calls wait for one another, and each may be repeated."""

    def __init__(
        self, cluster: Cluster, bookie: BookieId, info: ServiceInfo, *, session_timeout_ms: int
    ) -> None:
        self._cluster = cluster
        self._bookie = bookie
        self._info = info
        self._boot_epoch = info.boot_epoch
        self._patience_ms = session_timeout_ms * 3 // 2
        self._mode: Mode | None = None
        self._turn = asyncio.Lock()

    async def register(
        self, mode: Mode, *, first: Callable[[], Awaitable[None]] = _nothing
    ) -> None:
        """Register, or change sides; return when the store has the registration.

        The caller calls it again after a retryable error, and in each new session. ``first`` is
        awaited before each transaction that registers or changes sides. The transaction is
        refused if the session ends after that.
        """
        if self._mode is None:
            await refuse_foreign(self._cluster)
        self._mode = mode
        await self._settle(first)

    async def tell_room(self, room: PublishedRoom | None) -> None:
        """Have the room in the registration that stands; return when the store has it.

        If there is none in this session, the next registration has the room. So it has after an
        error; the caller calls again after a retryable error. A registration of another session,
        which may be another start of this bookie, is left alone.
        """
        self._info = self._info.with_room(room)
        if self._mode is not None:
            await self._carry_out(self._plan_value)

    def say_read_only(self, reasons: Sequence[ReadOnlyReason]) -> None:
        """Have these reasons in each registration from the next call of ``register`` on."""
        self._info = self._info.with_read_only(reasons)

    async def taken_away(self, mode: Mode) -> AsyncGenerator[None, None]:
        """Yield whenever the registration on a side may not be what was wanted any more.

        A later start has replaced it, a person has removed it, or the bookie itself has changed
        sides: ``register`` finds out which, and makes it good or raises.
        """
        root = self._cluster.root
        of_side = root.writable if mode is Mode.WRITABLE else root.read_only
        async with self._cluster.store.watch(of_side(self._bookie)) as states:
            async for node in states:
                is_ours = node is not None and node.owner == self._cluster.store.session.id
                if is_ours is not (mode is self._mode):
                    yield

    async def leave(self) -> None:
        """Remove the registration, as a bookie does in an orderly stop."""
        self._mode = None
        await self._settle()

    async def _guarded(self, writes: list[Write], *, refuse: bool) -> list[Write]:
        """Let the writes pass only while no later start of the bookie is counted.

        A version does not tell two nodes apart: that of a later start may be at the version of
        ours. It is counted before it registers. So the writes pass only while the record that
        counts the starts stays as it is read here. If a later start was counted there are no
        writes, or (``refuse``) this raises.
        """
        if self._boot_epoch is None or not writes:
            return writes
        try:
            record = await bookie_records.read_checked(self._cluster, self._bookie)
        except UnreadableError:
            return writes  # it is unknown whether there was one
        if record is None:
            return writes
        counted = record.value.boot_epoch
        if counted <= self._boot_epoch:
            return [record.check, *writes]
        if refuse:
            raise self._superseded(f"{self._cluster.store.name} has counted", counted, "ran")
        return []

    async def _settle(self, first: Callable[[], Awaitable[None]] = _nothing) -> None:
        """Make the store have the wanted registration, whatever it has now."""

        async def plan(session: SessionId) -> list[Write]:
            writes = await self._plan(session, self._mode)
            if writes and self._mode is not None:
                await first()
            return await self._guarded(writes, refuse=self._mode is not None)

        await self._carry_out(plan)

    async def _carry_out(self, plan: Callable[[SessionId], Awaitable[list[Write]]]) -> None:
        """Write what is planned by the store's state, until nothing is left to write.

        ``plan`` reads the store, and gives the writes for a session. They are refused in another.
        """
        async with self._turn:
            for attempts_left in reversed(range(_ATTEMPTS_MAX)):
                session = self._cluster.store.session.id
                if session is None:
                    raise SessionLostError("has no session now", store=self._cluster.store.name)
                writes = await plan(session)
                if not writes:
                    return
                try:
                    await self._cluster.store.commit(writes, session=session)
                except StoreError as error:
                    # A node came or went, or the answer was lost: read again.
                    look_again = error.maybe_applied or isinstance(
                        error, NodeExistsError | NoNodeError | VersionConflictError
                    )
                    if not look_again or attempts_left == 0:
                        raise
                else:
                    return

    async def _plan(self, session: SessionId, wanted: Mode | None) -> list[Write]:
        """Give the writes that bring the store to the wanted registration.

        The wanted mode may change during the reads here; so it is a parameter. A plan for parts of
        two modes would show the bookie on both sides, or on none.
        """
        root, value = self._cluster.root, service_info.render(self._info)
        former: list[Write] = []
        writes: list[Write] = []
        for mode, path in (
            (Mode.WRITABLE, root.writable(self._bookie)),
            (Mode.READ_ONLY, root.read_only(self._bookie)),
        ):
            node = await self._cluster.store.get(path, sync=True)
            if node is not None and node.owner != session:
                if wanted is None:
                    continue  # another session's node is not ours to remove
                if self._is_former(node, path):
                    former.append(Delete(path=path, version=node.version))
                    node = None
                else:
                    node = await self._waited_out(path, session)
            if mode is not wanted:
                if node is not None:
                    writes.append(Delete(path=path, version=node.version))
            elif node is None:
                writes.insert(0, Create(path=path, value=value, ephemeral=True))
            elif node.value != value:
                writes.append(Put(path=path, value=value, version=node.version))
        return former + writes

    async def _plan_value(self, session: SessionId) -> list[Write]:
        """Give the writes that bring the present value into the registration of this session.

        A session is of one start of one process, so that registration is this start's own.
        """
        root, value = self._cluster.root, service_info.render(self._info)
        writes: list[Write] = []
        for path in (root.writable(self._bookie), root.read_only(self._bookie)):
            node = await self._cluster.store.get(path, sync=True)
            if node is not None and node.owner == session and node.value != value:
                writes.append(Put(path=path, value=value, version=node.version))
        return await self._guarded(writes, refuse=False)

    def _is_former(self, node: Versioned, path: str) -> bool:
        """Is this node of an earlier start of the bookie? Raises if it is of a later one."""
        if self._boot_epoch is None:
            return False
        with stored_at(path, self._cluster.store.name):
            theirs = service_info.parse(node.value).boot_epoch
        if theirs is not None and theirs > self._boot_epoch:
            raise self._superseded(f"{path} in {self._cluster.store.name} is of", theirs, "runs")
        return theirs is not None

    def _superseded(self, where: str, theirs: int, does: str) -> NameTakenError:
        return NameTakenError(
            f"{where} start {theirs} of {self._bookie}, and this is start {self._boot_epoch}: a "
            f"later process {does} on this bookie's disk, or on a copy of it; this one ends, and "
            "acknowledges nothing more. What it acknowledged since a copy was made is only on its "
            "own disk"
        )

    async def _waited_out(self, path: str, session: SessionId) -> Versioned | None:
        """Wait until another session's node goes; it may be this bookie's own, from before."""
        try:
            async with (
                asyncio.timeout(self._patience_ms / 1000),
                self._cluster.store.watch(path) as states,
            ):
                async for node in states:
                    if node is None or node.owner == session:
                        return node
        except TimeoutError as error:
            raise NameTakenError(
                f"{path} in {self._cluster.store.name} is held by another session, which did not "
                f"end within {self._patience_ms} ms: another process runs as {self._bookie}; "
                "stop it, or give this one its own id"
            ) from error
        raise AssertionError("a watch ends only with an error")
