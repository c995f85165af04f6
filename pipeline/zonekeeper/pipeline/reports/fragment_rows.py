"""The rows of the placement audit: one for each fragment of a ledger. Pure."""

from collections.abc import Iterator
from typing import Final

from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.pipeline.reports import fragment_losses
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.ensembles import adherence
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.policy.rules import PlacementRules
from zonekeeper.replication.decisions.checks_placement import PlacementCheck
from zonekeeper.replication.decisions.what_if import LedgerOutcome

#: The columns, in Spark's notation. Only ``ledger`` and ``error`` of a ledger whose metadata cannot
#: be read are known; the other columns are null.
COLUMNS: Final = (
    "ledger bigint, fragment bigint, last bigint, state string, ensemble int, write int, ack int, "
    "bytes bigint, bookies array<string>, level string, reasons array<string>, "
    "can_be_bettered boolean, undecided boolean, harm string, unwritable boolean, "
    "losses array<struct<kind:string,name:string,harm:string,unwritable:boolean>>, error string"
)


class FragmentRows:
    """Makes the rows of ledgers, by one topology and one set of rules."""

    def __init__(self, topology: Topology, rules: PlacementRules, chance: Chance) -> None:
        self._topology = topology
        self._rules = rules
        self._check = PlacementCheck(topology, rules, chance)

    def of_ledger(
        self, ledger_id: LedgerId, ledger: LedgerMetadata
    ) -> Iterator[tuple[object, ...]]:
        """Give a row for each fragment."""
        starts = [fragment.first_entry for fragment in ledger.fragments[1:]]
        ends = [*starts, ledger.last_entry + 1 if ledger.is_closed else None]
        for fragment, end in zip(ledger.fragments, ends, strict=True):
            yield (ledger_id, *self._row(ledger, fragment, end), None)

    def _row(
        self, ledger: LedgerMetadata, fragment: Fragment, end: int | None
    ) -> tuple[object, ...]:
        quorums = placement_stamp.quorums_of(ledger)
        empty = end is not None and end <= fragment.first_entry
        level, reasons, better, undecided = self._adherence(ledger, fragment, end)
        losses = fragment_losses.of_fragment(
            quorums,
            fragment.ensemble,
            fragment_losses.members_of(fragment.ensemble, self._topology),
            grows=end is None,
            empty=empty,
        )
        return (
            fragment.first_entry,
            None if end is None else end - 1,
            ledger.state.value,
            quorums.ensemble,
            quorums.write,
            quorums.ack,
            bytes_of(ledger, fragment, end),
            list(fragment.ensemble),
            level.name,
            reasons,
            better,
            undecided,
            *_told(losses.now),
            [(str(kind), name, *_told(outcome)) for (kind, name), outcome in losses.by_loss],
        )

    def _adherence(
        self, ledger: LedgerMetadata, fragment: Fragment, end: int | None
    ) -> tuple[Level, list[str], bool | None, bool | None]:
        """Judge a fragment; only one that is finished and has entries could be moved."""
        quorums = placement_stamp.quorums_of(ledger)
        better = undecided = None
        if end is not None and end > fragment.first_entry:
            finding = self._check.of_fragment(quorums, fragment)
            better, undecided = finding.can_be_bettered, finding.undecided
            if finding.level is Level.STRICT:
                return finding.level, [], better, undecided
        judged = adherence.judge(fragment.ensemble, quorums, self._rules, self._topology)
        return judged.level, list(judged.reasons), better, undecided


def of_unreadable(ledger_id: LedgerId, error: Exception) -> tuple[object, ...]:
    """Give the row of a ledger whose metadata cannot be read."""
    columns = COLUMNS.count(", ") + 1
    return (ledger_id, *[None] * (columns - 2), " ".join(str(error).split()))


def bytes_of(ledger: LedgerMetadata, fragment: Fragment, end: int | None) -> int | None:
    """Give the payload bytes of a fragment, counted once; None: its ledger is not closed.

    All entries of a ledger are taken to be of one size.
    """
    if end is None or not ledger.is_closed:
        return None
    entries = ledger.last_entry + 1
    wanted = max(0, end - fragment.first_entry)
    return ledger.length * wanted // entries if entries else 0


def _told(outcome: LedgerOutcome) -> tuple[str, bool]:
    return outcome.harm.word, outcome.unwritable
