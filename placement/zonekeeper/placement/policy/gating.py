"""Losses that no gate can ever hold: those of zones too small, or that flap too slowly.

A zone fails when at least ``zoneWatch.minLost`` of its counted bookies are lost. A zone with fewer
bookies loses them all and does not fail: its losses are those of single bookies, and they are
repaired after ``bookieRecoveryDelay``, without a hold and without a page. The same holds for a
larger zone for as long as fewer of its bookies are counted, because the others are draining, in
maintenance or written off. Either may be meant, and so it is a warning; but its owner must know.

A zone that flaps is down once it was suspect for ``SUSPECTS_ARE_REAL`` times ``suspectFor`` in sum
within ``flapWindow``. A window that is no longer than this sum never sees it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.legality import BrokenRule, Code
from zonekeeper.placement.policy.rules import ZoneWatchRules

#: So many times ``suspectFor`` in ``suspect``, in sum within the flap window, are a real loss.
SUSPECTS_ARE_REAL: Final = 3


def judge(
    rules: ZoneWatchRules,
    sizes: Mapping[ZoneName, int],
    counted: Mapping[ZoneName, int] | None = None,
) -> tuple[BrokenRule, ...]:
    """Give a warning for each zone that cannot be held: ever, or with the bookies counted now.

    ``sizes`` is the number of bookies of each zone. A zone without bookies has nothing to hold.
    A flap window that is too short is warned of once, for all zones.
    """
    zones = _found(rules.min_lost, sizes, sizes if counted is None else counted)
    return (*_flapping(rules), *zones)


def never_gated(rules: ZoneWatchRules, sizes: Mapping[ZoneName, int]) -> tuple[ZoneName, ...]:
    """Give the zones whose loss never counts as a zone's loss, sorted."""
    return tuple(sorted(zone for zone, size in sizes.items() if 0 < size < rules.min_lost))


def _flapping(rules: ZoneWatchRules) -> Iterator[BrokenRule]:
    least_ms = SUSPECTS_ARE_REAL * rules.suspect_for_ms
    if rules.suspect_for_ms > 0 and rules.flap_window_ms <= least_ms:
        debounce = units.duration_text(rules.suspect_for_ms)
        yield BrokenRule(
            code=Code.FLAPPING_NOT_SEEN,
            reason=f"zoneWatch.flapWindow: {units.duration_text(rules.flap_window_ms)}: a zone "
            f"that fails again and again for less than suspectFor ({debounce}) is seen only in a "
            f"window above {SUSPECTS_ARE_REAL} times suspectFor; set flapWindow above "
            f"{units.duration_text(least_ms)}, or lower suspectFor",
            example=f"each zone is away for nearly {debounce} and back for a moment, for two "
            "hours: it never counts as down, and no person is told",
        )


def _found(
    least: int, sizes: Mapping[ZoneName, int], counted: Mapping[ZoneName, int]
) -> Iterator[BrokenRule]:
    for zone, size in sorted(sizes.items()):
        if 0 < size < least:
            has = f"zone {zone} has {size} bookie{'s' * (size > 1)}"
            yield BrokenRule(
                code=Code.ZONE_NEVER_GATED,
                reason=f"zoneWatch.minLost: {least}: {has}, so its loss is never held, whatever is "
                f"lost of it; lower minLost to {size}, or give it {least} bookies or more",
                example=f"zone {zone} is away for ten minutes, and after "
                "repair.bookieRecoveryDelay all of its data is copied into the other zones",
            )
        elif (now := counted.get(zone, size)) < least <= size:
            yield BrokenRule(
                code=Code.ZONE_NOT_GATED_NOW,
                reason=f"zoneWatch.minLost: {least}: only {now} of the {size} bookies of zone "
                f"{zone} are counted now (the others drain, are in maintenance or written off), so "
                "its loss would not be held; end the planned work, or replace what was lost",
                example=f"zone {zone} is away for ten minutes, and none of its losses is held",
            )
