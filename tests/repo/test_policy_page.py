"""docs/policy.md says of each rule what the code says; its examples are the zone watch's own."""

import dataclasses
import json
from typing import cast

from tests.placement.default_policy import DEFAULT
from tests.support.checkout_root import ROOT
from zonekeeper.placement.policy import effects, rules_data
from zonekeeper.placement.policy.rules import ZoneWatchRules
from zonekeeper.placement.zones import observation
from zonekeeper.placement.zones.counted_time import Moment
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_counts import Count

PAGE = (ROOT / "docs" / "policy.md").read_text("utf-8").splitlines()
SIZES = (1, 2, 3, 10)
#: Only a cluster's owner can say it.
REQUIRED = "placement.zones"


def rows() -> list[str]:
    defaults = rules_data.rules(DEFAULT)
    found = []
    for name, effect in effects.EFFECTS.items():
        value: object = defaults
        for step in name.split("."):
            value = cast("dict[str, object]", value)[step]
        shown = value if isinstance(value, str) else json.dumps(value)
        told = "required" if name == REQUIRED else f"`{shown}`"
        found.append(f"| `{name}` | {told} | {effect} |")
    return found


def ranged(numbers: list[int]) -> str:
    if not numbers:
        return "none"
    return str(numbers[0]) if len(numbers) == 1 else f"{min(numbers)} to {max(numbers)}"


def state_of(total: int, available: int, before: Observation) -> Observation:
    """Give the state after an evaluation, of a zone that was in a state for a long time."""
    moment = Moment(step_ms=0, in_grace=False, wall_ms=0)
    seen = dataclasses.replace(observation.first(moment), state=before)
    count = Count(total=total, available=available)
    return observation.observe(seen, count, ZoneWatchRules(), moment).state


def examples() -> list[str]:
    found = []
    for size in SIZES:
        from_up = {n: state_of(size, n, Observation.UP) for n in range(size + 1)}
        by_state = {
            state: ranged([n for n, its in from_up.items() if its is state])
            for state in (Observation.UP, Observation.DEGRADED, Observation.SUSPECT)
        }
        back = [
            n
            for n in range(size + 1)
            if state_of(size, n, Observation.DOWN) is Observation.RETURNING
        ]
        fails = by_state[Observation.SUSPECT] != "none"
        cells = (*by_state.values(), str(min(back)) if fails else "none")
        found.append(f"| {size} | {' | '.join(cells)} |")
    return found


def test_every_rule_has_an_effect_in_the_order_of_the_record() -> None:
    assert list(effects.EFFECTS) == [name for name in rules_data.KINDS if "." in name]


def test_the_page_has_a_row_for_each_rule() -> None:
    assert [line for line in PAGE if line.startswith("| `")] == rows()


def test_the_examples_are_what_the_zone_watch_finds() -> None:
    start = PAGE.index("| bookies of the zone | up | degraded | suspect, then down | back at |")
    assert PAGE[start + 2 : start + 2 + len(SIZES)] == examples()
