"""What happens to a world, drawn from a seed before the world begins.

A *profile* says what kinds of trouble there are and how much; a *scenario* is one draw of it: the
quorums, the weather of the networks, who takes part, and every fault with its moment. Each seed
draws its own strengths, so that some runs are calm enough to get far and some are savage. As the
faults are a list, one that does not matter can be left out, and the rest happens as before.

Faults are only such as the promises cover: disks forget what was not synced, and nothing else; at
the end at most one bookie stays dead, and only where an ack quorum has more than one copy.
"""

import dataclasses
import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from zonekeeper.placement.quorums import Quorums
from zonekeeper.wire.twin import Weather

ZONES: Final = ("a", "b", "c")

#: Everything heals then.
CHAOS_MS: Final = 4_000
#: Bookies and clients come up first, or little would ever get far enough to go wrong.
CALM_AT_FIRST_MS: Final = 400


class Kind(enum.Enum):
    """A fault; who is meant is its ``target``."""

    #: A bookie's process dies; its disk keeps what the kernel knew.
    KILL = "kill"
    #: A bookie loses power: its disk keeps what was synced, and any part of the rest.
    POWER = "power loss"
    ZONE_POWER = "zone loses power"
    #: All bookies of a zone die for good, and ``other`` with them.
    ZONE_LOSS = "zone is lost"
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
    SLOW_DISK = "slow disk"
    #: Any process is cut off from the metadata store.
    META_CUT = "metadata cut"
    #: What the newest ledger's writer sends reaches one bookie less than an ack quorum, for a
    #: while; and recoverers hear that there is something to recover.
    STRAND = "writer is stranded"
    #: Everything that a bookie hears and says takes longer.
    SLOW_BOOKIE = "slow bookie"
    #: A process's session ends.
    META_EXPIRY = "session expiry"
    #: A process reads from a follower that is behind.
    META_LAG = "metadata lag"
    #: A person makes a bookie read-only for a while.
    READ_ONLY = "read-only"


class Occasion(enum.Enum):
    """What a fault may wait for: the hard ones need something else to be under way."""

    RECOVERY = "next recovery"
    STRAND = "next stranded writer"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What clients do when nothing hinders them."""

    #: Entries in a burst, and bursts in a ledger, at most.
    entries_max: int = 12
    bursts_max: int = 8
    #: Between bursts, and how long a writer stays when it has nothing more to say, at most.
    pause_max_ms: int = 600
    linger_max_ms: int = 2_000
    #: Recoverers act on such a grid, so that they often meet.
    grid_ms: int = 1_000
    #: After so long a silence a client gives a bookie's answer up.
    timeout_ms: int = 1_000


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


def bookie_names(bookies_a_zone: int) -> list[str]:
    """Give the bookies' names, by zone."""
    return [f"bk-{zone}-{ordinal}" for zone in ZONES for ordinal in range(bookies_a_zone)]


def member(position: int) -> str:
    """Name the bookie that is at a position of the newest ensemble when a fault happens."""
    return f"@{position}"


#: Names the client that an occasion is about.
WHO: Final = "?"


