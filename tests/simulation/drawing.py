"""Draws what happens in a world: a scenario, from a profile and a seed."""

import dataclasses
from random import Random
from typing import Final

from tests.simulation import log_cast, outages
from tests.simulation.profiles import QUORUMS, ZONE_AND_ONE, Profile
from tests.simulation.scenarios import (
    CALM_AT_FIRST_MS,
    CHAOS_MS,
    WHO,
    ZONES,
    Fault,
    Kind,
    Occasion,
    Scenario,
    at_moments_of_their_own,
    bookie_names,
    member,
)
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.twin.twin import Weather

#: It costs as much as half of a small world.
_FINAL_POWER_LOSS: Final = 0.2
#: Faults that find their targets when they happen.
_OF_WHOM_IT_CONCERNS: Final = frozenset(
    {
        Kind.STRAND,
        Kind.HALF_WAY,
        Kind.DELETION,
        Kind.LEDGER_GONE,
        Kind.NEWCOMERS,
        Kind.STRANGER,
    }
)


def draw(profile: Profile, seed: int) -> Scenario:
    """Draw the scenario of a seed."""
    chance = Random(f"{profile.name}/{seed}/scenario")
    shapes = profile.quorums or QUORUMS
    quorums = chance.choices([quorums for _, quorums in shapes], [weight for weight, _ in shapes])[
        0
    ]
    bookies_a_zone = 4 if quorums == ZONE_AND_ONE else chance.choice((2, 2, 2, 3))
    if profile.autorecoveries:
        bookies_a_zone = 3  # so that a part of a zone can be lost, and more than one bookie
    writers, readers, recoverers = _cast(profile, chance)
    if profile.log_writers:
        writers = readers = recoverers = 0
    strength = chance.random()
    clients = [
        *(f"writer-{number}" for number in range(writers)),
        *(f"reader-{number}" for number in range(readers)),
        *(f"recoverer-{number}" for number in range(recoverers)),
        *(f"autorecovery-{number}" for number in range(profile.autorecoveries)),
        *(f"mender-{number}" for number in range(profile.menders)),
        *log_cast.names(profile.log_writers, profile.log_queries),
    ]
    bookies_max = profile.bookies_beside and quorums.ensemble + profile.bookies_beside
    bookies = bookie_names(bookies_a_zone, bookies_max)
    faults = _faults(profile, strength, bookies, clients, chance)
    if profile.loses_zone:
        faults = at_moments_of_their_own([*faults, _zone_loss(quorums, bookies, chance)])
    faults = at_moments_of_their_own([*faults, *_upheavals(profile, chance)])
    if profile.loses_disk:
        faults = at_moments_of_their_own([*faults, _disk_loss(chance)])
    drawn = Scenario(
        profile=profile.name,
        seed=seed,
        quorums=quorums,
        bookies_a_zone=bookies_a_zone,
        weather=_weather(profile, strength, chance),
        meta=dataclasses.replace(
            profile.meta, delay_max_ms=1 + int(profile.meta.delay_max_ms * chance.random())
        ),
        disk_max_ms=1 + int(profile.disk_max_ms * chance.random()),
        session_ms=profile.session_ms,
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
        window_entries=chance.choice(profile.windows),
        faults=faults,
        final_power_loss=bool(profile.kinds) and chance.random() < _FINAL_POWER_LOSS,
        one_stays_dead=bool(profile.kinds)
        and quorums.ack > 1
        and not profile.loses_copies
        and chance.random() < 0.5,
        strict=profile.loses_zone or profile.autorecoveries > 0,
        bookies_max=bookies_max,
        menders=profile.menders,
        log_writers=profile.log_writers,
        log_queries=profile.log_queries,
        upkeep_every_ms=profile.upkeep_every_ms,
        frames_a_reply=chance.choice((0, 1, 2)) if profile.menders else 0,
    )
    return outages.happening(drawn, bookies, chance) if profile.autorecoveries else drawn


def _cast(profile: Profile, chance: Random) -> tuple[int, int, int]:
    """Draw how many writers, readers and recoverers there are."""
    writers = chance.choice((1, 1, 1, 2))
    readers = max(chance.choice((0, 1, 1)), profile.readers_min)
    recoverers = chance.choice((1, 1, 2, 2, 3))
    recoverers = max(min(recoverers, profile.recoverers_max), profile.recoverers_min)
    return min(writers, profile.writers_max), min(readers, profile.readers_max), recoverers


