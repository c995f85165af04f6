"""Brute force: what is possible at all in a small world. It shares no code with the selector.

An ensemble, stripped of names, is a *pattern*: which positions share a zone, and which of those
share an upgrade domain. There are few patterns of six positions, so all are listed and judged once.
A topology, stripped of names, is a *world*: zones, each with the sizes of its upgrade domains. A
pattern can be built in a world if its zones can be laid over the world's, so that each upgrade
domain is large enough.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

#: Sizes of a zone's upgrade domains, largest first, for each zone.
World = tuple[tuple[int, ...], ...]
#: A zone and an upgrade domain for each position.
Pattern = tuple[tuple[int, int], ...]

UD_SIZES = tuple(itertools.combinations_with_replacement((2, 1, 0), 3))


def worlds(zones: int = 4, sizes: Sequence[tuple[int, ...]] = UD_SIZES) -> list[World]:
    """List all worlds of up to so many zones, isomorphic ones once."""
    return [
        tuple(tuple(size for size in zone if size) for zone in world if any(zone))
        for world in itertools.combinations_with_replacement(sizes, zones)
    ]


def patterns(positions: int) -> Iterator[Pattern]:
    """List all patterns: a zone and an upgrade domain get the next free number at first use."""

    def extend(pattern: Pattern) -> Iterator[Pattern]:
        if len(pattern) == positions:
            yield pattern
            return
        zones = 1 + max((zone for zone, _ in pattern), default=-1)
        for zone in range(zones + 1):
            domains = 1 + max((ud for other, ud in pattern if other == zone), default=-1)
            for domain in range(domains + 1):
                yield from extend((*pattern, (zone, domain)))

    return extend(())


def alike(members: Iterable[tuple[int, int]]) -> Pattern:
    """Number zones and upgrade domains by their first use: what is alike is judged once."""
    zones: dict[int, int] = {}
    domains: dict[tuple[int, int], int] = {}
    return tuple(
        (zones.setdefault(unit[0], len(zones)), domains.setdefault(unit, len(domains)))
        for unit in members
    )


@functools.cache
def windows(positions: int, write: int) -> list[list[int]]:
    return [[(start + step) % positions for step in range(write)] for start in range(positions)]


@functools.cache
def spread(pattern: Pattern, write: int) -> int:
    """Give the fewest zones in a write set; -1 where one breaks the rule of two upgrade domains."""
    fewest = write
    for window in windows(len(pattern), write):
        members = [pattern[position] for position in window]
        zones = {zone for zone, _ in members}
        for zone in zones:
            domains = [domain for other, domain in members if other == zone]
            if len(domains) > 1 and len(set(domains)) == 1:
                return -1
        fewest = min(fewest, len(zones))
    return fewest


@functools.cache
def clashes(pattern: Pattern, write: int) -> int:
    """Count, over all write sets, the members whose upgrade domain another member has already."""
    return sum(
        write - len({pattern[position] for position in window})
        for window in windows(len(pattern), write)
    )


def shape(pattern: Pattern) -> World:
    """Give how many bookies a pattern takes from each upgrade domain of each zone."""
    taken: dict[int, Counter[int]] = {}
    for zone, domain in pattern:
        taken.setdefault(zone, Counter())[domain] += 1
    return tuple(
        sorted(tuple(sorted(domains.values(), reverse=True)) for domains in taken.values())
    )


@functools.cache
def possible(positions: int, write: int) -> dict[World, dict[int, int]]:
    """Give, by shape, what its patterns reach: the spread, and the fewest clashes with it."""
    found: dict[World, dict[int, int]] = {}
    for pattern in patterns(positions):
        reached = spread(pattern, write)
        if reached >= 0:
            entry = found.setdefault(shape(pattern), {})
            entry[reached] = min(entry.get(reached, 1 << 30), clashes(pattern, write))
    return found


@functools.cache
def fits(wanted: World, world: World) -> bool:
    """Can the zones of a shape be laid over those of a world?"""
    if not wanted:
        return True
    return any(
        len(wanted[0]) <= len(zone)
        and all(need <= has for need, has in zip(wanted[0], zone, strict=False))
        and fits(wanted[1:], world[:index] + world[index + 1 :])
        for index, zone in enumerate(world)
    )


def reachable(world: World, positions: int, write: int) -> dict[int, int]:
    """Give the spreads that ensembles in this world reach, each with its fewest clashes."""
    found: dict[int, int] = {}
    for wanted, reached in possible(positions, write).items():
        if fits(wanted, world):
            for zones, fewest in reached.items():
                found[zones] = min(found.get(zones, 1 << 30), fewest)
    return found


def completions(
    world: Sequence[Sequence[int]], kept: Sequence[tuple[int, int] | None], write: int
) -> dict[int, int]:
    """Give the spreads that ensembles reach whose open positions are filled from a world.

    Every filling is built; ``world`` has the bookies that may join, by zone and upgrade domain.
    """
    left = [list(zone) for zone in world]
    members = list(kept)
    found: dict[int, int] = {}

    def fill(position: int) -> None:
        if position == len(members):
            pattern = alike(member for member in members if member is not None)
            reached = spread(pattern, write)
            if reached >= 0:
                found[reached] = min(found.get(reached, 1 << 30), clashes(pattern, write))
        elif kept[position] is not None:
            fill(position + 1)
        else:
            for zone, domains in enumerate(left):
                for domain, count in enumerate(domains):
                    if count:
                        domains[domain] -= 1
                        members[position] = (zone, domain)
                        fill(position + 1)
                        domains[domain] += 1
            members[position] = None

    fill(0)
    return found
