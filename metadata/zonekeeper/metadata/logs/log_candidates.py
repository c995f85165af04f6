"""Candidates in the store: ephemeral nodes in a folder of their log, and one for a handover.

The folder is not below the log's record: a record with children could not be removed, and these
children would come back as long as their sessions live. The folder is made by the first candidate.
It goes with the last candidate that leaves in order, and with the log.

A node that cannot be read, or that is of another incarnation of the log, is no candidate. A program
that looks goes on without it.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import log_names
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.logs import log_candidate
from zonekeeper.metadata.logs.log_candidate import (
    CANDIDATES_MAX,
    HANDOVER,
    CandidateMark,
    HandoverMark,
)
from zonekeeper.metadata.store import following, pruning, update
from zonekeeper.metadata.store.errors import NodeExistsError, NoNodeError, StoreError
from zonekeeper.metadata.store.following import Meanings
from zonekeeper.metadata.store.store import SessionId, Versioned
from zonekeeper.placement.base.troubles import Trouble

_logger: Final = logging.getLogger(__name__)

Mark = TypeVar("Mark", CandidateMark, HandoverMark)

_CANDIDATE: Final = log_candidate.parse
_HANDOVER: Final = log_candidate.parse_handover

#: Answers may be lost, and the giver and the taker of a handover write to its node meanwhile.
_ATTEMPTS_MAX: Final = 5


class CandidateTaken(Trouble):
    """Another process stands as a candidate of this name; nothing was changed."""

    retryable = True


class TooManyCandidatesError(Trouble):
    """The log has as many candidates as a log may have; nothing was changed."""

    retryable = True


class HandoverUnderWay(Trouble):
    """Another program hands the log over at this moment; nothing was changed."""

    retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingCandidate:
    """A candidate that stands."""

    name: str
    mark: CandidateMark
    #: Grows with each candidate that comes, or comes again: the number of its node's creation.
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCandidates:
    """The candidates that stand for one log, and the handover that is under way."""

    #: In the order of their names.
    candidates: tuple[StandingCandidate, ...]
    handover: HandoverMark | None


def top(cluster: Cluster) -> str:
    """Give the path of the node of all folders of candidates."""
    return cluster.root.beside("standby")


def folder(cluster: Cluster, name: str) -> str:
    """Give the path of the folder of a log's candidates; raises ``BadLogNameError``."""
    return top(cluster) + log_names.path(name)


async def stand(
    cluster: Cluster, name: str, candidate: str, mark: CandidateMark, session: SessionId
) -> None:
    """Let a candidate stand as long as a session lives; no error if it stands already.

    Raises ``CandidateTaken`` while another session has a candidate of the name, or another life of
    this one.
    """
    where, store = f"{folder(cluster, name)}/{log_candidate.node(candidate)}", cluster.store
    others = await store.children(folder(cluster, name), sync=True) or ()
    standing = [one for one in others if log_candidate.name_of(one) is not None]
    if len(standing) >= CANDIDATES_MAX and log_candidate.node(candidate) not in standing:
        raise TooManyCandidatesError(
            f"log {name} has {len(standing)} candidates, and may have {CANDIDATES_MAX}"
        )
    value = log_candidate.render(mark, cluster.instance)
    try:
        await store.create(where, value, ephemeral=True, make_parents=True, session=session)
    except NodeExistsError:
        node = await store.get(where, sync=True)
        if node is not None and node.owner == session:
            found = _read(cluster, where, node, _CANDIDATE)
            if found is not None and found.candidacy == mark.candidacy:
                if node.value != value:  # it has other zones now
                    await store.put(where, value, version=node.version, session=session)
                return
        raise CandidateTaken(
            f"another process stands for log {name} as {candidate}, or the session of one that "
            "ended has not ended yet: wait some seconds, or give this one a name of its own"
        ) from None


async def leave(cluster: Cluster, name: str, candidate: str, candidacy: str) -> None:
    """Take a candidate back; one that stands for another life of it stays."""
    where = f"{folder(cluster, name)}/{log_candidate.node(candidate)}"
    node = await cluster.store.get(where, sync=True)
    if node is None or node.owner != cluster.store.session.id:
        return
    found = _read(cluster, where, node, _CANDIDATE)
    if found is not None and found.candidacy == candidacy:
        await _remove(cluster, name, where, node)


async def look(cluster: Cluster, name: str, log_id: str) -> LogCandidates:
    """Give the candidates of a log, no older than this call."""
    where = folder(cluster, name)
    nodes = dict[str, Versioned]()
    for child in await cluster.store.children(where, sync=True) or ():
        node = await cluster.store.get(f"{where}/{child}")
        if node is not None:
            nodes[child] = node
    return await anext(_looks(cluster, where, log_id, _once(nodes)))


