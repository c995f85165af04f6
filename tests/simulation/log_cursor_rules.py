"""Judges each change of a cursor: it is moved by the consumer that opened it last, and no other."""

from collections.abc import Iterator

from tests.simulation import log_sights as seen
from zonekeeper.metadata.logs.log_cursor import CursorMark

Broken = tuple[str, str]


class CursorRules:
    """One pass over the marks of one cursor; consumers are known by their addresses."""

    def __init__(self) -> None:
        self.mark: CursorMark | None = None
        self._wanted: dict[str, list[seen.CursorWanted]] = {}

    def take_wanted(self, sight: seen.CursorWanted) -> None:
        """Hear what a consumer is about to do."""
        self._wanted.setdefault(sight.who, []).append(sight)

    def take(self, after: CursorMark | None) -> Iterator[Broken]:
        """Take the next mark in, and give the rules that it breaks."""
        before, self.mark = self.mark, after
        if after is None or before is None:
            if after is not None and after.epoch != 1:
                yield "log cursor", f"a new cursor has epoch {after.epoch}"
            return
        if after.log_id != before.log_id:
            yield "log cursor", "a cursor outlived its log"
        opened = after.epoch == before.epoch + 1 and after.token != before.token
        moved = after.epoch == before.epoch and after.token == before.token
        if not (opened or moved):
            yield "log cursor", f"epoch {before.epoch} became {after.epoch}"
        if after.position == before.position:
            return
        if opened:
            yield "log cursor", f"{after.address} opened the cursor, and it moved"
        if not any(_allows(one, before, after) for one in self._wanted.get(after.address, ())):
            yield (
                "log cursor",
                f"it went from {before.position.sequence} to {after.position.sequence}, and "
                f"{after.address} did not want that",
            )


def _allows(wanted: seen.CursorWanted, before: CursorMark, after: CursorMark) -> bool:
    if wanted.sequence is not None and wanted.sequence != after.position.sequence:
        return False
    return wanted.seeks or after.position.sequence >= before.position.sequence
