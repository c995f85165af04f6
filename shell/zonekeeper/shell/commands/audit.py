"""``zonekeeper audit``: look at the live ledgers, and change nothing.

Its commands say how well ledgers keep the rules of placement, whether every copy is there and
whole, what the loss of a zone would do to the ledgers, and which ledgers are open.
"""

import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeGuard

import click
from rich import box
from rich.table import Table

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.commands import exits, opening, options
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.formats.ledger_paths import LEDGER_ID_MAX
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledgers, presences
from zonekeeper.metadata.ledgers.ledger_listing import Listed, UnreadableLedger
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName
from zonekeeper.placement.base.units import size_bytes
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.zones.losses import Held, HeldBy
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.audit.replica_reading import ReplicaReader
from zonekeeper.replication.decisions import what_if
from zonekeeper.replication.decisions.checks_placement import PlacementCheck
from zonekeeper.replication.decisions.what_if import Harm
from zonekeeper.replication.view import listing
from zonekeeper.replication.view.pace import BytePace
from zonekeeper.replication.view.view import View
from zonekeeper.shell.commands import zones
from zonekeeper.shell.reaching import connecting, progressing, reaching, restricting
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reaching.restricting import Restrictions
from zonekeeper.shell.reports import standing
from zonekeeper.shell.reports.standing import StandingAlert
from zonekeeper.wire.grpc.tls import TlsFiles

#: At most this many ledgers of a kind are named.
NAMED_MAX = 20

#: The findings about a ledger's copies that name no bookie.
_KINDS: Final = (
    "entries that are lost",
    "entries that are unlike each other",
    "copies without an answer from their bookie",
)
_WRITTEN: Final = "open, and their writer's process is there"
_ABANDONED: Final = "open, and their writer's process has no session"
_UNNAMED: Final = "open, and name no writer"
_CLOSED: Final = "closed"
_DETAILS: Final = {
    "entries": "entries",
    "bytes": "bytes",
    "copiesUnknown": "copies without an answer from their bookie",
    "entriesWithoutCopy": "entries without any copy",
    "entriesInConflict": "entries whose copies are unlike each other",
}


@click.group()
def audit() -> None:
    """Look at every ledger; change nothing."""


@audit.command(epilog="Example: zonekeeper audit placement")
@options.QUIET
@reaching.on_cluster
def placement(quiet: bool, place: Place) -> None:
    """Say how well ledgers keep the rules: STRICT, SOFT or FAIL, and which could be better now.

    Fragments that may still grow, and empty ones, are left out.
    Exit code 1: some ledger is FAIL, or cannot be read.
    """
    found = reaching.run(_placement(place, quiet=quiet))
    _answer(place, found)
    raise SystemExit(exits.answer(yes=not (found.counts[Level.FAIL.name] or found.unreadable)))


@audit.command(epilog="Example: zonekeeper audit replicas --ledger 17 --bytes-per-second 10MiB")
@click.option(
    "--ledger",
    "wanted",
    type=click.IntRange(0, LEDGER_ID_MAX),
    multiple=True,
    help="Only this ledger; can be given several times.",
)
@click.option(
    "--bytes-per-second",
    default="0",
    show_default=True,
    help="The highest rate of reading, such as 10MiB.",
)
@options.QUIET
@connecting.over_tls
@reaching.on_cluster
def replicas(
    wanted: tuple[int, ...], bytes_per_second: str, quiet: bool, tls: TlsFiles | None, place: Place
) -> None:
    """Read every entry of every finished fragment on each of its bookies, and compare.

    Exit code 1: some copy is missing, damaged or unlike the others, a bookie gives no answer, or a
    ledger cannot be read.
    Nothing is marked for repair: the auditor's own check does that.
    """
    rate = size_bytes(bytes_per_second) if bytes_per_second != "0" else 0
    if rate is None:
        raise RefusedCommand(f"--bytes-per-second {bytes_per_second}: a number and KiB, MiB or GiB")
    found = reaching.run(_replicas(place, tls, tuple(map(LedgerId, wanted)), rate, quiet=quiet))
    _answer(place, found)
    raise SystemExit(exits.answer(yes=not (found.named or found.unreadable)))


