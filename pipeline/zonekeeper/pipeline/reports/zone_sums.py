"""Sums for the zone report: what zones, units and bookies hold, and what losses cost. Pure.

A task sums up its ledgers, and keeps one row for each zone, upgrade domain and bookie, however many
ledgers it reads. Sums of several tasks are added up. Bytes are payload bytes of closed ledgers, of
each copy; what open ledgers hold is unknown, and only counted as ledgers.

A loss is counted for the ledgers that have a member in it: the copies that would be made again
(``preflight.Tally``), and what the ledger's worst fragment would be (``fragment_losses``). What is
missing now counts as lost in all of that.
"""

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Final

from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.pipeline.reports import fragment_losses, fragment_rows
from zonekeeper.pipeline.reports.fragment_losses import Losses, LossScope, NamedLoss
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.promises import cost
from zonekeeper.placement.promises.cost import Crossings
from zonekeeper.replication.decisions import preflight
from zonekeeper.replication.decisions.preflight import Tally
from zonekeeper.replication.decisions.what_if import Harm, LedgerOutcome

#: The kind of the row about the whole cluster.
CLUSTER: Final = "cluster"
#: The name of the zone and unit of a bookie whose location is unknown.
NOWHERE: Final = "unknown"


@dataclass(slots=True, kw_only=True)
class Sums:
    """The sums about one zone, upgrade domain or bookie, or about the cluster."""

    ledgers: int = 0
    open_ledgers: int = 0
    copies: int = 0
    bytes: int = 0
    #: Ledgers whose metadata cannot be read; only of the cluster.
    unreadable_ledgers: int = 0
    # ── if it were lost ──
    loss_bytes: int = 0
    loss_crossing_bytes: int = 0
    loss_beyond_repair: int = 0
    loss_unreadable: int = 0
    loss_perhaps_unreadable: int = 0
    loss_last_copy: int = 0
    loss_unwritable: int = 0
    # ── only of the cluster: bytes between zones for what is stored ──
    written_crossing_bytes: int = 0
    read_crossing_bytes: int = 0
    read_anywhere_crossing_bytes: int = 0


NAMES: Final = tuple(field.name for field in fields(Sums))


