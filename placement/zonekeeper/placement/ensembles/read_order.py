"""In which order the replicas of an entry are asked.

A reader wants the nearest replica that will answer soon. Replicas fall into classes, best first::

    0  own zone, well                      4  read-only, where the policy demotes those
    1  other zone, well                    5  slow
    2  own zone, failed of late or busy    6  not registered
    3  other zone, failed of late or busy

Among the well, the slow and the unregistered the order of the write set stays, so that reads stay
striped and find warm caches; among the troubled, fewer failures come first, then fewer requests
outstanding. Whoever does not know its own zone has all replicas in other zones.

*Busy* has a hysteresis, so that reads do not swing between zones: a bookie becomes busy at
``pending_limit`` requests outstanding and stays so until they are fewer than half of it. *Slow* is
the guess of a hedge timer and only used where the limit is off, as the count is the better sign.
Failures and slowness are forgotten ``failure_memory_ms`` after the last one.

The result is always a permutation of the write set. No replica of another zone stands before one of
the own zone that is well, but for one: the best replica of another zone that is registered stands
no later than ``hedge_remote_at``, so that a brown-out of the own zone costs that many hedge
timeouts and not one for each of its replicas.

What a client has seen of a bookie is one immutable value. The functions that note something give a
new one, and times come in as ``now_ms``.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.topology import Registration
from zonekeeper.placement.policy.rules import ReadRules


class Reason(enum.StrEnum):
    """Why a replica is not asked first: a label of the counters of reads that cross zones."""

    OWN_ZONE_UNKNOWN = "own-zone-unknown"
    NO_LOCAL_REPLICA = "no-local-replica"
    #: Nothing is wrong with the replica: the hedge position gave its place to another zone's.
    HEDGED = "hedged"
    BUSY = "busy"
    FAILED = "failed"
    READ_ONLY = "read-only"
    SLOW = "slow"
    UNREGISTERED = "unregistered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """What a reader knows of one bookie: what the metadata store says, and what it saw itself."""

    zone: ZoneName | None
    registration: Registration = Registration.WRITABLE
    #: Requests outstanding, over all ledgers that are open.
    pending: int = 0
    #: At the limit, or on the way down from it; kept by ``with_pending``.
    busy: bool = False
    #: Failures since the memory of them was last empty.
    failures: int = 0
    failed_at_ms: int = 0
    slow_at_ms: int | None = None

    def with_pending(self, pending: int, rules: ReadRules) -> "Replica":
        """Note how many requests are outstanding now."""
        assert pending >= 0, f"{pending} requests outstanding"
        limit = rules.pending_limit
        busy = limit > 0 and (pending >= limit or (self.busy and 2 * pending >= limit))
        return replace(self, pending=pending, busy=busy)

    def failed(self, rules: ReadRules, now_ms: int) -> "Replica":
        """Note a failed read."""
        return replace(
            self, failures=_recent_failures(self, rules, now_ms) + 1, failed_at_ms=now_ms
        )

    def slow(self, now_ms: int) -> "Replica":
        """Note that a hedge timer went off before it answered."""
        return replace(self, slow_at_ms=now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOrder:
    """The replicas of an entry, first to be asked first."""

    #: Ensemble positions: a permutation of the write set.
    positions: tuple[int, ...]
    #: Why the first is not of the reader's own zone; None: it is.
    why_remote: Reason | None


class _Rank(enum.IntEnum):
    LOCAL = 0
    REMOTE = 1
    LOCAL_TROUBLED = 2
    REMOTE_TROUBLED = 3
    READ_ONLY = 4
    SLOW = 5
    UNREGISTERED = 6


#: Rank, failures, requests outstanding, reason. Equal numbers have an equal reason, so that a sort
#: never compares reasons.
_Standing = tuple[_Rank, int, int, Reason | None]
_LOCAL: Final[_Standing] = (_Rank.LOCAL, 0, 0, None)
_REMOTE: Final[_Standing] = (_Rank.REMOTE, 0, 0, None)
_SLOW: Final[_Standing] = (_Rank.SLOW, 0, 0, Reason.SLOW)
_UNREGISTERED: Final[_Standing] = (_Rank.UNREGISTERED, 0, 0, Reason.UNREGISTERED)

#: A standing, and the replica's index in the write set, which decides what else is equal; then
#: what it is: its ensemble position, and whether it is local.
_Ranked = tuple[_Standing, int, int, bool]


def order(
    write_set: Sequence[int],
    replicas: Sequence[Replica],
    own_zone: ZoneName | None,
    rules: ReadRules,
    now_ms: int,
) -> ReadOrder:
    """Order the replicas of an entry; ``replicas`` are the whole ensemble's, by position."""
    ranked: list[_Ranked] = []
    for index, position in enumerate(write_set):
        replica = replicas[position]
        local = own_zone is not None and replica.zone == own_zone
        ranked.append((_standing(replica, local, rules, now_ms), index, position, local))
    ranked.sort()
    _hedge(ranked, rules.hedge_remote_at)
    return ReadOrder(
        positions=tuple([position for _, _, position, _ in ranked]),
        why_remote=_why_remote(ranked, own_zone),
    )


def _recent_failures(replica: Replica, rules: ReadRules, now_ms: int) -> int:
    if replica.failures and now_ms - replica.failed_at_ms < rules.failure_memory_ms:
        return replica.failures
    return 0


def _is_slow(replica: Replica, rules: ReadRules, now_ms: int) -> bool:
    return (
        replica.slow_at_ms is not None
        and rules.pending_limit <= 0
        and now_ms - replica.slow_at_ms < rules.failure_memory_ms
    )


def _standing(replica: Replica, local: bool, rules: ReadRules, now_ms: int) -> _Standing:
    """Give its class, what ranks it inside the class, and why it is not well."""
    if replica.registration is Registration.ABSENT:
        return _UNREGISTERED
    failures = _recent_failures(replica, rules, now_ms)
    # The record may have lost its limit since the count was noted.
    busy = replica.busy and rules.pending_limit > 0
    if rules.demote_read_only and replica.registration is Registration.READ_ONLY:
        if _is_slow(replica, rules, now_ms):
            return _SLOW
        return (_Rank.READ_ONLY, failures, replica.pending if busy else 0, Reason.READ_ONLY)
    if failures or busy:
        rank = _Rank.LOCAL_TROUBLED if local else _Rank.REMOTE_TROUBLED
        return (rank, failures, replica.pending, Reason.FAILED if failures else Reason.BUSY)
    if _is_slow(replica, rules, now_ms):
        return _SLOW
    return _LOCAL if local else _REMOTE


def _hedge(ranked: list[_Ranked], latest: int) -> None:
    """Move the best registered replica of another zone up to the hedge position."""
    for place, (standing, _, _, local) in enumerate(ranked):
        if not local and standing[0] is not _Rank.UNREGISTERED:
            if place > latest:
                ranked.insert(latest, ranked.pop(place))
            return


def _why_remote(ranked: Sequence[_Ranked], own_zone: ZoneName | None) -> Reason | None:
    if ranked[0][-1]:
        return None
    if own_zone is None:
        return Reason.OWN_ZONE_UNKNOWN
    for standing, _, _, local in ranked:
        if local:
            return standing[-1] or Reason.HEDGED
    return Reason.NO_LOCAL_REPLICA
