"""The kinds of trouble that there are: each profile is a mixture, and a seed is one draw of it."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.scenarios import CHAOS_MS, Habits, Kind, MetaWeather, Occasion
from tests.simulation.surroundings import SESSION_MS
from zonekeeper.placement.base.quorums import Quorums


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Kinds of trouble, with the greatest number of each."""

    name: str
    kinds: Mapping[Kind, int] = field(default_factory=dict)
    delay_max_ms: float = 5
    call_loss: float = 0
    disconnect: float = 0
    meta: MetaWeather = field(default_factory=MetaWeather)
    disk_max_ms: int = 3
    session_ms: int = SESSION_MS
    readers_min: int = 1
    recoverers_min: int = 0
    recoverers_max: int = 2
    #: How often a fault waits for an occasion, and which there are.
    lurking: float = 0
    occasions: tuple[Occasion, ...] = ()
    #: How often the network is uneven.
    uneven: float = 0.25
    habits: Habits = field(default_factory=Habits)
    #: How many entries recoveries read and write back at a time.
    windows: tuple[int, ...] = (1, 1, 3, 1_000)
    #: The shapes of ledgers, each with how many of them there are.
    quorums: tuple[tuple[int, Quorums], ...] = ()
    #: Processes that repair what is lost; timers are such that they get to it.
    autorecoveries: int = 0
    chaos_ms: int = CHAOS_MS
    #: Is a zone lost for good, and one more bookie where the shape survives that?
    loses_zone: bool = False
    #: Is one bookie's disk lost for good?
    loses_disk: bool = False
    writers_max: int = 2
    readers_max: int = 2
    #: So many bookies more than an ensemble has; None: two or three a zone.
    bookies_beside: int | None = None
    #: Faults begin until then; None: until shortly before everything heals.
    trouble_ms: int | None = None
    menders: int = 0
    log_writers: int = 0
    log_queries: int = 0
    upkeep_every_ms: int = 0
    #: For so long, at least, the metadata store is away for all; 0: it is not.
    outage_ms: int = 0
    #: Is the metadata store set back to a backup?
    sets_back: bool = False

    @property
    def loses_copies(self) -> bool:
        """Are some copies gone for good before a bookie stays dead?"""
        lost = {Kind.ROT, Kind.HIDDEN_ROT, Kind.DISK_GONE, Kind.NEWCOMERS} & self.kinds.keys()
        return self.loses_zone or self.loses_disk or bool(lost)

    @property
    def is_long(self) -> bool:
        """Does a seed of it take as long as many others?"""
        return self.autorecoveries > 0 or self.log_writers > 0


#: With how many of one seed in so many each shape of ledger is drawn.
QUORUMS: Final = (
    (6, Quorums(ensemble=3, write=3, ack=2)),
    (4, Quorums(ensemble=3, write=3, ack=2, ack_zones=2)),
    (2, Quorums(ensemble=4, write=3, ack=2)),
    (2, Quorums(ensemble=5, write=3, ack=2)),
    (1, Quorums(ensemble=2, write=2, ack=1)),
    (1, Quorums(ensemble=5, write=2, ack=2)),
    (1, Quorums(ensemble=6, write=2, ack=1)),
    (1, Quorums(ensemble=4, write=4, ack=3)),
)

ZONE_AND_ONE: Final = Quorums(ensemble=6, write=6, ack=4)

#: Where two bookies that are fenced, or deny an entry, are enough for a recovery.
_COVERED_BY_TWO: Final = (
    (4, Quorums(ensemble=3, write=3, ack=2)),
    (1, Quorums(ensemble=3, write=3, ack=2, ack_zones=2)),
    (3, Quorums(ensemble=4, write=4, ack=3)),
    (1, Quorums(ensemble=4, write=3, ack=2)),
    (1, Quorums(ensemble=2, write=2, ack=1)),
)

_MORE_THAN_ONE_ACK: Final = tuple((weight, shape) for weight, shape in QUORUMS if shape.ack > 1)

_HASTY: Final = Habits(
    ledgers_max=5, entries_max=3, bursts_max=5, pause_max_ms=100, linger_max_ms=200, grid_ms=300
)

_CALM: Final = Profile(name="calm", recoverers_max=0)