def position_of(target: str) -> int | None:
    """Give the position, if that is how a target is named."""
    return int(target[1:]) if target.startswith("@") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Kinds of trouble, with the greatest number of each."""

    name: str
    kinds: Mapping[Kind, int] = field(default_factory=dict)
    delay_max_ms: float = 5
    call_loss: float = 0
    disconnect: float = 0
    meta: MetaWeather = MetaWeather()
    disk_max_ms: int = 3
    readers_min: int = 1
    recoverers_min: int = 0
    recoverers_max: int = 2
    #: How often a fault waits for an occasion, and which there are.
    lurking: float = 0
    occasions: tuple[Occasion, ...] = ()
    #: How often the network is uneven.
    uneven: float = 0.25
    habits: Habits = Habits()
    #: The shapes of ledgers, each with how many of them there are.
    quorums: tuple[tuple[int, Quorums], ...] = ()
    #: Processes that repair what is lost; timers are such that they get to it.
    autorecoveries: int = 0
    chaos_ms: int = CHAOS_MS
    #: Is a zone lost for good, and one more bookie where the shape survives that?
    loses_zone: bool = False

    @property
    def is_long(self) -> bool:
        """Does a seed of it take as long as many others?"""
        return self.chaos_ms > CHAOS_MS


#: With how many of one seed in so many each shape of ledger is drawn.
_QUORUMS: Final = (
    (6, Quorums(ensemble=3, write=3, ack=2)),
    (4, Quorums(ensemble=3, write=3, ack=2, ack_zones=2)),
    (2, Quorums(ensemble=4, write=3, ack=2)),
    (2, Quorums(ensemble=5, write=3, ack=2)),
    (1, Quorums(ensemble=2, write=2, ack=1)),
    (1, Quorums(ensemble=5, write=2, ack=2)),
    (1, Quorums(ensemble=6, write=2, ack=1)),
    (1, Quorums(ensemble=4, write=4, ack=3)),
)

_ZONE_AND_ONE: Final = Quorums(ensemble=6, write=6, ack=4)

#: Where two bookies that are fenced, or deny an entry, are enough for a recovery.
_COVERED_BY_TWO: Final = (
    (4, Quorums(ensemble=3, write=3, ack=2)),
    (1, Quorums(ensemble=3, write=3, ack=2, ack_zones=2)),
    (3, Quorums(ensemble=4, write=4, ack=3)),
    (1, Quorums(ensemble=4, write=3, ack=2)),
    (1, Quorums(ensemble=2, write=2, ack=1)),
)

_HASTY: Final = Habits(
    entries_max=3, bursts_max=8, pause_max_ms=200, linger_max_ms=300, grid_ms=600
)

_CALM: Final = Profile(name="calm", recoverers_max=0)

PROFILES: Final[Mapping[str, Profile]] = {
    profile.name: profile
    for profile in (
        _CALM,
        Profile(
            name="lossy",
            kinds={Kind.RESET: 8, Kind.CUT: 3, Kind.KILL: 3, Kind.PAUSE: 2, Kind.CLIENT_KILL: 1},
            delay_max_ms=120,
            call_loss=0.1,
            disconnect=0.1,
        ),
        Profile(
            name="partition",
            kinds={Kind.CUT: 10, Kind.ISOLATION: 3, Kind.CLIENT_KILL: 2, Kind.POWER: 1},
            delay_max_ms=40,
            call_loss=0.03,
        ),
        Profile(
            name="crashy-disk",
            kinds={Kind.POWER: 7, Kind.KILL: 5, Kind.DISK_ERROR: 3, Kind.SLOW_DISK: 3},
            delay_max_ms=20,
            disk_max_ms=60,
        ),
        # Ensembles change all the time, and their changes take long: on an uneven network, what
        # one bookie has acknowledged another has not seen.
        Profile(
            name="slow-meta",
            kinds={
                Kind.META_CUT: 3,
                Kind.META_LAG: 4,
                Kind.META_EXPIRY: 3,
                Kind.KILL: 14,
                Kind.RESET: 6,
                Kind.CUT: 4,
                Kind.CLIENT_KILL: 2,
            },
            delay_max_ms=120,
            meta=MetaWeather(delay_max_ms=150, request_loss=0.04, answer_loss=0.06),
            uneven=0.75,
            recoverers_max=1,
        ),
        Profile(
            name="zone-outage",
            kinds={Kind.ZONE_POWER: 2, Kind.ZONE_CUT: 2, Kind.POWER: 2, Kind.CUT: 2},
            delay_max_ms=30,
        ),
        # A zone under load, and one more bookie where an ack quorum is 4 of 6 on twelve bookies.
        # Nothing else dies: that is what these quorums promise to survive.
        Profile(
            name="zone-loss",
            kinds={Kind.SLOW_BOOKIE: 2, Kind.RESET: 3, Kind.META_LAG: 2, Kind.CLIENT_KILL: 3},
            delay_max_ms=15,
            recoverers_max=1,
            quorums=(
                (2, Quorums(ensemble=3, write=3, ack=2, ack_zones=2)),
                (1, _ZONE_AND_ONE),
            ),
            loses_zone=True,
        ),
        # Zones that go and come back, and single bookies that do not for long, while ledgers are
        # repaired. Time is long, writers are slow, and timers are as short as they may be.
        Profile(
            name="zone-gate",
            kinds={
                Kind.ZONE_POWER: 2,
                Kind.ZONE_CUT: 2,
                Kind.POWER: 2,
                Kind.CLIENT_KILL: 3,
                Kind.META_EXPIRY: 2,
                Kind.META_LAG: 2,
            },
            delay_max_ms=5,
            recoverers_max=1,
            autorecoveries=2,
            chaos_ms=60_000,
            habits=Habits(entries_max=2, bursts_max=4, pause_max_ms=15_000, grid_ms=20_000),
            quorums=((1, Quorums(ensemble=3, write=3, ack=2, ack_zones=2)),),
        ),
        Profile(
            name="churn",
            kinds={
                Kind.READ_ONLY: 8,
                Kind.RESET: 5,
                Kind.KILL: 8,
                Kind.PAUSE: 4,
                Kind.META_EXPIRY: 2,
                Kind.SLOW_DISK: 2,
                Kind.SLOW_BOOKIE: 4,
            },
            delay_max_ms=60,
            disconnect=0.01,
        ),
        # Many short ledgers, each taken from its writer in the middle of a burst; single requests
        # are lost, and what was sent first comes last.
        Profile(
            name="takeover",
            kinds={
                Kind.STRAND: 8,
                Kind.CLIENT_KILL: 3,
                Kind.CUT: 6,
                Kind.KILL: 3,
                Kind.PAUSE: 4,
                Kind.POWER: 2,
                Kind.SLOW_BOOKIE: 2,
            },
            delay_max_ms=30,
            call_loss=0.6,
            disk_max_ms=10,
            readers_min=0,
            recoverers_min=1,
            recoverers_max=2,
            lurking=0.3,
            occasions=(Occasion.RECOVERY, Occasion.STRAND),
            uneven=0.5,
            habits=_HASTY,
            quorums=_COVERED_BY_TWO,
        ),
        # Recoveries that die half-way, and others that go on where bookies changed meanwhile.
        Profile(
            name="relay",
            kinds={
                Kind.STRAND: 8,
                Kind.CLIENT_KILL: 10,
                Kind.KILL: 10,
                Kind.CUT: 8,
                Kind.RESET: 3,
            },
            delay_max_ms=40,
            disk_max_ms=10,
            meta=MetaWeather(delay_max_ms=30),
            readers_min=0,
            recoverers_min=2,
            recoverers_max=3,
            lurking=0.75,
            occasions=(Occasion.RECOVERY,),
            uneven=0.5,
            habits=dataclasses.replace(_HASTY, timeout_ms=300),
            quorums=_COVERED_BY_TWO,
        ),
    )
}


def draw(profile: Profile, seed: int) -> Scenario:
    """Draw the scenario of a seed."""
    chance = Random(f"{profile.name}/{seed}/scenario")
    shapes = profile.quorums or _QUORUMS
    quorums = chance.choices([quorums for _, quorums in shapes], [weight for weight, _ in shapes])[
        0
    ]
    bookies_a_zone = 4 if quorums == _ZONE_AND_ONE else chance.choice((2, 2, 2, 3))
    writers = chance.choice((1, 1, 2))
    readers = max(chance.choice((0, 1, 1, 2)), profile.readers_min)
    recoverers = chance.choice((1, 2, 2, 3, 4))
    recoverers = max(min(recoverers, profile.recoverers_max), profile.recoverers_min)
    strength = chance.random()
    clients = [
        *(f"writer-{number}" for number in range(writers)),
        *(f"reader-{number}" for number in range(readers)),
        *(f"recoverer-{number}" for number in range(recoverers)),
        *(f"autorecovery-{number}" for number in range(profile.autorecoveries)),
    ]
    bookies = bookie_names(bookies_a_zone)
    faults = _faults(profile, strength, bookies, clients, chance)
    if profile.loses_zone:
        faults = _at_moments_of_their_own([*faults, _zone_loss(quorums, bookies, chance)])
    return Scenario(
        profile=profile.name,
        seed=seed,
        quorums=quorums,
        bookies_a_zone=bookies_a_zone,
        weather=Weather(
            delay_min_ms=0.2,
            delay_max_ms=0.3 + profile.delay_max_ms * chance.random(),
            call_loss=profile.call_loss * chance.choice((0, strength)),
            call_repeat=profile.call_loss * chance.choice((0, strength)),
            disconnect=profile.disconnect * chance.choice((0, strength)),
            keep_alive_ms=3_000,
            uneven=chance.random() < profile.uneven,
        ),
        meta=dataclasses.replace(
            profile.meta, delay_max_ms=1 + int(profile.meta.delay_max_ms * chance.random())
        ),
        disk_max_ms=1 + int(profile.disk_max_ms * chance.random()),
        clock_drift=chance.choice((0.0, 0.01, 0.25)) if profile.kinds else 0.0,
        writers=writers,
        readers=readers,
        recoverers=recoverers,
        autorecoveries=profile.autorecoveries,
        chaos_ms=profile.chaos_ms,
        habits=dataclasses.replace(
            profile.habits,
            entries_max=max(2, int(profile.habits.entries_max * chance.choice((0.3, 1, 3)))),
        ),
        window_entries=chance.choice((1, 1, 3, 1_000)),
        faults=faults,
        final_power_loss=bool(profile.kinds) and chance.random() < 0.5,
        one_stays_dead=bool(profile.kinds)
        and quorums.ack > 1
        and not profile.loses_zone
        and chance.random() < 0.5,
        strict=profile.loses_zone,
    )


def _faults(
    profile: Profile, strength: float, bookies: list[str], clients: list[str], chance: Random
) -> tuple[Fault, ...]:
    faults = []
    for kind, most in profile.kinds.items():
        # A kind in four is left out, whatever the strength: the others get further without it.
        number = 0 if chance.random() < 0.25 else round(most * strength * (0.5 + chance.random()))
        for _ in range(number):
            fault = _fault(kind, bookies, clients, profile.chaos_ms, chance)
            if kind is not Kind.STRAND and chance.random() < profile.lurking:
                fault = _lurking(fault, profile, chance)
            faults.append(fault)
    return _at_moments_of_their_own(faults)


def _zone_loss(quorums: Quorums, bookies: list[str], chance: Random) -> Fault:
    zone = chance.choice(ZONES)
    others = [bookie for bookie in bookies if not bookie.startswith(f"bk-{zone}-")]
    return Fault(
        at_ms=chance.randrange(CHAOS_MS // 4, CHAOS_MS * 3 // 4),
        kind=Kind.ZONE_LOSS,
        target=zone,
        other=chance.choice(others) if quorums == _ZONE_AND_ONE else "",
    )


def _lurking(fault: Fault, profile: Profile, chance: Random) -> Fault:
    """Let a fault wait for an occasion; a client that it hits is the one that the occasion has."""
    if fault.kind is Kind.CLIENT_KILL:
        fault = dataclasses.replace(fault, target=WHO)
    elif fault.kind in (Kind.CUT, Kind.RESET):
        bookie = member(chance.randrange(4))
        sending = fault.kind is Kind.CUT and chance.random() < 0.5
        target, other = (WHO, bookie) if sending else (bookie, WHO)
        fault = dataclasses.replace(fault, target=target, other=other)
    return dataclasses.replace(
        fault,
        occasion=chance.choice(profile.occasions),
        behind_ms=int(2 * (300 ** chance.random())),
    )


def _at_moments_of_their_own(faults: list[Fault]) -> tuple[Fault, ...]:
    """Let no two faults share a moment: a fault is named by it."""
    apart: list[Fault] = []
    for fault in sorted(faults, key=lambda fault: fault.at_ms):
        at_ms = max(fault.at_ms, apart[-1].at_ms + 1) if apart else fault.at_ms
        apart.append(dataclasses.replace(fault, at_ms=at_ms))
    return tuple(apart)


def _fault(
    kind: Kind, bookies: list[str], clients: list[str], chaos_ms: int, chance: Random
) -> Fault:
    # Most faults are aimed at a member of the ensemble that is written to when they happen.
    members = [member(position) for position in range(4)]
    bookies = [*bookies, *members, *members, *members]
    target, other = chance.choice(bookies), ""
    if kind in (Kind.PAUSE, Kind.META_CUT, Kind.META_EXPIRY, Kind.META_LAG):
        target = chance.choice([*bookies, *clients * (len(bookies) // 2)])
    elif kind in (Kind.ZONE_POWER, Kind.ZONE_CUT):
        target = chance.choice(ZONES)
    elif kind is Kind.STRAND:
        target = WHO
    elif kind is Kind.CLIENT_KILL:
        # Who dies is most often a recoverer: what it leaves behind is the hardest to take over.
        recoverers = [name for name in clients if name.startswith("recoverer")]
        target = chance.choice([*clients, *recoverers * 2])
    elif kind in (Kind.CUT, Kind.RESET):
        pair = [target, chance.choice(clients)]
        if kind is Kind.CUT:
            chance.shuffle(pair)
        target, other = pair
    if chaos_ms > CHAOS_MS and kind in (Kind.ZONE_POWER, Kind.ZONE_CUT, Kind.POWER):
        return Fault(
            at_ms=CALM_AT_FIRST_MS + int(chance.random() * chaos_ms / 2),
            kind=kind,
            target=target,
            for_ms=int(chance.random() * chaos_ms / 2),
        )
    lasts_ms = 300 + 1_200 * chance.random() if kind is Kind.STRAND else 30 * 100 ** chance.random()
    return Fault(
        at_ms=CALM_AT_FIRST_MS + int(chance.random() * (chaos_ms - 2 * CALM_AT_FIRST_MS)),
        kind=kind,
        target=target,
        other=other,
        for_ms=int(lasts_ms),
    )
