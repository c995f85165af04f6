"""The report of a rebuild: a line, or a JSON object, for each ledger, and a summary."""

import json
from collections import Counter
from collections.abc import Callable

from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.saving.rebuilding import RebuildVerdict, Rebuilt
from zonekeeper.metadata.saving.rebuilding_writing import Given, WrittenLedger


class Report:
    """Reports each ledger, and counts verdicts and outcomes."""

    def __init__(self, *, as_json: bool, echo: Callable[[str], None]) -> None:
        self._as_json = as_json
        self._echo = echo
        self._verdicts: Counter[RebuildVerdict] = Counter()
        self._done: Counter[str] = Counter()

    @property
    def all_sure(self) -> bool:
        """Was every ledger sure?"""
        return set(self._verdicts) <= {RebuildVerdict.SURE}

    def left(self, rebuilt: Rebuilt) -> None:
        """Report a ledger that is not written."""
        self._say(rebuilt, "not written")

    def written(self, written: WrittenLedger) -> None:
        """Report a ledger that was to be written, and whether it was."""
        self._say(written.rebuilt, "written" if written.created else "there already, and kept")

    def summary(self, given: Given, *, wrote: bool) -> str:
        """Give the summary of the rebuild."""
        counts = ", ".join(f"{self._verdicts[each]} {each.value}" for each in RebuildVerdict)
        said = (
            f"{sum(self._verdicts.values())} ledgers in the hints of {len(given.files)} bookies: "
            f"{counts}"
        )
        if not wrote:
            return f"{said}; nothing was written (--write does)"
        return (
            f"{said}; {self._done['written']} written, "
            f"{self._done['there already, and kept']} there already, "
            f"{self._done['not written']} not written.\n"
            "The root is marked as restored: bookies collect nothing until the mark is cleared. "
            "Next: register the bookies' cookies (`zonekeeper bookie cookie create`), start them, "
            "and open each ledger once, which recovers it."
        )

    def _say(self, rebuilt: Rebuilt, done: str) -> None:
        self._verdicts[rebuilt.verdict] += 1
        self._done[done] += 1
        if self._as_json:
            self._echo(json.dumps(_plain(rebuilt, done), sort_keys=True))
        else:
            self._echo(_text(rebuilt, done))


def _plain(rebuilt: Rebuilt, done: str) -> dict[str, object]:
    return {
        "ledger": rebuilt.ledger_id,
        "verdict": rebuilt.verdict.value,
        "outcome": done,
        "certain": None if rebuilt.metadata is None else _certain(rebuilt.metadata),
        "inferred": list(rebuilt.inferred),
        "doubts": list(rebuilt.doubts),
        "blocked": list(rebuilt.blocked),
        "endsBetween": [rebuilt.lac, rebuilt.highest],
    }


def _certain(metadata: LedgerMetadata) -> dict[str, object]:
    return {
        "quorums": [metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum],
        "digest": metadata.digest.value,
        "fragments": {part.first_entry: list(part.ensemble) for part in metadata.fragments},
    }


def _text(rebuilt: Rebuilt, done: str) -> str:
    said = [f"ledger {rebuilt.ledger_id}: {rebuilt.verdict.value}, {done}"]
    if (metadata := rebuilt.metadata) is not None:
        said.append(
            f"  certain:  quorums {metadata.ensemble_size}/{metadata.write_quorum}/"
            f"{metadata.ack_quorum}, {metadata.digest.value}, the password; "
            f"its end is between entries {rebuilt.lac} and {rebuilt.highest}"
        )
        said += [
            f"  fragment: from entry {part.first_entry} on {', '.join(part.ensemble)}"
            for part in metadata.fragments
        ]
    said += [f"  inferred: {each}" for each in rebuilt.inferred]
    said += [f"  doubtful: {each}" for each in rebuilt.doubts]
    said += [f"  blocked:  {each}" for each in rebuilt.blocked]
    return "\n".join(said)
