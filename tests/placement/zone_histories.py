"""Random histories of a small cluster, and an observer that says what must not happen.

The observer shares no code with the machines. It keeps its own account of incidents, held time and
grace from what is seen from outside: states, permissions, true time, and the cause of each change.
So it does of the time in ``suspect``, and of what a release of the cluster was given for: another
zone's incident holds the cluster, and behind it that release stands again, as it was.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import strategies as st

from tests.placement.zone_world import ANNA, MINUTE, SECOND, A, B, C, World, members, policy, where
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.policy.rules import (
    OnZoneLoss,
    RepairRules,
    RepairScope,
    Resume,
    ZoneWatchRules,
)
from zonekeeper.placement.zones.freeze import ClusterObservation, SwitchPhase
from zonekeeper.placement.zones.gate import Permission, RefusedError
from zonekeeper.placement.zones.observation import Observation

#: Short times, so that a history of minutes goes through everything.
WATCH = ZoneWatchRules(
    session_timeout_ms=10 * SECOND,
    start_grace_ms=50 * SECOND,
    suspect_for_ms=20 * SECOND,
    between_marks_for_ms=MINUTE,
    hold_up_ms=30 * SECOND,
    hold_up_max_ms=2 * MINUTE,
    flap_window_ms=5 * MINUTE,
    maintenance_max_ms=2 * MINUTE,
)
JUMP = 1_000 * MINUTE
HELD, OPEN, RELEASED = Permission.HELD, Permission.OPEN, Permission.RELEASED
FINE = (Observation.UP, Observation.DEGRADED, ClusterObservation.CALM)
LOST = (Observation.DOWN, Observation.RETURNING, ClusterObservation.FROZEN)

RULES = st.builds(
    RepairRules,
    scope=st.sampled_from(RepairScope),
    resume=st.sampled_from(Resume),
    on_zone_loss=st.sampled_from(OnZoneLoss),
    after_ms=st.just(3 * MINUTE),
    remind_every_ms=st.just(MINUTE),
    bookie_recovery_delay_ms=st.just(40 * SECOND),
)

Act = Callable[["Watched"], None]

#: An incident of a zone: its zone, and how many it has had.
Incident = tuple[ZoneName, int]


@dataclass
class Account:
    """What the observer knows of one zone, or of the cluster."""

    held_ms: int = 0
    #: The incident was down at some time.
    real: bool = False
    #: It has been seen fine since.
    over: bool = True
    #: An earlier incident that was real still waits for a person.
    waits: bool = False
    person: bool = False
    incidents: int = 0


@dataclass
class Standing:
    """A release of the cluster that stands again: what it was given for, and the account then."""

    covered: frozenset[Incident]
    account: Account


@dataclass
class Seen:
    """What a history went through: a lane says by it whether it has seen what it is for."""

    publications: int = 0
    suspensions: int = 0
    restorations: int = 0
    downs_by_flapping: int = 0


@dataclass
class Watched(World):
    """A world whose every evaluation is checked."""

    #: None is the cluster's.
    accounts: dict[ZoneName | None, Account] = field(default_factory=dict)
    #: What the cluster's hold or release is of.
    covered: frozenset[Incident] = frozenset()
    #: The cluster's release, while another zone's incident holds the cluster.
    standing: Standing | None = None
    #: By zone: when (by counted time) it was suspect, from and to.
    suspect: dict[ZoneName, list[tuple[int, int]]] = field(default_factory=dict)
    counted_ms: int = 0
    seen: Seen = field(default_factory=Seen)
    #: True time of the last evaluation; None: the next one is the first of its watch, or a gap.
    last_look_ms: int | None = None
    watched_ms: int = 0
    evaluated_ms: int = 0
    enabled_by_person: bool = False

    def look(self) -> None:
        """Evaluate, check what came of it, and what the auditor published."""
        before: dict[ZoneName | None, Permission] = {}
        epoch, lasting, phase = 0, False, SwitchPhase.UNUSED
        was = {zone: self.state(zone)[0] for zone in self.health.zones}
        if self.health.cluster is not None:
            gates: list[ZoneName | None] = [None, *self.health.zones]
            before = {zone: self.permission(zone) for zone in gates}
            epoch, phase = self.cluster.delays_epoch, self.cluster.switch.phase
            held = self.accounts[None]
            lasting = held.real or held.waits or held.person
        published = set(self.published)
        step_ms = 0
        if self.watching:
            if self.last_look_ms is not None and self.now_ms - self.last_look_ms <= 70 * SECOND:
                step_ms = self.now_ms - self.last_look_ms
                self.watched_ms += step_ms
            else:
                self.watched_ms = 0
            self.last_look_ms = self.evaluated_ms = self.now_ms
        super().look()
        if self.watching:
            self.counted_ms += step_ms
            for zone in self.health.zones:
                self._check(zone, before.get(zone), step_ms)
                self._check_flapping(zone, was.get(zone), step_ms)
            now_at = self.cluster.switch.phase
            enabled = now_at is SwitchPhase.ENABLED and phase is not now_at
            self._check_cluster(before.get(None), step_ms, enabled=enabled)
            self.enabled_by_person = False
        if before:
            opened = before[None] is HELD and self.permission(None) is not HELD
            assert self.cluster.delays_epoch == epoch + (opened and lasting)
        for bookie in set(self.published) - published:
            self._check_published(bookie)

    def _check_flapping(self, zone: ZoneName, was: Observation | None, step_ms: int) -> None:
        """Check that a zone that was suspect for too long in sum is down, if it is failing."""
        rules, spans = self.policy.zone_watch, self.suspect.setdefault(zone, [])
        if was is Observation.SUSPECT:
            spans.append((self.counted_ms - step_ms, self.counted_ms))
        since_ms = self.counted_ms - rules.flap_window_ms
        suspect_ms = sum(to - max(begun, since_ms) for begun, to in spans if to > since_ms)
        count, state = self.zone(zone).evidence, self.state(zone)[0]
        failing = 2 * count.available <= count.total and count.lost >= 2
        if suspect_ms >= 3 * rules.suspect_for_ms and failing and was is not Observation.UNKNOWN:
            assert state is Observation.DOWN, f"{zone} flaps, and is {state}"
            self.seen.downs_by_flapping += was is not Observation.DOWN

    def _check_cluster(self, before: Permission | None, step_ms: int, *, enabled: bool) -> None:
        """Check the cluster as a zone; its release is of what it was given for."""
        account = self.accounts.setdefault(None, Account())
        account.held_ms += step_ms if before is HELD else 0
        if enabled and before is HELD and not account.person:
            before = OPEN if account.over and self.standing is None else RELEASED
            self._released()
            account = self.accounts[None]
        current = frozenset(
            (zone, one.incidents)
            for zone, one in self.accounts.items()
            if zone is not None and not one.over
        )
        threatened = self.freeze() not in FINE
        standing = self.standing
        if standing is not None and (
            not threatened or (standing.covered and not standing.covered & current)
        ):
            self.standing = None
        if before is RELEASED and threatened and not account.over and current - self.covered:
            self.seen.suspensions += 1
            self.standing = Standing(self.covered, account)
            account = self.accounts[None] = Account()
        if self.standing is None:
            self._check(None, before, 0)
        else:
            self._check_others(self.standing, current - self.standing.covered, before)
        if self.permission(None) is HELD:
            self.covered = current
        else:
            self.standing = None

    def _check_others(
        self, standing: Standing, others: frozenset[Incident], before: Permission | None
    ) -> None:
        """Check the hold for zones that a standing release does not cover."""
        account, now, repair = self.accounts[None], self.permission(None), self.policy.repair
        in_grace = self.watched_ms < self.policy.zone_watch.start_grace_ms
        if others and account.over:
            account.held_ms, account.real, account.over = 0, False, False
            assert now is HELD, "another zone fails, and it was not released"
        account.real |= any(self.accounts[zone].real for zone, _ in others)
        if not others and not account.over:
            account.over = True
            account.waits |= account.real and before is HELD
        if repair.resume is not Resume.MANUAL:
            account.waits = False
        if others:
            due = (
                repair.on_zone_loss is OnZoneLoss.REPAIR_AFTER
                and account.held_ms >= repair.after_ms
                and account.real
                and not in_grace
                and not account.person
            )
            assert (now is RELEASED) is due, "held for another zone, until the rule is due"
            return
        if in_grace or account.waits or account.person:
            assert now is HELD
            return
        assert now is RELEASED, "what was released does not stand again"
        self.seen.restorations += 1
        self._restore()
        assert self.cluster.gate.held_ms == self.accounts[None].held_ms

    def _restore(self) -> None:
        assert self.standing is not None
        person = self.accounts[None].person
        self.accounts[None] = replace(self.standing.account, person=person)
        self.covered, self.standing = self.standing.covered, None

    def _released(self) -> None:
        """Note that a person released the cluster: what is held now, or all that stood before."""
        account = self.accounts[None]
        account.person, account.waits = False, False
        if self.standing is not None and account.over:
            self._restore()
        self.standing = None

    def _check(self, zone: ZoneName | None, before: Permission | None, step_ms: int) -> None:
        """Check a gate."""
        account = self.accounts.setdefault(zone, Account())
        state: Observation | ClusterObservation
        state, now = self.state(zone) if zone else (self.freeze(), self.permission(None))
        enabled = self.enabled_by_person
        account.held_ms += step_ms if before is HELD else 0
        threatened = state not in FINE
        began = threatened and account.over
        if began:
            account.held_ms, account.real, account.over = 0, False, False
            account.incidents += 1
            assert now is HELD, "a new incident begins held"
        account.real |= state in LOST
        in_grace = self.watched_ms < self.policy.zone_watch.start_grace_ms
        repair = self.policy.repair

        if not threatened and not account.over:
            account.over = True
            account.waits |= account.real and before is HELD
        if repair.resume is not Resume.MANUAL:
            account.waits = False
        due = (
            repair.on_zone_loss is OnZoneLoss.REPAIR_AFTER
            and account.held_ms >= repair.after_ms
            and state in LOST
            and not in_grace
            and not account.person
        )
        if before is HELD and now is not HELD and not enabled:
            assert not in_grace, "a watch in its start grace opened"
            assert not account.person, "a person's hold ended by itself"
            if threatened:
                assert now is RELEASED
                assert due, "opened under a threat, and no rule said so"
            else:
                assert not account.waits, "did not wait for a person"
        if due:
            assert now is not HELD, "the owner's rule was due"
        if now is not HELD:
            account.waits = False
            assert not threatened or now is RELEASED

    def _check_published(self, bookie: BookieId) -> None:
        zone = ZoneName(bookie[0])
        self.seen.publications += 1
        assert self.enabled
        assert self.now_ms - self.evaluated_ms <= 70 * SECOND, "nobody watched any more"
        assert self.permission(None) is not HELD
        state, permission = self.state(zone)
        assert permission is RELEASED or state in FINE
        assert where(bookie) not in self.maintenance

    # ── what may happen ──

    def taken_over(self) -> None:
        """Another watch begins."""
        self.last_look_ms = None
        self.change_watcher(clock_ms=self.now_ms * 7919 % 1_000_003)

    def jumped(self, jump_ms: int) -> None:
        """The watch's clock jumps."""
        self.watch_clock_ms += jump_ms
        self.last_look_ms = None
        self.look()

    def unwatched(self, for_ms: int) -> None:
        """No zone watch runs for a time."""
        self.watching = False
        self.wait(for_ms)
        self.watching = True
        self.look()

    def flaps(self, zone: ZoneName, back: int, times: int) -> None:
        """Go away for less than the debounce, come back in part for a moment, and so on."""
        for _ in range(times):
            self.lose(members(zone, *R4))
            self.wait(18 * SECOND)
            self.come(members(zone, *range(back)))
            self.wait(2 * SECOND)

    def person_releases(self, zone: ZoneName | None) -> None:
        """A person releases a zone or the cluster, if it is held."""
        if self.permission(zone) is not HELD:
            with pytest.raises(RefusedError):
                self.release(zone)
            return
        if zone is None:
            self._released()
        else:
            account = self.accounts[zone]
            account.person, account.waits = False, False
        self.release(zone)

    def person_holds(self, zone: ZoneName | None) -> None:
        """A person holds a zone or the cluster."""
        account = self.accounts[zone]
        if self.permission(zone) is not HELD:
            account.held_ms = 0
        account.person = True
        self.hold(zone, ANNA)

    def person_enables(self) -> None:
        """A person turns replication on, whether the watch had turned it off or not."""
        if not self.enabled:
            self.enabled, self.enabled_by_person = True, True
            self.look()