class ZoneSums:
    """Sums up ledgers."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._zones = topology.zones
        self._cluster = Sums()
        self._sums: defaultdict[NamedLoss, Sums] = defaultdict(Sums)
        self._crossing = [Fraction(0)] * 3
        self._members = _members(topology)
        self._tallies: dict[NamedLoss, Tally] = {}

    def unreadable(self) -> None:
        """Count a ledger whose metadata cannot be read."""
        self._cluster.unreadable_ledgers += 1

    def add(self, ledger: LedgerMetadata) -> None:
        """Take in a ledger."""
        self._cluster.ledgers += 1
        self._cluster.open_ledgers += not ledger.is_closed
        quorums = placement_stamp.quorums_of(ledger)
        ends: list[int | None] = [fragment.first_entry for fragment in ledger.fragments[1:]]
        ends.append(ledger.last_entry + 1 if ledger.is_closed else None)
        for fragment, end in zip(ledger.fragments, ends, strict=True):
            self._add_copies(ledger, quorums, fragment, end)
        touched = {loss for bookie in ledger.bookies for loss in self.losses_of(bookie)}
        worst = _worst(self._judged(ledger, quorums, ends), touched)
        for loss in touched:
            sums, outcome = self._sums[loss], worst[loss]
            sums.ledgers += 1
            sums.open_ledgers += not ledger.is_closed
            sums.loss_unreadable += outcome.harm is Harm.UNREADABLE
            sums.loss_perhaps_unreadable += outcome.harm is Harm.PERHAPS_UNREADABLE
            sums.loss_last_copy += outcome.harm is Harm.LAST_COPY
            sums.loss_unwritable += outcome.unwritable
            self._tally(loss).add(ledger)

    def losses_of(self, bookie: BookieId) -> tuple[NamedLoss, ...]:
        """Give the losses that take a bookie: its own, its unit's and its zone's."""
        where = self._topology.location(bookie)
        own = NamedLoss(LossScope.BOOKIE, bookie)
        if where is None:
            return (own,)
        return (
            own,
            NamedLoss(LossScope.UPGRADE_DOMAIN, str(where)),
            NamedLoss(LossScope.ZONE, where.zone),
        )

    def rows(self) -> Iterator[tuple[str, str, Sums]]:
        """Give kind, name and sums of all that has any, and of the cluster."""
        cluster = self._cluster
        cluster.written_crossing_bytes, cluster.read_crossing_bytes, anywhere = map(
            round, self._crossing
        )
        cluster.read_anywhere_crossing_bytes = anywhere
        yield CLUSTER, "", cluster
        for loss, sums in sorted(self._sums.items()):
            work = self._tally(loss).work
            sums.loss_bytes = work.bytes
            sums.loss_crossing_bytes = round(work.crossing_bytes)
            sums.loss_beyond_repair = work.beyond_repair
            yield str(loss.kind), loss.name, sums

    def _add_copies(
        self, ledger: LedgerMetadata, quorums: Quorums, fragment: Fragment, end: int | None
    ) -> None:
        for position, bookie in enumerate(fragment.ensemble):
            span = (fragment.first_entry, end)
            size_bytes = preflight.share_bytes(ledger, quorums, position, span)
            for loss in self.losses_of(bookie):
                self._sums[loss].copies += 1
                self._sums[loss].bytes += size_bytes
        once = fragment_rows.bytes_of(ledger, fragment, end) or 0
        self._cluster.copies += len(fragment.ensemble)
        self._cluster.bytes += once
        if once and self._zones:
            places = [self._topology.location(bookie) for bookie in fragment.ensemble]
            members = tuple(None if place is None else place.zone for place in places)
            crossings = _crossings(quorums, members, self._zones)
            shares = (crossings.written, crossings.read_near, crossings.read_anywhere)
            self._crossing = [
                so_far + once * share for so_far, share in zip(self._crossing, shares, strict=True)
            ]

    def _judged(
        self, ledger: LedgerMetadata, quorums: Quorums, ends: Iterable[int | None]
    ) -> Iterator[Losses]:
        for fragment, end in zip(ledger.fragments, ends, strict=True):
            yield fragment_losses.of_fragment(
                quorums,
                fragment.ensemble,
                fragment_losses.members_of(fragment.ensemble, self._topology),
                grows=end is None,
                empty=end is not None and end <= fragment.first_entry,
            )

    def _tally(self, loss: NamedLoss) -> Tally:
        known = self._tallies.get(loss)
        if known is None:
            lost = self._members.get(loss, frozenset({BookieId(loss.name)}))
            known = self._tallies[loss] = Tally(lost, self._topology)
        return known


def _members(topology: Topology) -> Mapping[NamedLoss, frozenset[BookieId]]:
    """Give the bookies that the loss of each zone and unit takes."""
    found: defaultdict[NamedLoss, set[BookieId]] = defaultdict(set)
    for bookie in topology:
        if bookie.location is not None:
            found[NamedLoss(LossScope.ZONE, bookie.location.zone)].add(bookie.id)
            found[NamedLoss(LossScope.UPGRADE_DOMAIN, str(bookie.location))].add(bookie.id)
    return {loss: frozenset(bookies) for loss, bookies in found.items()}


def _worst(
    judged: Iterable[Losses], touched: Iterable[NamedLoss]
) -> Mapping[NamedLoss, LedgerOutcome]:
    """Give what each loss does to the worst of a ledger's fragments."""
    every = [(one.now, dict(one.by_loss)) for one in judged]

    def of(loss: NamedLoss) -> LedgerOutcome:
        outcomes = [by_loss.get(loss, now) for now, by_loss in every]
        return LedgerOutcome(
            harm=max(one.harm for one in outcomes),
            unwritable=any(one.unwritable for one in outcomes),
        )

    return {loss: of(loss) for loss in touched}


@functools.lru_cache(maxsize=fragment_losses.SPREADS_MAX)
def _crossings(
    quorums: Quorums, members: tuple[ZoneName | None, ...], zones: tuple[ZoneName, ...]
) -> Crossings:
    return cost.of_ensemble(quorums, members, zones)