@audit.command(epilog="Example: zonekeeper audit lose --zone b --and-one")
@click.option(
    "--zone", "lost", metavar="ZONE", multiple=True, required=True, help="Lost; repeatable."
)
@click.option(
    "--and-one", is_flag=True, help="Also one more bookie: the one whose loss does most harm."
)
@options.QUIET
@reaching.on_cluster
def lose(lost: tuple[str, ...], and_one: bool, quiet: bool, place: Place) -> None:
    """Say what would become of the ledgers if a zone were lost, in addition to today's losses.

    Exit code 1: some ledger would be unreadable, for certain or perhaps, or cannot be read now.
    """
    found = reaching.run(_lose(place, tuple(map(ZoneName, lost)), and_one=and_one, quiet=quiet))
    _answer(place, found)
    worst = (Harm.UNREADABLE, Harm.PERHAPS_UNREADABLE)
    raise SystemExit(
        exits.answer(yes=not (any(found.counts[one.word] for one in worst) or found.unreadable))
    )


@audit.command(name="open", epilog="Example: zonekeeper audit open")
@options.QUIET
@reaching.on_cluster
def open_ledgers(quiet: bool, place: Place) -> None:
    """Say which ledgers are open, and whether the processes that write them are there.

    A process is there while it has a session in the store. Who opens a ledger with recovery closes
    it; autorecovery does so by itself if the policy says repair.abandonedAfter.
    Exit code 1: the process that wrote some open ledger has no session, or a ledger cannot be read.
    """
    found = reaching.run(_open(place, quiet=quiet))
    _answer(place, found)
    raise SystemExit(exits.answer(yes=not (found.counts[_ABANDONED] or found.unreadable)))


@dataclass(kw_only=True)
class _Found:
    """The findings of an audit: the number of ledgers by kind, and the ids of some of them."""

    counts: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[int]] = field(default_factory=dict)
    unreadable: list[int] = field(default_factory=list)
    ledgers: int = 0
    details: dict[str, object] = field(default_factory=dict)
    alerts: list[StandingAlert] = field(default_factory=list)
    #: The bookies that are kept from new data.
    restrictions: Restrictions = field(default_factory=dict)
    #: What holds the repair of what bookies held that are away.
    held: dict[BookieId, Held] = field(default_factory=dict)

    async def look_around(self, cluster: Cluster, view: View) -> None:
        """Note what stands in the cluster beside the ledgers.

        An audit waits for no evaluation, so it does not say whether a zone watch is at work.
        """
        self.alerts = await standing.read(cluster, view)
        self.restrictions = await restricting.read(cluster, view.topology)
        for one in view.topology:
            held = view.what_holds_bookie(one.id)
            if held is not None and held.by is not HeldBy.NOT_WATCHED:
                self.held[one.id] = held

    def count(self, kind: str, ledger_id: LedgerId, *, name: bool) -> None:
        """Count a ledger of a kind; ``name``: keep its id, too, if it is one of the first."""
        self.counts[kind] += 1
        if name:
            names = self.named.setdefault(kind, [])
            if len(names) < NAMED_MAX:
                names.append(ledger_id)


def _readable(listed: Listed, found: _Found) -> TypeGuard[StoredLedger]:
    """Count a ledger; False: it cannot be read, and is counted as unreadable."""
    found.ledgers += 1
    if isinstance(listed, UnreadableLedger):
        found.unreadable.append(listed.id)
        return False
    return True