@asynccontextmanager
async def follow(
    cluster: Cluster, name: str, log_id: str
) -> AsyncIterator[AsyncIterator[LogCandidates]]:
    """Follow the candidates of a log."""
    where = folder(cluster, name)
    async with (
        following.follow_children(cluster.store, where) as states,
        aclosing(_looks(cluster, where, log_id, states)) as looks,
    ):
        yield looks


async def ask(cluster: Cluster, name: str, mark: HandoverMark) -> None:
    """Ask for a handover, as long as this session lives; raises ``HandoverUnderWay``."""
    where = f"{folder(cluster, name)}/{HANDOVER}"
    value = log_candidate.render_handover(mark, cluster.instance)
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        try:
            await cluster.store.create(where, value, ephemeral=True)
        except NodeExistsError:
            node = await cluster.store.get(where, sync=True)
            found = None if node is None else _read(cluster, where, node, _HANDOVER)
            if found is not None and found.token == mark.token:
                return  # an answer was lost
            raise HandoverUnderWay(
                f"log {name} is being handed over by another program; wait until that is done"
            ) from None
        except StoreError as error:
            if not (error.retryable and error.maybe_applied) or attempts_left == 0:
                raise
        else:
            return


async def tell(
    cluster: Cluster,
    name: str,
    token: str,
    change: Callable[[HandoverMark], HandoverMark],
) -> None:
    """Note how far a handover is; no error if nobody asks for it any more."""
    where = f"{folder(cluster, name)}/{HANDOVER}"

    def decide(node: Versioned | None) -> update.Decision:
        before = None if node is None else _read(cluster, where, node, _HANDOVER)
        if before is None or before.token != token:
            return update.Keep()
        return update.Store(log_candidate.render_handover(change(before), cluster.instance))

    await update.update(cluster.store, where, decide)


async def take_back(cluster: Cluster, name: str, token: str) -> None:
    """Ask for a handover no more; one of another program stays."""
    where = f"{folder(cluster, name)}/{HANDOVER}"
    for _ in range(_ATTEMPTS_MAX):
        node = await cluster.store.get(where, sync=True)
        found = None if node is None else _read(cluster, where, node, _HANDOVER)
        if node is None or found is None or found.token != token:
            return
        try:
            await _remove(cluster, name, where, node)
        except StoreError as error:
            if not error.retryable:
                raise
        else:
            return


async def forget(cluster: Cluster, name: str) -> None:
    """Remove the folder of a log that is deleted; one with candidates stays until they leave."""
    await pruning.prune(cluster.store, f"{folder(cluster, name)}/none", below=top(cluster))


async def _remove(cluster: Cluster, name: str, where: str, node: Versioned) -> None:
    with suppress(NoNodeError):
        await cluster.store.delete(where, version=node.version)
    await forget(cluster, name)


async def _once(nodes: Mapping[str, Versioned]) -> AsyncGenerator[Mapping[str, Versioned], None]:
    yield nodes


async def _looks(
    cluster: Cluster, where: str, log_id: str, states: AsyncIterator[Mapping[str, Versioned]]
) -> AsyncGenerator[LogCandidates, None]:
    marks = Meanings(lambda child, node: _read(cluster, f"{where}/{child}", node, _CANDIDATE))
    wishes = Meanings(lambda child, node: _read(cluster, f"{where}/{child}", node, _HANDOVER))
    async for state in states:
        known = {one: node for one, node in state.items() if log_candidate.name_of(one) is not None}
        asked = {one: node for one, node in state.items() if one == HANDOVER}
        wish = wishes.of(asked).get(HANDOVER)
        candidates = [
            StandingCandidate(
                name=log_candidate.name_of(child) or "",
                mark=mark,
                since=known[child].created_id,
            )
            for child, mark in marks.of(known).items()
            if mark is not None and mark.log_id == log_id
        ]
        yield LogCandidates(
            candidates=tuple(sorted(candidates, key=lambda one: one.name)),
            handover=wish if wish is not None and wish.log_id == log_id else None,
        )


def _read(
    cluster: Cluster, where: str, node: Versioned, parse: Callable[[bytes, str], Mark]
) -> Mark | None:
    """Read a node; None, and a line in the log, for one that says nothing to this program."""
    try:
        return parse(node.value, cluster.instance)
    except (UnreadableError, ForeignRecordError) as error:
        _logger.warning("%s in %s is left out: %s", where, cluster.store.name, error)
        return None
