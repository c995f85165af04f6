"""What happens to a world, drawn from a seed before the world begins.

A *profile* says what kinds of trouble there are and how much; a *scenario* is one draw of it: the
quorums, the weather of the networks, the cast, and every fault with its moment. Each seed
draws its own strengths, so that some runs are calm enough to get far and some are savage. As the
faults are a list, one that does not matter can be left out, and the rest happens as before.

Faults are only such as the promises cover: disks forget what was not synced, and nothing else; one
disk is lost for good, or copies on fewer bookies than an ack quorum rot, or at the end one bookie
stays dead, and only where an ack quorum has more than one copy.
"""

import dataclasses
import enum
from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Final

from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.twin.twin import Weather

ZONES: Final = ("a", "b", "c")

#: Everything heals then. Short, and little is written: what a seed costs is its steps, a third of
#: them for the way up, and small worlds find as many bugs in the same time as large ones.
CHAOS_MS: Final = 1_600
#: Bookies and clients come up first, or little would ever get far enough to go wrong.
CALM_AT_FIRST_MS: Final = 300


class Kind(enum.Enum):
    """A fault; ``target`` is the process or bookie that it happens to."""

    #: A bookie's process dies; its disk keeps what the kernel knew.
    KILL = "kill"
    #: A bookie loses power: its disk keeps what was synced, and any part of the rest.
    POWER = "power loss"
    ZONE_POWER = "zone loses power"
    #: All bookies of a zone die for good, and ``other`` with them.
    ZONE_LOSS = "zone is lost"
    #: A bookie loses its disk for good, when a writer dies and another member is behind; a person
    #: gives it an empty one.
    DISK_LOSS = "disk is lost"
    #: A client's process dies, and another takes its place.
    CLIENT_KILL = "client dies"
    #: Any process stands still, and goes on.
    PAUSE = "pause"
    #: What a client sends to a bookie, or the other way round, does not arrive.
    CUT = "one-way cut"
    #: A bookie is cut off from all clients, both ways, and from the metadata store.
    ISOLATION = "isolation"
    ZONE_CUT = "zone is cut off"
    #: The connection of a client to a bookie breaks.
    RESET = "reset"
    #: A bookie's next sync fails.
    DISK_ERROR = "disk error"
    #: Bytes on a bookie's disk are others than were written: what sums them sees it.
    ROT = "rot"
    #: A bookie's memory changed bytes before they were summed: only their digest tells.
    HIDDEN_ROT = "hidden rot"
    SLOW_DISK = "slow disk"
    #: Any process is cut off from the metadata store.
    META_CUT = "metadata cut"
    #: What the newest ledger's writer sends reaches one bookie less than an ack quorum, for a
    #: while; and recoverers hear that there is something to recover.
    STRAND = "writer is stranded"
    #: What recoverers send of an entry reaches one bookie less than its ack quorum, of those that
    #: metadata shows: they go on with others, and die before it is over.
    HALF_WAY = "recovery is stranded"
    #: Everything that a bookie hears and says takes longer.
    SLOW_BOOKIE = "slow bookie"
    #: A process's session ends.
    META_EXPIRY = "session expiry"
    #: A process reads from a follower that is behind.
    META_LAG = "metadata lag"
    #: A person makes a bookie read-only for a while.
    READ_ONLY = "read-only"
    #: A person recovers the newest ledger and deletes it, and all bookies collect it, while its
    #: writer stands still.
    DELETION = "deletion"
    #: A bookie loses its disk for good, if every ledger survives that; a person gives it an empty
    #: one. Nothing else happens with it.
    DISK_GONE = "disk is gone"
    #: A person deletes any ledger; each bookie has to find that out, and collects it.
    LEDGER_GONE = "ledger is deleted"
    #: Somebody who repaired nothing tells bookies in limbo that it is over.
    STRANGER = "stranger ends limbo"
    #: Bookies that a recovery put in, and that no metadata names yet, lose their disks while the
    #: recovery stands still.
    NEWCOMERS = "newcomers lose disks"
    #: A bookie loses power, and its clients hear of it only by keep-alive.
    HALF_OPEN = "half-open connections"
    #: The metadata store goes away for all; answers to the last requests do not arrive.
    STORE_OUTAGE = "store outage"
    #: The metadata store is set back to a backup.
    SET_BACK = "store is set back"
    #: A person declares maintenance of a bookie's unit, and lifts it.
    MAINTENANCE = "maintenance"
    #: A person lets a zone's losses be repaired, if they are held.
    RELEASE = "release"


class Shape(enum.Enum):
    """How a zone goes away."""

    WHOLE = "a zone at once"
    SLOW = "one bookie after the other"
    PARTIAL = "all but one bookie"
    FLAPPING = "flapping"
    TWO_ZONES = "two zones"
    ALL_IN_VIEW = "all zones, from where the observer stands"
    IN_MAINTENANCE = "during maintenance"
    FAILOVER = "while auditor and watch change"
    ISOLATED = "while observers see nothing"


