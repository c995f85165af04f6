"""How zones go away while their losses are watched: faults of one shape, and others beside it.

Times are long enough for everything that follows (sessions run out, gates close and open, ledgers
are repaired), and the policy's timers are as short as they may be (``world``).
"""

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Final

from tests.simulation.repair_rules import REPAIR_AFTER_MS
from tests.simulation.scenarios import ZONES, Fault, Kind, Scenario, Shape, at_moments_of_their_own

#: Until then the first watch is at work.
_QUIET_MS: Final = 6_000
#: So long before everything heals nothing more happens.
_END_MS: Final = 3_000
#: Repairs of a zone's losses need their time, and the rule's shortest delay is a minute.
_RELEASED_MS: Final = 38_000
_RULED_MS: Final = 100_000
#: The least that a policy may say.
_SLOW_BYTES_A_SECOND: Final = 1 << 10


def happening(drawn: Scenario, bookies: list[str], chance: Random) -> Scenario:
    """Give a scenario an outage of some shape, and an end to it."""
    shapes = list(Shape)
    shape = shapes[drawn.seed % len(shapes)]
    first, second, other = chance.sample(ZONES, 3)
    start_ms = _QUIET_MS + chance.randrange(6_000)
    ends = chance.choice(("by itself", "by itself", "by a person", "by a rule"))
    may_end = shape not in (Shape.FLAPPING, Shape.TWO_ZONES, Shape.ALL_IN_VIEW)
    released = may_end and ends != "by itself"
    ruled = released and ends == "by a rule"
    lasts_ms = chance.randrange(12_000, 30_000)
    if released:
        lasts_ms = _RULED_MS if ruled else _RELEASED_MS
    chaos_ms = drawn.chaos_ms + (_RULED_MS - _RELEASED_MS if ruled else 0)
    end_ms = chaos_ms - _END_MS
    outage = _Outage(shape, first, second, start_ms, lasts_ms, end_ms, bookies, chance)
    faults = outage.faults()
    if released and not ruled:
        at_ms = start_ms + chance.randrange(7_000, 11_000)
        faults.append(Fault(at_ms=at_ms, kind=Kind.RELEASE, target=first))
    if may_end and chance.random() < 0.5:
        faults.append(outage.loss_elsewhere(other))
    if chance.random() < 0.3:
        lag_ms = chance.randrange(100, 700)
        target = chance.choice(("autorecovery-0", "autorecovery-1"))
        at_ms = start_ms + chance.randrange(lasts_ms)
        faults.append(Fault(at_ms=at_ms, kind=Kind.META_LAG, target=target, for_ms=lag_ms))
    # Half of the worlds repair so slowly that there is always work in flight to be stopped; in the
    # others a repair has its time.
    paced = chance.random() < 0.5
    habits = dataclasses.replace(drawn.habits, payload_max=1_000 if paced else 200)
    return dataclasses.replace(
        drawn,
        habits=habits,
        faults=at_moments_of_their_own([fault for fault in faults if fault.at_ms < end_ms]),
        shape=shape,
        chaos_ms=chaos_ms,
        repair_after_ms=REPAIR_AFTER_MS if ruled else None,
        repair_bytes_per_second=_SLOW_BYTES_A_SECOND if paced else 0,
        clock_drift=chance.choice((0.0, 0.01)),
        final_power_loss=False,
        one_stays_dead=False,
    )


