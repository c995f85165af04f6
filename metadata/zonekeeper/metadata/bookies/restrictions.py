"""What keeps a bookie from new data, with the reason, by whom and since when.

Two places say it, and this joins them. The registration has the reasons for which the bookie says
that it is read-only. The record beside the cookie has what persons ordered: draining, and to be
read-only. A person's order reaches the bookie without a name, so the name comes from the record. An
emptied bookie is told to be read-only, too; then the draining says who did it.

What an older bookie or an older program leaves unsaid is unknown (None), and never left out: a
read-only bookie has at least one restriction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from zonekeeper.metadata.bookies.bookie_records import BookieRecord, Mark
from zonekeeper.metadata.formats.service_info import WALL_MS_MAX, ReadOnlyReason
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId

READ_ONLY: Final = "read-only"
DRAINING: Final = "draining"
UNSAID: Final = "the bookie does not say why"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """One thing that keeps a bookie from new data."""

    what: str
    reason: str
    #: A person's name, or the bookie's id; None: a person, and it is not known who.
    by: str | None
    #: Wall time; None: not known.
    since_ms: int | None

    def plain(self) -> dict[str, Plain]:
        """Give the restriction as plain data."""
        return {
            "what": self.what,
            "reason": self.reason,
            "by": self.by,
            "sinceMs": self.since_ms,
        }

    def __str__(self) -> str:
        """Say it in one line: ``read-only (by anna: its disk is old), since …``."""
        since = "" if self.since_ms is None else f", since {_spelled(self.since_ms)}"
        return f"{self.what} (by {self.by or 'a person'}: {self.reason}){since}"


def of_bookie(
    bookie: BookieId,
    record: BookieRecord,
    published: Sequence[ReadOnlyReason],
    *,
    read_only: bool,
) -> tuple[Restriction, ...]:
    """Give what keeps a bookie from new data; ``read_only``: it is registered so now."""
    found = []
    if record.draining is not None:
        found.append(_of_mark(DRAINING, record.draining))
    if not read_only:
        return tuple(found)
    ordered = record.read_only or record.draining
    for one in published:
        if one.by_person and ordered is not None:
            found.append(_of_mark(READ_ONLY, ordered))
        else:
            by = None if one.by_person else str(bookie)
            found.append(
                Restriction(what=READ_ONLY, reason=one.reason, by=by, since_ms=one.since_ms)
            )
    if not published:
        found.append(
            _of_mark(READ_ONLY, record.read_only)
            if record.read_only is not None
            else Restriction(what=READ_ONLY, reason=UNSAID, by=str(bookie), since_ms=None)
        )
    return tuple(found)


def _of_mark(what: str, mark: Mark) -> Restriction:
    return Restriction(what=what, reason=mark.reason, by=mark.by, since_ms=mark.at_ms)


def _spelled(wall_ms: int) -> str:
    return datetime.fromtimestamp(min(wall_ms, WALL_MS_MAX) / 1000, UTC).isoformat(
        timespec="seconds"
    )