@asynccontextmanager
async def _walked(cluster: Cluster, *, quiet: bool) -> AsyncIterator[AsyncIterator[Listed]]:
    """Give every ledger, and show how many were given."""
    async with (
        opening.attended(cluster.store),
        progressing.shown(quiet=quiet) as progress,
        aclosing(listing.walk(cluster)) as every,
    ):

        async def told() -> AsyncGenerator[Listed, None]:
            done = 0
            async for listed in every:
                yield listed
                done += 1
                progress.tell(progressing.work("ledgers", done, progress.elapsed_s))

        async with aclosing(told()) as some:
            yield some


async def _placement(place: Place, *, quiet: bool) -> _Found:
    async with reaching.opened(place) as cluster, reaching.seen(cluster) as view:
        check = PlacementCheck(view.topology, view.policy.placement, random.SystemRandom())
        found = _Found(counts=Counter({level.name: 0 for level in reversed(Level)}))
        async with _walked(cluster, quiet=quiet) as every:
            async for listed in every:
                if not _readable(listed, found):
                    continue
                finding = check.judge(listed.metadata)
                if finding is None:
                    found.counts["nothing finished"] += 1
                    continue
                strict = finding.level is Level.STRICT
                found.count(finding.level.name, listed.id, name=not strict)
                if finding.can_be_bettered:
                    found.count("could do better now", listed.id, name=True)
        await found.look_around(cluster, view)
        return found


async def _replicas(
    place: Place, tls: TlsFiles | None, wanted: Sequence[LedgerId], rate: int, *, quiet: bool
) -> _Found:
    async with (
        connecting.connected(place, tls, lasting=True) as client,
        reaching.seen(client.cluster) as view,
    ):
        metrics, found = AuditorMetrics(), _Found()
        reader = ReplicaReader(view, client.bookies.pool, metrics, BytePace(lambda: rate))
        store, total = client.cluster.store, len(set(wanted)) or None
        async with (
            opening.attended(store),
            progressing.shown(quiet=quiet) as progress,
            aclosing(_wanted(client.cluster, wanted)) as some,
        ):
            async for listed in some:
                if _readable(listed, found):
                    await _compare(reader, listed, metrics, found)
                read_bytes, ran_s = metrics.bytes_checked_total, progress.elapsed_s
                done = progressing.work(
                    "ledgers", found.ledgers, ran_s, total=total, moved_bytes=read_bytes
                )
                progress.tell(done)
        await found.look_around(client.cluster, view)
        found.details = {
            "entries": metrics.entries_checked_total,
            "bytes": metrics.bytes_checked_total,
            "copiesUnknown": metrics.copies_unknown_total,
            "entriesWithoutCopy": metrics.entries_without_copy_total,
            "entriesInConflict": metrics.entries_in_conflict_total,
        }
        return found


async def _wanted(cluster: Cluster, wanted: Sequence[LedgerId]) -> AsyncGenerator[Listed, None]:
    """Give the ledgers that are wanted, or all."""
    if not wanted:
        async with aclosing(listing.walk(cluster)) as every:
            async for listed in every:
                yield listed
    for ledger_id in sorted(set(wanted)):
        try:
            stored = await ledgers.read(cluster, ledger_id, sync=True)
        except UnreadableError as error:
            yield UnreadableLedger(ledger_id, error)
            continue
        if stored is None:
            raise RefusedCommand(f"there is no ledger {ledger_id}")
        yield stored


async def _compare(
    reader: ReplicaReader, ledger: StoredLedger, metrics: AuditorMetrics, found: _Found
) -> None:
    before = _counters(metrics)
    doubted = await reader.verify(ledger, _at_once)
    after = _counters(metrics)
    for bookie, (_, lack) in sorted(doubted.items()):
        found.count(f"{lack.value} on {bookie}", ledger.id, name=True)
    for kind, less, more in zip(_KINDS, before, after, strict=True):
        if more > less:
            found.count(kind, ledger.id, name=True)
    if not doubted and before == after:
        found.count("nothing found", ledger.id, name=False)


def _counters(metrics: AuditorMetrics) -> tuple[int, ...]:
    """Give the count of each of ``_KINDS``."""
    return (
        metrics.entries_without_copy_total,
        metrics.entries_in_conflict_total,
        metrics.copies_unknown_total,
    )


