"""What the operator has seen of the zone watch, from one turn to the next. Pure.

A zone watch shows that it is at work by its evaluation counters: they move. One look cannot see
that. So the operator keeps what it saw, and a turn decides from that too. While the store does not
answer nothing is kept: the counters must be seen to move again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.operator.roots import roots
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.placement.base.ids import UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones import counted_time, losses
from zonekeeper.placement.zones.losses import Followed, Held, HeldBy

#: The name of a real unit is never empty: this one has no maintenance.
_NO_UNIT: Final = UpgradeDomain("")

#: A look saw no evaluation.
UNSEEN: Final = frozenset({HeldBy.NOT_WATCHED, HeldBy.NO_RECORD})


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSight:
    """What was seen up to the last look, on the operator's own monotonic clock."""

    followed: Followed = field(default_factory=Followed)
    #: The time of the first look since the store answers; None: it does not answer.
    since_ms: int | None = None
    #: The time of the last look.
    now_ms: int = 0

    def holds(self, policy: Policy) -> Iterator[tuple[ZoneName, Held]]:
        """Give each zone whose losses are not repaired now, and the reason."""
        for zone in policy.placement.zones:
            place = Location(zone, _NO_UNIT)
            held = losses.what_holds(place, self.followed, policy, now_ms=self.now_ms)
            if held is not None:
                yield zone, held

    def is_long_enough(self, policy: Policy) -> bool:
        """Has the operator looked for as long as a zone watch may need that has yet to begin?

        A new cluster's processes start while the operator looks, and stand in after a while.
        """
        if self.since_ms is None:
            return False
        longest_ms = counted_time.longest_step_ms(policy.zone_watch)
        return self.now_ms - self.since_ms > 2 * longest_ms


def follow(before: WatchSight, root: roots.Facts, *, now_ms: int) -> WatchSight:
    """Give what is known after a look at the root."""
    if not isinstance(root, RootFound) or root.policy is None:
        return WatchSight(now_ms=now_ms)
    followed = losses.follow(before.followed, {}, root.gates, root.policy.zone_watch, now_ms=now_ms)
    since_ms = now_ms if before.since_ms is None else before.since_ms
    return WatchSight(followed=followed, since_ms=since_ms, now_ms=now_ms)
