"""Hints of bookies to test with."""

from zonekeeper.metadata.saving import rebuilding
from zonekeeper.metadata.saving.rebuilding_format import (
    FragmentHint,
    HintsHeader,
    HintsWriter,
    LedgerHints,
)
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
QUORUMS = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)
PASSWORDS = rebuilding.keys_of((b"", b"secret"))
KEY = next(key for key, password in PASSWORDS.items() if password == b"secret")
A, B, C, D, E, F = (BookieId(f"bk-{name}") for name in "abcdef")
LEDGER = LedgerId(7)


def opened(
    first: int, *ensemble: BookieId, quorums: Quorums = QUORUMS, digest: Digest = Digest.CRC32C
) -> FragmentHint:
    return FragmentHint(
        first_entry=EntryId(first), ensemble=ensemble, quorums=quorums, digest=digest
    )


def hints(
    *fragments: FragmentHint,
    last: int | None = None,
    key: bytes | None = KEY,
    fenced: bool = False,
    limbo: bool = False,
    lac: int = -1,
    ledger_id: LedgerId = LEDGER,
) -> LedgerHints:
    return LedgerHints(
        ledger_id=ledger_id,
        master_key=key,
        fenced=fenced,
        in_limbo=limbo,
        lac=EntryId(lac),
        first_entry=None if last is None else EntryId(0),
        last_entry=None if last is None else EntryId(last),
        entries=0 if last is None else last + 1,
        fragments=fragments,
    )


def lines_of(bookie: BookieId, *known: LedgerHints, instance: str = INSTANCE) -> list[str]:
    """Give a bookie's file of hints."""
    writer = HintsWriter()
    header = HintsHeader(instance=instance, bookie=bookie, generation=3)
    return [writer.header(header), *map(writer.ledger, known), writer.footer()]