#: Contenders for one log of short ledgers, which others recover, too; readers, and a person who
#: trims. Bookies collect what was deleted.
_LOGS: Final = Profile(
    name="logs",
    kinds={
        Kind.KILL: 3,
        Kind.POWER: 2,
        Kind.CUT: 5,
        Kind.RESET: 4,
        Kind.PAUSE: 3,
        Kind.CLIENT_KILL: 3,
        Kind.META_CUT: 2,
        Kind.META_LAG: 2,
        Kind.META_EXPIRY: 1,
        Kind.SLOW_BOOKIE: 3,
        Kind.STRAND: 4,
    },
    chaos_ms=2_400,
    delay_max_ms=20,
    disk_max_ms=6,
    meta=MetaWeather(delay_max_ms=8, request_loss=0.01, answer_loss=0.02),
    session_ms=600,
    uneven=0.5,
    log_writers=3,
    upkeep_every_ms=500,
    habits=dataclasses.replace(_HASTY, pause_max_ms=150),
    quorums=_MORE_THAN_ONE_ACK,
)

PROFILES: Final[Mapping[str, Profile]] = {
    profile.name: profile
    for profile in (
        _CALM,
        Profile(
            name="lossy",
            kinds={Kind.RESET: 8, Kind.CUT: 3, Kind.KILL: 3, Kind.PAUSE: 2, Kind.CLIENT_KILL: 1},
            delay_max_ms=80,
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
        # Ledgers whose bookies answer before they sync, and writers that force them; power is lost,
        # and connections break in the middle of a force. Readers ask for a LAC that was told.
        Profile(
            name="deferred",
            kinds={
                Kind.POWER: 7,
                Kind.KILL: 5,
                Kind.DISK_ERROR: 2,
                Kind.SLOW_DISK: 3,
                Kind.RESET: 4,
                Kind.CUT: 8,
                Kind.HALF_OPEN: 4,
            },
            delay_max_ms=30,
            disk_max_ms=40,
            uneven=0.5,
            readers_min=2,
            habits=Habits(deferred=0.7, told=0.8, pause_max_ms=150),
        ),
        # Ensembles change all the time, and their changes take long: on an uneven network, what
        # one bookie has acknowledged another has not seen. Sessions run out unnoticed.
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
            delay_max_ms=80,
            meta=MetaWeather(delay_max_ms=80, request_loss=0.04, answer_loss=0.06),
            session_ms=400,
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
                (1, ZONE_AND_ONE),
            ),
            loses_zone=True,
        ),
        # One disk of a member is lost and replaced, in the middle of writing and recoveries; other
        # disks keep what was synced. The bookie's session has to end before it has another.
        Profile(
            name="disk-loss",
            chaos_ms=3_600,
            kinds={
                Kind.STRAND: 4,
                Kind.POWER: 3,
                Kind.KILL: 4,
                Kind.CUT: 3,
                Kind.RESET: 3,
                Kind.CLIENT_KILL: 3,
            },
            delay_max_ms=20,
            disk_max_ms=10,
            recoverers_min=1,
            lurking=0.3,
            occasions=(Occasion.RECOVERY, Occasion.STRAND),
            uneven=0.5,
            habits=dataclasses.replace(_HASTY, ledgers_max=8, pause_max_ms=200),
            quorums=_MORE_THAN_ONE_ACK,
            loses_disk=True,
        ),
        # What was sorted rots on the disks of fewer bookies than an ack quorum, while writers die
        # whose last entries others have not got.
        Profile(
            name="corrupting",
            kinds={
                Kind.ROT: 8,
                Kind.HIDDEN_ROT: 8,
                Kind.STRAND: 3,
                Kind.POWER: 3,
                Kind.KILL: 3,
                Kind.CUT: 4,
                Kind.CLIENT_KILL: 2,
            },
            delay_max_ms=20,
            disk_max_ms=10,
            recoverers_min=1,
            lurking=0.3,
            occasions=(Occasion.RECOVERY, Occasion.STRAND),
            uneven=0.5,
            habits=dataclasses.replace(_HASTY, ledgers_max=8),
            quorums=_MORE_THAN_ONE_ACK,
        ),
        # Ledgers are recovered, deleted and collected while their writers stand still. The writers
        # go on, some of them after their bookies were started again.
        Profile(
            name="deletion",
            kinds={
                Kind.DELETION: 6,
                Kind.POWER: 3,
                Kind.KILL: 3,
                Kind.RESET: 3,
                Kind.CUT: 2,
                Kind.META_CUT: 1,
                Kind.CLIENT_KILL: 1,
            },
            delay_max_ms=10,
            disk_max_ms=5,
            recoverers_max=1,
            habits=Habits(ledgers_max=5, entries_max=4, bursts_max=12, linger_max_ms=300),
        ),
        # Ledgers are deleted and collected, segments sorted and compacted, while disks are lost,
        # one after the other and beside each other, and what was on them is repaired.
        Profile(
            name="upkeep",
            kinds={
                Kind.DISK_GONE: 4,
                Kind.STRANGER: 3,
                Kind.LEDGER_GONE: 3,
                Kind.CUT: 4,
                Kind.STRAND: 2,
                Kind.POWER: 2,
                Kind.KILL: 2,
                Kind.RESET: 2,
                Kind.CLIENT_KILL: 1,
            },
            chaos_ms=1_500,
            trouble_ms=1_300,
            delay_max_ms=8,
            disk_max_ms=4,
            session_ms=200,
            writers_max=1,
            readers_min=0,
            readers_max=0,
            recoverers_max=1,
            bookies_beside=1,
            menders=1,
            upkeep_every_ms=300,
            habits=dataclasses.replace(_HASTY, ledgers_max=3, grid_ms=600),
            quorums=_MORE_THAN_ONE_ACK,
        ),
        # Recoveries put bookies in that metadata does not name yet, and these lose their disks.
        Profile(
            name="newcomers",
            kinds={Kind.STRAND: 8, Kind.NEWCOMERS: 6, Kind.KILL: 2, Kind.RESET: 1},
            delay_max_ms=8,
            disk_max_ms=4,
            session_ms=200,
            writers_max=1,
            readers_min=0,
            readers_max=0,
            recoverers_min=1,
            recoverers_max=1,
            bookies_beside=2,
            habits=dataclasses.replace(_HASTY, ledgers_max=4, timeout_ms=100),
            windows=(1, 1, 1, 3),
            quorums=_MORE_THAN_ONE_ACK,
        ),
        # The store is away for longer than an update tries, with answers lost before.
        Profile(
            name="store-outage",
            kinds={Kind.KILL: 6, Kind.RESET: 3, Kind.CUT: 3, Kind.POWER: 2, Kind.DELETION: 1},
            chaos_ms=36_500,
            trouble_ms=1_600,
            outage_ms=30_500,
            delay_max_ms=8,
            disk_max_ms=4,
            writers_max=1,
            readers_min=0,
            readers_max=0,
            recoverers_max=1,
            bookies_beside=2,
            habits=dataclasses.replace(_HASTY, ledgers_max=4, grid_ms=8_000),
        ),
        # The store is set back to a backup while ledgers are deleted and collected.
        Profile(
            name="set-back",
            kinds={Kind.LEDGER_GONE: 4, Kind.KILL: 2, Kind.META_CUT: 2, Kind.META_LAG: 2},
            chaos_ms=2_400,
            delay_max_ms=5,
            disk_max_ms=3,
            session_ms=400,
            writers_max=1,
            readers_min=0,
            readers_max=0,
            recoverers_max=1,
            bookies_beside=1,
            upkeep_every_ms=250,
            sets_back=True,
            habits=dataclasses.replace(_HASTY, ledgers_max=6, pause_max_ms=200),
        ),
        # Zones go away in every way, single bookies elsewhere, and ledgers are repaired meanwhile:
        # ``outages`` draws the faults. Time is long, writers are slow, and timers are as short as
        # they may be.
        Profile(
            name="zone-gate",
            delay_max_ms=5,
            readers_min=0,
            recoverers_max=1,
            autorecoveries=2,
            chaos_ms=60_000,
            habits=Habits(
                ledgers_max=1_000,
                entries_max=4,
                bursts_max=4,
                pause_max_ms=5_000,
                linger_max_ms=2_000,
                grid_ms=20_000,
                timeout_ms=1_000,
                payload_max=200,
            ),
            quorums=((1, Quorums(ensemble=3, write=3, ack=2, ack_zones=2)),),
        ),
        _LOGS,
        # The same log, for which queries and a writer contend.
        dataclasses.replace(
            _LOGS,
            name="queries",
            log_writers=1,
            log_queries=2,
            chaos_ms=2_000,
            bookies_beside=1,
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
                Kind.HALF_WAY: 8,
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
            habits=dataclasses.replace(_HASTY, entries_max=8, timeout_ms=200),
            windows=(1, 1, 1, 3),
            quorums=(*_COVERED_BY_TWO, (4, Quorums(ensemble=4, write=3, ack=2))),
        ),
    )
}