class Occasion(enum.Enum):
    """What a fault may wait for: the hard ones need something else to be under way."""

    RECOVERY = "next recovery"
    STRAND = "next stranded writer"
    TAIL = "next reading of a tail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, and when: at a moment, or so long behind the first occasion after it."""

    at_ms: int
    kind: Kind
    target: str
    #: The other end of a cut or a reset.
    other: str = ""
    for_ms: int = 0
    occasion: Occasion | None = None
    behind_ms: int = 0

    def __str__(self) -> str:
        other = f" / {self.other}" if self.other else ""
        when = f", {self.behind_ms} ms into the {self.occasion.value}" if self.occasion else ""
        return (
            f"{self.at_ms:>6} ms  {self.kind.value}: {self.target}{other}{when}, "
            f"for {self.for_ms} ms"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaWeather:
    """What happens to requests to the metadata store."""

    delay_max_ms: int = 2
    request_loss: float = 0.0
    answer_loss: float = 0.0


#: What an entry has beside its random bytes: its name, and what the formats put around it.
_BESIDE_PAYLOAD_BYTES: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What clients do when nothing hinders them."""

    #: Entries in a burst, and bursts in a ledger, at most.
    entries_max: int = 8
    bursts_max: int = 5
    #: Ledgers of a writer, at most: each has to be recovered and read at the end.
    ledgers_max: int = 3
    #: Random bytes in an entry, fewer than these.
    payload_max: int = 24
    #: Between bursts, and how long a writer stays when it has nothing more to say, at most.
    pause_max_ms: int = 250
    linger_max_ms: int = 800
    #: Recoverers act on such a grid, so that they often meet.
    grid_ms: int = 500
    #: After so long a silence a client gives a bookie's answer up.
    timeout_ms: int = 500
    #: How many of the ledgers have deferred sync, and behind how many bursts the LAC is told.
    deferred: float = 0
    told: float = 0

    @property
    def ledger_bytes_max(self) -> int:
        """How large a ledger gets: all of it may come in one batch, from a writer or a recovery."""
        return self.entries_max * self.bursts_max * (_BESIDE_PAYLOAD_BYTES + self.payload_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All that decides a run, besides the code."""

    profile: str
    seed: int
    quorums: Quorums
    bookies_a_zone: int
    weather: Weather
    meta: MetaWeather
    disk_max_ms: int
    #: The metadata store ends the session of a process that it has not heard of for so long.
    session_ms: int
    #: How much faster or slower than the world's a process's clock may be.
    clock_drift: float
    writers: int
    readers: int
    recoverers: int
    autorecoveries: int
    #: Everything heals then.
    chaos_ms: int
    habits: Habits
    #: How many entries a recovery reads and writes back at a time.
    window_entries: int
    faults: tuple[Fault, ...]
    #: Do all bookies lose power when everything heals?
    final_power_loss: bool
    #: Does one bookie stay dead?
    one_stays_dead: bool
    #: Is placement strict? Where a zone is lost, the promise needs it.
    strict: bool
    #: How a zone goes away, where a zone watch runs.
    shape: Shape | None = None
    #: After so long the owner's rule releases a zone's losses; None: a person has to.
    repair_after_ms: int | None = None
    #: How fast a process may repair; 0: as fast as it can.
    repair_bytes_per_second: int = 0
    #: Bookies of the first upgrade domains, if not all that zones have.
    bookies_max: int | None = None
    #: Processes that repair what is in limbo, and nothing else.
    menders: int = 0
    #: Processes that contend for one log; there are no other writers then.
    log_writers: int = 0
    log_queries: int = 0
    #: Bookies collect and compact so often; 0: they do not.
    upkeep_every_ms: int = 0
    #: A bookie's answer has no more frames than this; 0: as many as the product allows.
    frames_a_reply: int = 0

    def chance(self, purpose: str) -> Random:
        """Give chance for one purpose: what happens elsewhere does not change what it gives."""
        return Random(f"{self.profile}/{self.seed}/{purpose}")

    def without(self, indices: range) -> "Scenario":
        """Give the scenario without some of its faults."""
        kept = [fault for at, fault in enumerate(self.faults) if at not in indices]
        return dataclasses.replace(self, faults=tuple(kept))

    def only(self, moments_ms: Collection[int]) -> "Scenario":
        """Give the scenario with the faults of these moments alone."""
        kept = [fault for fault in self.faults if fault.at_ms in moments_ms]
        return dataclasses.replace(self, faults=tuple(kept))


def bookie_names(bookies_a_zone: int, most: int | None = None) -> list[str]:
    """Give the bookies' names, by zone; with ``most``, zones are as even as they can be."""
    by_ordinal = [f"bk-{zone}-{ordinal}" for ordinal in range(bookies_a_zone) for zone in ZONES]
    return sorted(by_ordinal[:most])


def member(position: int) -> str:
    """Name the bookie that is at a position of the newest ensemble when a fault happens."""
    return f"@{position}"


#: Names the client that an occasion is about.
WHO: Final = "?"


def position_of(target: str) -> int | None:
    """Give the position, if that is how a target is named."""
    return int(target[1:]) if target.startswith("@") else None


def at_moments_of_their_own(faults: list[Fault]) -> tuple[Fault, ...]:
    """Let no two faults share a moment: a fault is named by it."""
    apart: list[Fault] = []
    for fault in sorted(faults, key=lambda fault: fault.at_ms):
        at_ms = max(fault.at_ms, apart[-1].at_ms + 1) if apart else fault.at_ms
        apart.append(dataclasses.replace(fault, at_ms=at_ms))
    return tuple(apart)
