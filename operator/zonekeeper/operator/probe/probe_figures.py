"""The figures of a probe: how long writes stood still, when losses were held, what was lost. Pure.

They are the last words of the probe's pod, and stay in the report of the drill. So they are one
line of JSON, and short.
"""

import json
from dataclasses import asdict, dataclass
from typing import Final

#: So many lost entries are named.
NAMED_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFigures:
    """What a probe has seen. Times are in milliseconds."""

    #: Entries that were acknowledged: each of them was read back, or is lost.
    acknowledged: int = 0
    #: Acknowledged entries that no bookie has.
    lost: int = 0
    #: Appends that were not acknowledged; their ledgers were left, and others begun.
    failed: int = 0
    #: The longest time between two acknowledgements.
    stall: int = 0
    #: The longest of them before the zone was away.
    before: int = 0
    #: From the first bookie of the zone that was away: until all were...
    gone_after: int | None = None
    #: ... until the losses of the zone were held...
    held_after: int | None = None
    #: ... until all bookies were registered again...
    back_after: int | None = None
    #: ... and until nothing was held any more.
    open_after: int | None = None

    def __str__(self) -> str:
        return json.dumps(plain(self))


def plain(figures: ProbeFigures) -> dict[str, int]:
    """Give the figures that are known, as data."""
    return {name: value for name, value in asdict(figures).items() if value is not None}


def read(text: str) -> ProbeFigures | None:
    """Read the last words of a probe; None: they are none of these figures."""
    try:
        found = json.loads(text)
        return ProbeFigures(**{str(name): int(value) for name, value in found.items()})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def lines(figures: ProbeFigures) -> list[str]:
    """Give the figures for people."""
    told = [
        f"acknowledged: {figures.acknowledged} entries, {figures.lost} lost",
        f"not acknowledged: {figures.failed} entries",
        f"longest stall of writes: {figures.stall} ms ({figures.before} ms before the zone went)",
    ]
    for what, value in (
        ("all bookies of the zone away", figures.gone_after),
        ("losses held", figures.held_after),
        ("all bookies back", figures.back_after),
        ("nothing held any more", figures.open_after),
    ):
        told.append(f"{what}: {'not seen' if value is None else f'after {value} ms'}")
    return told
