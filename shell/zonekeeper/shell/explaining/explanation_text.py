"""The report of ``placement explain`` for people.

The report fits 80 columns. It loses nothing without colour: each colour repeats a word.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import yaml
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zonekeeper.placement.base.holds import Holds
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.policy import legality, rules_data
from zonekeeper.placement.promises import cost
from zonekeeper.placement.promises.cost import Prices
from zonekeeper.placement.promises.headroom import Headroom
from zonekeeper.placement.promises.outages import OutageOutcome
from zonekeeper.placement.promises.survivability import Answer, LossKind, LossRow
from zonekeeper.shell.explaining.explanation import Example, Explanation, Least

_STYLES: Final = {Holds.YES: "green", Holds.PERHAPS: "yellow", Holds.NO: "red"}
_LEVEL_STYLES: Final = {Level.STRICT: "green", Level.SOFT: "yellow", Level.FAIL: "red"}
_QUESTIONS: Final = ("reads", "recovery", "acks")
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_FIGURES: Final = 1_000


def write(console: Console, explanation: Explanation, *, show_policy: bool) -> None:
    """Print the report."""
    _heading(console, explanation)
    _findings(console, "Refused", "red", explanation.verdict.refusals)
    if explanation.impossible:
        console.print(Text("No ledger can be created", "bold red"))
        _say(console, explanation.impossible)
        console.print()
    _findings(console, "Warnings", "yellow", explanation.verdict.warnings)
    if explanation.example:
        _survival(console, explanation.example)
        _never_gated(console, explanation.never_gated)
    if explanation.least:
        _least(console, explanation.least, explanation.cluster.policy.quorums.write)
    if explanation.example:
        _crossings(console, explanation.example)
        if explanation.example.bill:
            _bill(console, explanation.example.bill, explanation.cluster.prices)
    if explanation.room:
        _headroom(console, explanation.room)
    if show_policy:
        _title(console, "The policy in effect", "")
        text = yaml.safe_dump(rules_data.rules(explanation.cluster.policy), sort_keys=False)
        console.print(Text(textwrap.indent(text, "  ")), soft_wrap=True)


def _heading(console: Console, explanation: Explanation) -> None:
    policy, topology = explanation.cluster.policy, explanation.cluster.topology
    quorums, rules = policy.quorums, policy.placement
    standing = Counter(bookie.location.zone for bookie in topology if bookie.location)
    counts = ", ".join(f"{zone} {standing[zone]}" for zone in rules.zones)
    console.print(
        Text.assemble(
            (str(quorums), "bold"),
            f" (ensemble/write/ack), acks in {quorums.ack_zones} zone{_s(quorums.ack_zones)}, ",
            "strict placement" if rules.strict else "placement that is not strict",
        )
    )
    domains = f"{rules.upgrade_domains} upgrade domain{_s(rules.upgrade_domains)} each"
    _say(console, f"bookies by zone: {counts}; {domains}", columns=0)
    usable = explanation.usable
    console.print(Text("usable" if usable else "NOT USABLE", "green" if usable else "bold red"))
    console.print()


def _findings(
    console: Console, title: str, style: str, findings: Sequence[legality.BrokenRule]
) -> None:
    if not findings:
        return
    console.print(Text(title, f"bold {style}"))
    for finding in findings:
        _say(console, f"{finding.reason} [{finding.code}]", bullet="- ")
        _say(console, f"For example: {finding.example}.", columns=4)
    console.print()


def _survival(console: Console, example: Example) -> None:
    level = example.choice.judgement.level.name
    members = " ".join(str(place) for place in example.places)
    _title(console, "What a ledger made now survives", f"{level}: {members}")
    built = {found.loss: found for found in example.rebuilding}
    table = _survival_table([*_QUESTIONS, "change", "new"])
    for row in example.rows:
        rebuilding = built[row.loss]
        table.add_row(
            row.loss, *_answers(row), _outcome(rebuilding.changed), _outcome(rebuilding.new)
        )
    console.print(table)
    notes = [note for row in example.rows for note in _notes(row)]
    notes += [
        (found.loss, what, outcome.why)
        for found in example.rebuilding
        for what, outcome in (("change", found.changed), ("new", found.new))
        if outcome.level is None
    ]
    _print_notes(console, notes)
    _say(
        console,
        "In the worst case, left >= needed: reads, copies of an entry just acknowledged; "
        "recovery, bookies that answer; acks, bookies that go on without an ensemble change. "
        "change: can the lost members be replaced? new: can a ledger be created?",
    )
    console.print()


def _never_gated(console: Console, zones: Sequence[str]) -> None:
    for zone in zones:
        text = (
            f"The loss of zone {zone} is survived as the table says, but it is never held: the "
            "zone is smaller than zoneWatch.minLost. An outage of it that outlasts "
            "repair.bookieRecoveryDelay moves its data."
        )
        _say(console, text, bullet="- ")
    if zones:
        console.print()


def _least(console: Console, least: Least, write: int) -> None:
    zones = f"{least.zones} zone{_s(least.zones)}"
    _title(
        console,
        "What any ledger survives, at least",
        f"entries in {zones} or more, at most {least.together} of {write} copies in one",
    )
    table = _survival_table(_QUESTIONS)
    for row in least.rows:
        table.add_row(row.loss, *_answers(row))
    console.print(table)
    _print_notes(console, [note for row in least.rows for note in _notes(row)])
    console.print()


def _survival_table(columns: Iterable[str]) -> Table:
    table = _table()
    table.add_column("loss of", min_width=20, no_wrap=True)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _answers(row: LossRow) -> list[Text]:
    return [_answer(answer) for answer in (row.reads, row.recovery, row.acks)]


def _answer(answer: Answer) -> Text:
    word = answer.holds.word
    enough = answer.left >= answer.needed
    # Enough bookies and still not YES: the zones are the reason. The note below the table says it.
    numbers = f"{answer.left} {'>=' if enough else '<'} {answer.needed}"
    shown = f"{word}, zones" if enough and answer.holds is not Holds.YES else f"{word} {numbers}"
    return Text(shown, _STYLES[answer.holds])


def _outcome(outcome: OutageOutcome) -> Text:
    if outcome.level is None:
        return Text(outcome.holds.word, _STYLES[outcome.holds])
    return Text(outcome.level.name, _LEVEL_STYLES[outcome.level])


def _notes(row: LossRow) -> list[tuple[LossKind, str, str]]:
    answers = zip(_QUESTIONS, (row.reads, row.recovery, row.acks), strict=True)
    return [
        (row.loss, question, answer.why)
        for question, answer in answers
        if answer.holds is not Holds.YES
    ]


def _print_notes(console: Console, notes: Sequence[tuple[LossKind, str, str]]) -> None:
    """Say for each question at which loss it first fails: a larger loss fails as well."""
    said = set()
    for loss, question, why in notes:
        if question not in said:
            _say(console, f"{question}, {loss}: {why}", bullet="- ")
        said.add(question)


def _crossings(console: Console, example: Example) -> None:
    _title(console, "What crosses zones", "bytes between zones, for each byte")
    found = example.crossings
    table = _table()
    table.add_column("for each byte")
    table.add_column("crossing", justify="right")
    for what, ratio in (
        ("written", found.written),
        ("read, nearest copy first", found.read_near),
        ("read, if order ignored zones", found.read_anywhere),
        ("read and hedged, more", found.hedged),
        ("passed on by a proxy that knows no zones", found.hop),
        ("of a lost bookie, repaired in its zone", found.repair_bookie),
        ("of a lost zone, repaired in the others", found.repair_zone),
        ("of a lost zone, moved back to it", found.respread),
    ):
        table.add_row(what, f"{float(ratio):.2f}")
    console.print(table)
    console.print()


def _bill(console: Console, bill: Sequence[cost.BillLine], prices: Prices | None) -> None:
    source = (
        f"{float(prices.per_gb):g} {prices.currency} a GB, as of {prices.as_of}: {prices.source}"
        if prices
        else "no prices given"
    )
    _title(console, "What it comes to", source)
    table = _table()
    table.add_column("for")
    table.add_column("between zones", justify="right")
    if prices:
        table.add_column(prices.currency, justify="right")
    for line in bill:
        money = [] if line.money is None else [f"{float(line.money):,.2f}"]
        table.add_row(line.flow, _bytes(round(line.crossing_bytes)), *money)
    console.print(table)
    console.print()


def _headroom(console: Console, answers: Sequence[Headroom]) -> None:
    _title(console, "Is there room for a lost zone?", "")
    table = _table()
    for column in ("lost", "holds", "room elsewhere", "answer"):
        table.add_column(column)
    for answer in answers:
        needed = "unknown" if answer.needed_bytes is None else _bytes(answer.needed_bytes)
        free = ", ".join(f"{zone} {_bytes(room)}" for zone, room in answer.free_bytes.items())
        table.add_row(answer.zone, needed, free or "-", f"{answer.room.value}: {answer.why}")
    console.print(table)
    console.print()


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))


def _title(console: Console, title: str, subtitle: str) -> None:
    console.print(Text(title, "bold"))
    if subtitle:
        _say(console, subtitle)


def _say(console: Console, text: str, *, columns: int = 2, bullet: str = "") -> None:
    """Print a sentence, wrapped and indented, without the trailing blanks of padding."""
    margin = " " * columns
    lines = textwrap.wrap(
        text,
        console.width,
        initial_indent=margin + bullet,
        subsequent_indent=margin + " " * len(bullet),
        break_on_hyphens=False,
    )
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _bytes(count: int) -> str:
    """Spell a size for people, with three figures."""
    value, units = float(count), list(_UNITS)
    while value >= _FIGURES and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.3g} {units[0]}"
