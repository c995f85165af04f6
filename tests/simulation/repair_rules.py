"""The promises of auto-replication: what one event may not say.

I8 a newcomer has every copy, I19 a repair never makes placement worse, I20 what is held, or
fails and was not released, is not copied, I21 what may be repaired is, in time. Three have a word
and no number: *gate*, a gate opens when its rule says so, and not before, *presence*, a bookie that
is there stays, and *whole*, behind a finished mark each member has every entry on its disk.
"""

from collections.abc import Iterator, Mapping
from typing import Final, assert_never

from tests.simulation import history as seen
from zonekeeper.placement.zones.gate import RULE, Permission

#: Every replicator knows by then that a gate is held; what it had begun may take as long again.
HELD_IS_KNOWN_MS: Final = 2_500
#: Sessions have run out, and a zone watch has evaluated, when a zone has failed for so long.
FAILING_IS_KNOWN_MS: Final = 4_500
#: What the policy of these worlds says, where it lets a rule release.
REPAIR_AFTER_MS: Final = 60_000
#: How long what ought to end may last.
ENDS_WITHIN_MS: Final[Mapping[str, int]] = {
    "repair": 30_000,
    "hold of what is well": 22_000,
    "hold by the rule": 75_000,
}

Event = seen.Moved | seen.Copied | seen.Permitted | seen.Waited | seen.Mended


def broken(event: Event) -> Iterator[tuple[str, str]]:
    """Give the rules that an event breaks, and how."""
    match event:
        case seen.Moved():
            yield from _moved(event)
        case seen.Copied():
            yield from _copied(event)
        case seen.Permitted():
            yield from _permitted(event)
        case seen.Mended():
            for bookie, number in event.lacking:
                what = f"ledger {event.ledger} is repaired, and {bookie} lacks {number} entries"
                yield "whole", what
            for bookie in event.in_limbo:
                what = f"ledger {event.ledger} is repaired, and {bookie} is in limbo for it"
                yield "whole", what
        case seen.Waited():
            most_ms = ENDS_WITHIN_MS[event.what]
            if event.for_ms > most_ms:
                yield "I21", f"{event.what} ({event.who}): {event.for_ms} ms, not {most_ms}"
        case _:
            assert_never(event)


def _moved(event: seen.Moved) -> Iterator[tuple[str, str]]:
    what = f"ledger {event.ledger} was moved from {', '.join(event.bookies)}"
    if event.held_ms > HELD_IS_KNOWN_MS:
        yield "I20", f"{what}, whose losses were held for {event.held_ms} ms then"
    if event.lacking:
        yield "I8", f"{what}, and newcomers lack {event.lacking} entries"
    if event.zones_after < event.zones_before:
        yield "I19", f"{what}: {event.zones_before} zones before, {event.zones_after} after"
    if event.there_ms > HELD_IS_KNOWN_MS and event.zones_after == event.zones_before:
        yield "presence", f"{what}, who had been there for {event.there_ms} ms"


def _copied(event: seen.Copied) -> Iterator[tuple[str, str]]:
    what = (
        f"{event.size_bytes} bytes of ledger {event.ledger} came to {event.bookie} "
        f"for zones {', '.join(event.zones)}"
    )
    if event.held_ms > HELD_IS_KNOWN_MS and event.carriers > 1:
        yield "I20", f"{what}, held for {event.held_ms} ms: carrier {event.carriers}"
    if event.failing_ms > FAILING_IS_KNOWN_MS and event.carriers > 1:
        yield "I20", f"{what}, failing for {event.failing_ms} ms: carrier {event.carriers}"


def _permitted(event: seen.Permitted) -> Iterator[tuple[str, str]]:
    what = f"zone {event.zone} was {event.before}, and {event.by} made it {event.after}"
    if event.before is not Permission.HELD:
        return
    if event.after is Permission.OPEN and event.failing_ms > HELD_IS_KNOWN_MS:
        yield "gate", f"{what}, failing for {event.failing_ms} ms"
    if event.after is Permission.RELEASED and event.by == RULE and event.held_ms < REPAIR_AFTER_MS:
        yield "gate", f"{what} after {event.held_ms} ms"
