"""The read order: in which order a reader asks the replicas of an entry.

A reader wants the nearest replica that will answer soon. Replicas fall into classes, best first::

    0  own zone, well                      4  read-only, where the policy demotes those
    1  other zone, well                    5  slow
    2  own zone, failed recently or busy   6  not registered
    3  other zone, failed recently or busy

Inside the classes "well", "slow" and "not registered" the order of the write set is kept. So reads
stay striped, and find warm caches. Inside the other classes replicas with fewer failures come
first, then those with fewer outstanding requests. For a reader that does not know its own zone, all
replicas are in other zones.

*Busy* has a hysteresis, so that reads do not swing between zones: a bookie becomes busy at
``pending_limit`` outstanding requests, and stays busy until they are fewer than half of that.
*Slow* is a guess from a hedge timer. It is used only where the limit is off, because the number of
outstanding requests is the better sign. Failures and slowness are forgotten ``failure_memory_ms``
after the last one.

The result is always a permutation of the write set. No replica of another zone stands before a
replica of the own zone that is well, with one exception: the best registered replica of another
zone stands no later than ``hedge_remote_at``. So when the whole own zone is slow, a read costs that
many hedge timeouts, and not one for each local replica.

A ``Replica`` holds what a client has seen of a bookie, and is immutable. The functions that note
something give a new value, and times come in as ``now_ms``.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.topology import Registration
from zonekeeper.placement.policy.rules import ReadRules


class Reason(enum.StrEnum):
    """Why the first replica is not local: a label of the counters of reads that cross zones."""

    OWN_ZONE_UNKNOWN = "own-zone-unknown"
    NO_LOCAL_REPLICA = "no-local-replica"
    #: The replica is well, but the hedge position gave its place to a replica of another zone.
    HEDGED = "hedged"
    BUSY = "busy"
    FAILED = "failed"
    READ_ONLY = "read-only"
    SLOW = "slow"
    UNREGISTERED = "unregistered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One bookie as a reader knows it: from the metadata store, and by its own requests."""

    zone: ZoneName | None
    registration: Registration = Registration.WRITABLE
    #: Outstanding requests, of all open ledgers.
    pending: int = 0
    #: The limit was reached, and the requests are not yet below half of it; see ``with_pending``.
    busy: bool = False
    #: Failures since there was last none to remember.
    failures: int = 0
    failed_at_ms: int = 0
    slow_at_ms: int | None = None

    def with_pending(self, pending: int, rules: ReadRules) -> "Replica":
        """Note the number of outstanding requests."""
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
        """Note that a hedge timer ended before the bookie answered."""
        return replace(self, slow_at_ms=now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOrder:
    """The replicas of an entry; the first one is asked first."""

    #: Ensemble positions: a permutation of the write set.
    positions: tuple[int, ...]
    #: Why the first replica is not of the reader's own zone; None if it is.
    why_remote: Reason | None


class _Rank(enum.IntEnum):
    LOCAL = 0
    REMOTE = 1
    LOCAL_TROUBLED = 2
    REMOTE_TROUBLED = 3
    READ_ONLY = 4
    SLOW = 5
    UNREGISTERED = 6


#: Rank, failures, outstanding requests, reason. If the first three are equal so is the reason: a
#: sort never compares reasons.
_Standing = tuple[_Rank, int, int, Reason | None]
_LOCAL: Final[_Standing] = (_Rank.LOCAL, 0, 0, None)
_REMOTE: Final[_Standing] = (_Rank.REMOTE, 0, 0, None)
_SLOW: Final[_Standing] = (_Rank.SLOW, 0, 0, Reason.SLOW)
_UNREGISTERED: Final[_Standing] = (_Rank.UNREGISTERED, 0, 0, Reason.UNREGISTERED)

#: A standing; the replica's index in the write set, which decides between equal standings; its
#: ensemble position; and whether it is local.
_Ranked = tuple[_Standing, int, int, bool]


def order(
    write_set: Sequence[int],
    replicas: Sequence[Replica],
    own_zone: ZoneName | None,
    rules: ReadRules,
    now_ms: int,
) -> ReadOrder:
    """Order the replicas of an entry; ``replicas`` has the whole ensemble, by position."""
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
    """Give a replica's class, its order inside the class, and why it is not well."""
    if replica.registration is Registration.ABSENT:
        return _UNREGISTERED
    failures = _recent_failures(replica, rules, now_ms)
    # The policy may have lost its limit since the requests were counted.
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
    """Move the best registered replica of another zone forward to the hedge position."""
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