def _weather(profile: Profile, strength: float, chance: Random) -> Weather:
    """Draw what the network does."""
    return Weather(
        delay_min_ms=0.2,
        delay_max_ms=0.3 + profile.delay_max_ms * chance.random(),
        call_loss=profile.call_loss * chance.choice((0, strength)),
        call_repeat=profile.call_loss * chance.choice((0, strength)),
        disconnect=profile.disconnect * chance.choice((0, strength)),
        keep_alive_ms=3_000,
        uneven=chance.random() < profile.uneven,
    )


def _faults(
    profile: Profile, strength: float, bookies: list[str], clients: list[str], chance: Random
) -> tuple[Fault, ...]:
    faults = []
    for kind, most in profile.kinds.items():
        # A kind in four is left out, whatever the strength: the others get further without it.
        number = 0 if chance.random() < 0.25 else round(most * strength * (0.5 + chance.random()))
        for _ in range(number):
            fault = _fault(kind, bookies, clients, profile.trouble_ms or profile.chaos_ms, chance)
            if kind in (Kind.HALF_WAY, Kind.NEWCOMERS):
                fault = dataclasses.replace(fault, occasion=Occasion.TAIL)
            elif kind is not Kind.STRAND and chance.random() < profile.lurking:
                fault = _lurking(fault, profile, chance)
            faults.append(fault)
    return at_moments_of_their_own(faults)


def _upheavals(profile: Profile, chance: Random) -> list[Fault]:
    """Draw what comes once in a history, if it comes at all."""
    found = []
    if profile.outage_ms:
        began_ms = chance.randrange(CALM_AT_FIRST_MS, CHAOS_MS)
        for_ms = chance.randrange(profile.outage_ms, profile.outage_ms + 3_000)
        found.append(Fault(at_ms=began_ms, kind=Kind.STORE_OUTAGE, target="", for_ms=for_ms))
    if profile.sets_back:
        # The backup is of a moment before, which is as far back as this fault lasts.
        at_ms = chance.randrange(profile.chaos_ms // 4, profile.chaos_ms // 2)
        for_ms = chance.randrange(30, at_ms - CALM_AT_FIRST_MS // 2)
        found.append(Fault(at_ms=at_ms, kind=Kind.SET_BACK, target="", for_ms=for_ms))
    return found


def _zone_loss(quorums: Quorums, bookies: list[str], chance: Random) -> Fault:
    zone = chance.choice(ZONES)
    others = [bookie for bookie in bookies if not bookie.startswith(f"bk-{zone}-")]
    return Fault(
        at_ms=chance.randrange(CHAOS_MS // 4, CHAOS_MS * 3 // 4),
        kind=Kind.ZONE_LOSS,
        target=zone,
        other=chance.choice(others) if quorums == ZONE_AND_ONE else "",
    )


def _disk_loss(chance: Random) -> Fault:
    return Fault(
        at_ms=chance.randrange(CHAOS_MS // 4, CHAOS_MS // 2),
        kind=Kind.DISK_LOSS,
        target=member(chance.randrange(4)),
        for_ms=chance.randrange(300),
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
    elif kind in _OF_WHOM_IT_CONCERNS:
        target = WHO
    elif kind is Kind.CLIENT_KILL:
        # Most often a recoverer dies: what it leaves behind is the hardest to take over.
        recoverers = [name for name in clients if name.startswith("recoverer")]
        target = chance.choice([*clients, *recoverers * 2])
    elif kind in (Kind.CUT, Kind.RESET):
        pair = [target, chance.choice(clients)]
        if kind is Kind.CUT:
            chance.shuffle(pair)
        target, other = pair
    strands = kind in (Kind.STRAND, Kind.HALF_WAY, Kind.NEWCOMERS)
    lasts_ms = 200 + 600 * chance.random() if strands else 20 * 50 ** chance.random()
    return Fault(
        at_ms=CALM_AT_FIRST_MS + int(chance.random() * (chaos_ms - 2 * CALM_AT_FIRST_MS)),
        kind=kind,
        target=target,
        other=other,
        for_ms=int(lasts_ms),
    )