@dataclasses.dataclass(slots=True)
class _Outage:
    shape: Shape
    zone: str
    second: str
    start_ms: int
    lasts_ms: int
    end_ms: int
    bookies: list[str]
    chance: Random

    def faults(self) -> list[Fault]:
        ways: dict[Shape, Callable[[], list[Fault]]] = {
            Shape.WHOLE: lambda: [self._whole()],
            Shape.SLOW: self._slowly,
            Shape.PARTIAL: lambda: self._one_by_one(self._mine[1:], 300),
            Shape.FLAPPING: self._flaps,
            Shape.TWO_ZONES: self._two,
            Shape.ALL_IN_VIEW: lambda: [
                self._fault(Kind.META_CUT, name, self.chance.randrange(900))
                for name in self.bookies
            ],
            Shape.IN_MAINTENANCE: self._in_maintenance,
            Shape.FAILOVER: lambda: [
                self._whole(),
                *self._troubles((Kind.CLIENT_KILL,), 4_000),
            ],
            Shape.ISOLATED: lambda: [
                self._whole(),
                *self._troubles((Kind.META_CUT, Kind.PAUSE), 8_000),
            ],
        }
        return ways[self.shape]()

    def loss_elsewhere(self, zone: str) -> Fault:
        """Lose one bookie of another zone, until the end or until it is being repaired."""
        at_ms = max(_QUIET_MS, self.start_ms + self.chance.randrange(-4_000, 8_000))
        target = self.chance.choice(self._of(zone))
        for_ms = self.chance.choice((self.end_ms - at_ms, self.chance.randrange(9_000, 15_000)))
        return Fault(at_ms=at_ms, kind=Kind.POWER, target=target, for_ms=for_ms)

    def _of(self, zone: str) -> list[str]:
        return [bookie for bookie in self.bookies if bookie.startswith(f"bk-{zone}-")]

    def _fault(self, kind: Kind, target: str, behind_ms: int = 0) -> Fault:
        at_ms = self.start_ms + behind_ms
        for_ms = min(self.lasts_ms - behind_ms // 2, self.end_ms - at_ms)
        return Fault(at_ms=at_ms, kind=kind, target=target, for_ms=for_ms)

    @property
    def _mine(self) -> list[str]:
        return self._of(self.zone)

    def _two(self) -> list[Fault]:
        later_ms = self.start_ms + self.chance.randrange(6_000)
        later = dataclasses.replace(self, zone=self.second, start_ms=later_ms)
        return [self._whole(), later._whole()]

    def _whole(self) -> Fault:
        return self._fault(self.chance.choice((Kind.ZONE_POWER, Kind.ZONE_CUT)), self.zone)

    def _one_by_one(self, bookies: list[str], apart_ms: int) -> list[Fault]:
        return [
            self._fault(Kind.POWER, bookie, number * apart_ms)
            for number, bookie in enumerate(bookies)
        ]

    def _slowly(self) -> list[Fault]:
        """Lose one after the other; often the first is being repaired when the zone fails."""
        first, *rest = self._mine
        ahead_ms = self.chance.choice((1_000, 9_000, 10_000, 11_000))
        return [
            self._fault(Kind.POWER, first),
            *(
                self._fault(Kind.POWER, bookie, ahead_ms + number * self.chance.randrange(3_000))
                for number, bookie in enumerate(rest)
            ),
        ]

    def _flaps(self) -> list[Fault]:
        faults, at_ms = [], self.start_ms
        while at_ms < self.end_ms - 12_000:
            for_ms = self.chance.randrange(3_000, 8_000)
            faults.append(Fault(at_ms=at_ms, kind=Kind.ZONE_POWER, target=self.zone, for_ms=for_ms))
            at_ms += for_ms + self.chance.randrange(2_000, 8_000)
        return faults

    def _in_maintenance(self) -> list[Fault]:
        bookie = self.chance.choice(self._mine)
        declared = self._fault(Kind.MAINTENANCE, bookie)
        stopped = self._fault(Kind.POWER, bookie, 500)
        return [declared, stopped, dataclasses.replace(self._whole(), at_ms=self.start_ms + 5_000)]

    def _troubles(self, kinds: tuple[Kind, ...], most_ms: int) -> list[Fault]:
        chance = self.chance
        return [
            Fault(
                at_ms=self.start_ms + chance.randrange(-1_000, 12_000),
                kind=chance.choice(kinds),
                target=chance.choice(("autorecovery-0", "autorecovery-1")),
                for_ms=chance.randrange(500, most_ms),
            )
            for _ in range(chance.randint(2, 4))
        ]
