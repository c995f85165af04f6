"""The versions of the wire that a side speaks: each side says its range, the highest common counts.

A client says its range with each request, in the header ``zonekeeper-speaks``, as ``1..2`` or
``1``. A bookie answers a stream with a header of the same name. Both sides then compute the same
number, and every carrier of the stream is of that version. A bookie refuses a request of a client
with which it has no version in common, before it does anything.

A side that says nothing is of a release that could not say it. It speaks version 1 exactly, and
refuses what is not version 1.

A version covers what a reader must understand: the layout of carriers and frames, the kinds of
their items, and what each means. What a reader may ignore needs no new version (docs/versions.md).
In memory the header is handed over as a value.

Version 2 proves the keys of ledgers where version 1 shows them, or shows nothing (``proofs``).
"""

import re
from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats import errors

_SPELLED: Final = re.compile(r"([1-9][0-9]{0,3})(?:\.\.([1-9][0-9]{0,3}))?")


@dataclass(frozen=True, slots=True)
class WireVersions:
    """The versions that one side speaks: ``1 <= lowest <= highest``."""

    lowest: int
    highest: int

    def __post_init__(self) -> None:
        assert 1 <= self.lowest <= self.highest

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return str(self.lowest)
        return f"{self.lowest}..{self.highest}"


#: A side that says nothing speaks these.
SILENT: Final = WireVersions(1, 1)
#: This release speaks these, and says so.
SPOKEN: Final = WireVersions(1, 2)


def parse(text: str) -> WireVersions:
    """Read what a peer says; raises BadRequest."""
    match = _SPELLED.fullmatch(text)
    if match is None or (match[2] is not None and int(match[1]) >= int(match[2])):
        raise errors.BadRequest(
            f"{text[:40]!r} is no range of wire versions such as 1 or 1..2; nothing was done"
        )
    return WireVersions(int(match[1]), int(match[2] or match[1]))


def common(client: WireVersions | None, bookie: WireVersions | None, name: BookieId) -> int:
    """Give the version that a client and a bookie of this name use; None: that side says nothing.

    Raises UnsupportedVersion if they have none in common.
    """
    asks, answers = client or SILENT, bookie or SILENT
    version = min(asks.highest, answers.highest)
    if version >= max(asks.lowest, answers.lowest):
        return version
    older = "the client" if asks.highest < answers.highest else f"the bookie {name}"
    raise errors.UnsupportedVersion(
        f"the client speaks wire version {_said(client)}, the bookie {name} speaks "
        f"{_said(bookie)}: they have none in common, and nothing was done; upgrade {older} to a "
        "release that speaks one of the other's versions, and do not try again before"
    )


def _said(side: WireVersions | None) -> str:
    return f"{SILENT} (it says none, so it is older)" if side is None else str(side)
