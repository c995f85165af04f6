"""The figures of a run of the demonstration, and whether they keep its promises."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.shell.demo.demo_load import AckTiming, LedgerFate
from zonekeeper.shell.demo.demo_strangers import PlainTries

MEDIAN: Final = 0.5
NEARLY_ALL: Final = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieLoss:
    """The loss of a bookie, which was repaired at once."""

    bookie: BookieId
    moved_bytes: int
    #: The time from the kill to the end of the repair.
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The outage of a zone that came back."""

    zone: ZoneName
    #: The observed states of the zone, in order.
    states: Sequence[Observation]
    held_seconds: float
    #: Bytes copied while its repair was held.
    moved_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneLoss:
    """The loss of a zone that did not come back."""

    zone: ZoneName
    #: Bytes copied while its repair was held.
    moved_held_bytes: int
    #: The figures of the preflight.
    preflight: dict[str, object]
    #: From the release on: the copied bytes, and the time.
    moved_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The findings about every copy of every entry, each read from its bookie."""

    entries: int
    #: Copies that are missing, damaged or on a bookie that is gone; empty: all copies are good.
    problems: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The figures of a whole run."""

    timings: Sequence[AckTiming]
    ensemble_changes: int
    bookie: BookieLoss
    outage: Outage
    loss: ZoneLoss
    checked: Sequence[LedgerFate]
    copies: Copies
    #: None: the cluster has no TLS, and nothing is said of it.
    plain_tries: PlainTries | None
    seconds: float

    @property
    def acked(self) -> int:
        """The number of acknowledged entries."""
        return sum(each.acked for each in self.checked)

    @property
    def same(self) -> int:
        """The number of acknowledged entries that were read back byte for byte."""
        return sum(each.same for each in self.checked)

    @property
    def promises(self) -> tuple[tuple[str, bool], ...]:
        """The promises of the demonstration, and whether each was kept."""
        outage, loss = self.outage, self.loss
        return (
            (
                f"{self.same:,} of {self.acked:,} acknowledged entries were read back the same",
                0 < self.acked == self.same,
            ),
            (
                f"a lost bookie was repaired without asking, in {self.bookie.seconds:.0f} s: "
                f"{megabytes(self.bookie.moved_bytes)} copied",
                self.bookie.moved_bytes > 0,
            ),
            (
                f"a zone that was away for a while moved {outage.moved_bytes} bytes: its repair "
                f"was held for {outage.held_seconds:.0f} s",
                outage.moved_bytes == 0 and outage.held_seconds > 0,
            ),
            (
                f"a zone that was lost moved {loss.moved_held_bytes} bytes until a person had seen "
                "the price and let repair go",
                loss.moved_held_bytes == 0,
            ),
            (
                f"then it was repaired in {loss.seconds:.0f} s: {megabytes(loss.moved_bytes)} "
                "copied",
                loss.moved_bytes > 0,
            ),
            (
                f"in the end all {self.copies.entries:,} entries have all their copies again, each "
                "read and compared",
                self.copies.entries == self.acked and not self.copies.problems,
            ),
            *_of_tls(self.plain_tries),
        )

    @property
    def kept(self) -> bool:
        """Were all promises kept?"""
        return all(holds for _, holds in self.promises)

    @property
    def problems(self) -> list[str]:
        """The faults, by ledger or copy."""
        unread = [
            f"ledger {each.ledger_id}: {each.same} of {each.acked}: {each.reason}"
            for each in self.checked
            if not each.whole
        ]
        return [*unread, *self.copies.problems]

    def plain(self) -> dict[str, object]:
        """Give the figures as plain data."""
        return {
            "acknowledged": self.acked,
            "readBackTheSame": self.same,
            "ensembleChanges": self.ensemble_changes,
            "bookieLost": {
                "bookie": self.bookie.bookie,
                "movedBytes": self.bookie.moved_bytes,
                "seconds": round(self.bookie.seconds, 1),
            },
            "zoneAway": {
                "zone": self.outage.zone,
                "states": list(self.outage.states),
                "heldSeconds": round(self.outage.held_seconds, 1),
                "movedBytes": self.outage.moved_bytes,
            },
            "zoneLost": {
                "zone": self.loss.zone,
                "movedBytesWhileHeld": self.loss.moved_held_bytes,
                "preflight": self.loss.preflight,
                "movedBytes": self.loss.moved_bytes,
                "seconds": round(self.loss.seconds, 1),
            },
            "copies": {"entries": self.copies.entries, "problems": list(self.copies.problems)},
            "plainText": None
            if self.plain_tries is None
            else {
                "ways": self.plain_tries.ways,
                "tried": self.plain_tries.tried,
                "accepted": self.plain_tries.accepted,
            },
            "parts": [
                {
                    "name": timing.name,
                    "acknowledged": timing.entries,
                    "p50Ms": round(timing.quantile_ms(MEDIAN), 1),
                    "p99Ms": round(timing.quantile_ms(NEARLY_ALL), 1),
                    "maxMs": round(timing.quantile_ms(1), 1),
                }
                for timing in self.timings
            ],
            "promises": [{"promise": text, "holds": holds} for text, holds in self.promises],
            "kept": self.kept,
            "problems": self.problems,
            "seconds": round(self.seconds, 1),
        }


def _of_tls(found: PlainTries | None) -> Iterator[tuple[str, bool]]:
    if found is None:
        return
    yield (
        f"all connections to bookies were TLS: {found.tried} of {found.ways} ways to them were "
        f"tried in plain text, and {found.accepted} accepted",
        0 < found.tried == found.ways and found.accepted == 0,
    )


def megabytes(size_bytes: int) -> str:
    """Spell a size in megabytes, so that people can compare it with others."""
    return f"{size_bytes / 1_000_000:.1f} MB"