def _zones() -> st.SearchStrategy[ZoneName]:
    return st.sampled_from([A, B, C])


def _gates() -> st.SearchStrategy[ZoneName | None]:
    return st.sampled_from([A, B, C, None])


def _some() -> st.SearchStrategy[list[BookieId]]:
    return st.builds(
        lambda zone, numbers: members(zone, *numbers),
        _zones(),
        st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True),
    )


def _acts() -> st.SearchStrategy[tuple[str, Act]]:
    """Give things that may happen, each with its name for the report."""
    seconds = st.integers(1, 12).map(lambda tens: tens * 10 * SECOND)
    return st.one_of(
        seconds.map(lambda ms: (f"wait {ms}", lambda world: world.wait(ms))),
        st.just(("wait long", lambda world: world.wait(2 * MINUTE))),
        st.just(("lose a", lambda world: world.lose(members(A, *R4)))),
        st.just(("back a", lambda world: world.come(members(A, *R4)))),
        st.just(("release a", lambda world: world.person_releases(A))),
        _zones().map(lambda zone: (f"lose {zone}", lambda world: world.lose(members(zone, *R4)))),
        _zones().map(lambda zone: (f"back {zone}", lambda world: world.come(members(zone, *R4)))),
        _some().map(lambda some: (f"lose {some}", lambda world: world.lose(some))),
        _some().map(lambda some: (f"back {some}", lambda world: world.come(some))),
        st.tuples(_zones(), st.integers(0, 4), st.integers(1, 6)).map(
            lambda drawn: (f"flap {drawn}", lambda world: world.flaps(*drawn))
        ),
        st.just(("new watch", Watched.taken_over)),
        st.sampled_from([JUMP, -JUMP]).map(lambda ms: (f"jump {ms}", lambda w: w.jumped(ms))),
        seconds.map(lambda ms: (f"unwatched {ms}", lambda world: world.unwatched(ms))),
        _gates().map(lambda zone: (f"release {zone}", lambda w: w.person_releases(zone))),
        _gates().map(lambda zone: (f"hold {zone}", lambda w: w.person_holds(zone))),
        st.just(("enable", Watched.person_enables)),
        st.tuples(_zones(), st.integers(0, 2), seconds).map(
            lambda drawn: (
                f"maintenance {drawn}",
                lambda world: world.declare(*drawn, token=f"m-{drawn}-{world.now_ms}"),
            )
        ),
    )


R4 = range(4)
HISTORIES = st.lists(_acts(), min_size=12, max_size=40)


def begun(repair: RepairRules, *, cold: bool) -> Watched:
    """Give four bookies a zone, at the first start of a watch or after its grace."""
    world = Watched(policy=policy(WATCH, repair), repair_ms=30 * SECOND)
    for zone in (A, B, C):
        for bookie in members(zone, *R4):
            world.present[bookie] = True
    world.look()
    if not cold:
        world.wait(WATCH.start_grace_ms)
    return world