async def _at_once() -> None:
    """Wait for nothing."""


async def _lose(place: Place, lost: tuple[ZoneName, ...], *, and_one: bool, quiet: bool) -> _Found:
    async with reaching.opened(place) as cluster, reaching.seen(cluster) as view:
        zones.check(lost, zones.zones_of(view))
        found = _Found(counts=Counter({harm.word: 0 for harm in reversed(Harm)}))

        def is_lost(bookie: BookieId) -> bool:
            known = view.topology.get(bookie)
            return known is None or not known.readable or _zone(view, bookie) in lost

        async with _walked(cluster, quiet=quiet) as every:
            async for listed in every:
                if not _readable(listed, found):
                    continue
                outcome = what_if.of_ledger(
                    listed.metadata, lambda one: _zone(view, one), is_lost, and_one=and_one
                )
                found.count(outcome.harm.word, listed.id, name=outcome.harm is not Harm.NONE)
                if outcome.unwritable:
                    found.count("unwritable without another ensemble", listed.id, name=True)
        await found.look_around(cluster, view)
        return found


async def _open(place: Place, *, quiet: bool) -> _Found:
    async with reaching.opened(place) as cluster:
        found = _Found(counts=Counter(dict.fromkeys((_ABANDONED, _UNNAMED, _WRITTEN, _CLOSED), 0)))
        by_presence: dict[str, list[LedgerId]] = {}
        async with _walked(cluster, quiet=quiet) as every:
            async for listed in every:
                if not _readable(listed, found):
                    continue
                if listed.metadata.is_closed:
                    found.count(_CLOSED, listed.id, name=False)
                elif (name := presences.name_in(listed.metadata)) is None:
                    found.count(_UNNAMED, listed.id, name=True)
                else:
                    by_presence.setdefault(name, []).append(listed.id)
        gone = await presences.missing(cluster, by_presence)
        written = [(one, name in gone) for name, some in by_presence.items() for one in some]
        for ledger_id, is_abandoned in sorted(written):
            found.count(_ABANDONED if is_abandoned else _WRITTEN, ledger_id, name=True)
        return found


def _zone(view: View, bookie: BookieId) -> ZoneName | None:
    where = view.topology.location(bookie)
    return None if where is None else where.zone


def _answer(place: Place, found: _Found) -> None:
    if place.as_json:
        reaching.print_json(
            {
                "ledgers": found.ledgers,
                "counts": dict(found.counts),
                "named": found.named,
                "unreadable": found.unreadable,
                "alerts": [one.plain() for one in found.alerts],
                "restrictions": {
                    bookie: [one.plain() for one in some]
                    for bookie, some in found.restrictions.items()
                },
                "repairHeldBy": {
                    bookie: {"by": held.by, "text": held.text}
                    for bookie, held in found.held.items()
                },
                **found.details,
            }
        )
        return
    table = Table(box=box.SIMPLE)
    table.add_column("ledgers that are")
    table.add_column("number", justify="right")
    table.add_column(f"the first {NAMED_MAX}")
    for kind, count in found.counts.items():
        table.add_row(kind, str(count), ", ".join(map(str, found.named.get(kind, []))))
    if found.unreadable:
        first = ", ".join(map(str, found.unreadable[:NAMED_MAX]))
        table.add_row("not to be read", str(len(found.unreadable)), first)
    console = reaching.console()
    console.print(table)
    console.print(f"{found.ledgers} ledgers were looked at")
    for name, value in found.details.items():
        console.print(f"{_DETAILS[name]}: {value}")
    for bookie, some in found.restrictions.items():
        console.print(f"{bookie}: {'; '.join(map(str, some))}", markup=False, soft_wrap=True)
    for bookie, held in found.held.items():
        console.print(f"{bookie}: repair held by {held.by}", markup=False)
    standing.show(found.alerts)
