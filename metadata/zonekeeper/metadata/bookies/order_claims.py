"""The right to carry an order out: ``<root>.zonekeeper/order-claims/<bookie>``, ephemeral.

    name     the process that works on the order
    token    drawn by its keeper: two keepers in one session are told apart

One process at a time works on a bookie. The claim ends with the session of its process. All that is
written under a claim is bound to its session, and checks that the claim is there. So a process that
has lost its session changes nothing any more.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.store.errors import (
    NodeExistsError,
    NoNodeError,
    SessionLostError,
    StoreError,
)
from zonekeeper.metadata.store.store import Check, SessionId, Versioned
from zonekeeper.placement.base.ids import BookieId

#: The directory, which is empty in an export.
DIRECTORY: Final = "order-claims"
_ATTEMPTS_MAX: Final = 5
_PAUSE_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderClaim:
    """The right to work on the order about a bookie, as long as the session lives."""

    bookie: BookieId
    session: SessionId
    value: bytes


async def holder(cluster: Cluster, bookie: BookieId) -> str | None:
    """Name the process that works on the order about a bookie; None: none does.

    A claim that cannot be read has a holder, whose name is not known: "?".
    """
    node = await cluster.store.get(_path(cluster, bookie), sync=True)
    if node is None:
        return None
    try:
        return records.text(records.parse(node.value, cluster.instance), "name")
    except (UnreadableError, ForeignRecordError):
        return "?"


async def take(cluster: Cluster, bookie: BookieId, name: str, token: str) -> OrderClaim | None:
    """Take the claim; None: another keeper has it. A claim that is ours already is given again."""
    session = cluster.store.session.id
    if session is None:
        raise SessionLostError("has no session now", store=cluster.store.name)
    value = records.render({"name": name, "token": token}, cluster.instance)
    path = _path(cluster, bookie)
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        node = await cluster.store.get(path, sync=True)
        if node is not None:
            mine = _is(node, session, value)
            return OrderClaim(bookie=bookie, session=session, value=value) if mine else None
        try:
            await cluster.store.create(
                path, value, ephemeral=True, make_parents=True, session=session
            )
        except NodeExistsError:
            continue  # another keeper's, or ours by an attempt whose answer was lost
        except StoreError as error:
            if not error.maybe_applied or attempts_left == 0:
                raise
            await asyncio.sleep(_PAUSE_S)
        else:
            return OrderClaim(bookie=bookie, session=session, value=value)
    return None


async def check(cluster: Cluster, claim: OrderClaim) -> Check:
    """Give what lets a transaction of the claim's session pass only while the claim stands.

    Raises ``SessionLostError`` if the claim is over.
    """
    path = _path(cluster, claim.bookie)
    node = await cluster.store.get(path, sync=True)
    if node is None or not _is(node, claim.session, claim.value):
        raise SessionLostError(
            f"the claim of the order about {claim.bookie} is over", store=cluster.store.name
        )
    return Check(path=path, version=node.version)


async def release(cluster: Cluster, claim: OrderClaim) -> None:
    """Give a claim back; one that is over counts as given back."""
    path = _path(cluster, claim.bookie)
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        try:
            node = await cluster.store.get(path, sync=True)
            if node is None or not _is(node, claim.session, claim.value):
                return
            await cluster.store.delete(path, version=node.version, session=claim.session)
        except (NoNodeError, SessionLostError):
            return
        except StoreError as error:
            if not (error.maybe_applied or error.retryable) or attempts_left == 0:
                raise
            await asyncio.sleep(_PAUSE_S)
        else:
            return


def _is(node: Versioned, session: SessionId, value: bytes) -> bool:
    return (node.owner, node.value) == (session, value)


def _path(cluster: Cluster, bookie: BookieId) -> str:
    return cluster.root.beside(f"{DIRECTORY}/{bookie}")
