"""Which messages of an export go into which ledger of the new log. Pure.

An import writes one ledger after the other, because ledgers of a log are in the order of their ids.
Times never fall in a ledger of a log, but they may fall from one ledger to the next: the clocks of
writers differ. So a ledger of the new log ends where the exported log has a ledger that begins with
an earlier time. Otherwise a ledger gets about ``aim`` bytes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from zonekeeper.log.formats.manifests import ATTEMPTS_MAX
from zonekeeper.pipeline.reports import message_hash
from zonekeeper.pipeline.reports.export_manifest import ExportManifest
from zonekeeper.pipeline.reports.message_hash import MessageSums
from zonekeeper.placement.base.troubles import Refusal, Trouble

#: A ledger of the new log gets about so many bytes of payloads, keys and headers.
LEDGER_BYTES_AIM: Final = 1 << 30
#: Larger exports get larger ledgers, so that sizes alone make no more ledgers than this.
_BY_SIZE_MAX: Final = ATTEMPTS_MAX // 2


class ExportDamaged(Trouble):
    """The files do not hold what the manifest says; nothing was written."""


class TooManyLedgersError(Refusal):
    """The import would need more ledgers than one batch of a log has; nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedLedger:
    """The messages that one ledger of the exported log had."""

    ledger: int
    sums: MessageSums
    size_bytes: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class SequenceRange:
    """The messages ``first <= sequence < end``; at least one."""

    first: int
    end: int


def check(manifest: ExportManifest, ledgers: Iterable[ExportedLedger]) -> list[ExportedLedger]:
    """Give the ledgers in order, if they hold what the manifest says; else ``ExportDamaged``."""
    found = sorted(ledgers, key=lambda one: (one.sums.first, one.ledger))
    sums = total(found, manifest.sums.first)
    if sums != manifest.sums or any(not one.sums.is_dense for one in found):
        raise ExportDamaged(
            f"the export of log {manifest.log} has {sums}, and its manifest says {manifest.sums}; "
            "files were changed, or are missing, or are there twice; nothing was written: export "
            "the log again"
        )
    for one, other in pairwise(found):
        if one.sums.end != other.sums.first:
            raise ExportDamaged(
                f"the export of log {manifest.log} has message {one.sums.end - 1} of ledger "
                f"{one.ledger}, and then message {other.sums.first} of ledger {other.ledger}; "
                "nothing was written: export the log again"
            )
    return found


def total(ledgers: Iterable[ExportedLedger], first: int) -> MessageSums:
    """Give the sums of all messages; ``first``: where they begin if there are none."""
    every = [one.sums for one in ledgers]
    if not every:
        return message_hash.none_from(first)
    return MessageSums(
        messages=sum(one.messages for one in every),
        first=min(one.first for one in every),
        end=max(one.end for one in every),
        hash=message_hash.combined(one.hash for one in every),
    )


def planned(ledgers: Iterable[ExportedLedger], aim: int = LEDGER_BYTES_AIM) -> list[SequenceRange]:
    """Give the messages of each ledger of the new log, in order."""
    every = list(ledgers)
    aim = max(aim, -(-sum(one.size_bytes for one in every) // _BY_SIZE_MAX))
    ranges: list[SequenceRange] = []
    size_bytes = last_ms = 0
    for one in every:
        pieces = max(1, -(-one.size_bytes // aim))
        if (
            ranges
            and one.first_ms >= last_ms
            and pieces == 1
            and size_bytes + one.size_bytes <= aim
        ):
            ranges[-1] = SequenceRange(ranges[-1].first, one.sums.end)
            size_bytes += one.size_bytes
        else:
            ranges += _cut(one.sums, pieces)
            size_bytes = one.size_bytes // pieces
        last_ms = one.last_ms
    if len(ranges) > ATTEMPTS_MAX:
        raise TooManyLedgersError(
            f"the import would write {len(ranges)} ledgers, because times fall so often; the limit "
            f"is {ATTEMPTS_MAX}; nothing was written: export and import the log in several ranges, "
            "each into a log of its own"
        )
    return ranges


def _cut(sums: MessageSums, pieces: int) -> list[SequenceRange]:
    """Cut the messages of a ledger into about equal pieces of at least one message."""
    pieces = min(pieces, sums.messages)
    limits = [sums.first + sums.messages * at // pieces for at in range(pieces + 1)]
    return [SequenceRange(first, end) for first, end in pairwise(limits)]
