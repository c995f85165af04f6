"""Every command of every runbook is typed on a real cluster, as it stands in the page.

S150. One small cluster serves all. The table below fills the placeholders, and says what must be so
before a command has a meaning: a release needs a hold. Where a command asks, the person says yes.
An order that waits for other people's acts is typed with ``--dry-run``.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.shell import typed_runbooks
from tests.shell.live_cluster import LiveCluster, live_cluster, registration
from tests.shell.typed_runbooks import Typed
from zonekeeper.placement.base.topology import Registration
from zonekeeper.shell.commands.autorecovery import autorecovery
from zonekeeper.shell.commands.bookies import bookies
from zonekeeper.shell.commands.maintenance import maintenance
from zonekeeper.shell.main import main
from zonekeeper.shell.runbooks import shelf

pytestmark = pytest.mark.processes

LOST, THERE, ZONE, DOMAIN = "bk-c-1", "bk-a-1", "b", "ud-1"
LOG, CURSOR = "orders/eu-1", "billing"
EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "cluster.yaml"
#: They end only after people or other processes have done more.
ORDERS = ("zonekeeper bookies decommission", "zonekeeper bookies recover")
#: It serves until it is stopped: typed for its help.
SERVES = ("zonekeeper autorecovery run",)
#: They make a root where there is none.
ANEW = ("zonekeeper metadata import", "zonekeeper metadata rebuild")


class Person:
    """A person at a terminal, who follows runbooks on one cluster."""

    def __init__(self, cluster: LiveCluster, folder: Path) -> None:
        self.cluster = cluster
        self._folder = folder
        self._empty_roots = 0
        self.table = {
            "zone": ZONE,
            "bookie": THERE,
            "domain": DOMAIN,
            "reason": "a test: what a page says",
            "cluster-file": str(EXAMPLE),
            "export": str(folder / "saved.jsonl"),
            "hints": str(folder / "kept.hints"),
            "new-hints": str(folder / "new.hints"),
            "log": LOG,
            "cursor": CURSOR,
            "stopped-bookie-data": str(cluster.local.folder / "bookies" / LOST),
        }

    def types(self, line: str, *, address: str | None = None) -> Result:
        words = shlex.split(line)[1:]
        environment = {"ZONEKEEPER_METADATA": address or self.cluster.address}
        return CliRunner(env=environment).invoke(main, words, catch_exceptions=False)

    def empty_root(self) -> str:
        self._empty_roots += 1
        return f"sqlite://{self._folder / f'empty-{self._empty_roots}.db'}"


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    folder = tmp_path_factory.mktemp("runbooks")
    with live_cluster(folder / "cluster", "--bookies-per-zone", "2") as cluster:
        cluster.local.data("kill-bookie", LOST)
        cluster.until(registration(LOST, Registration.ABSENT))
        someone = Person(cluster, folder)
        for line in (
            "zonekeeper metadata export <export>",
            "zonekeeper bookie export-hints --data <stopped-bookie-data> <hints>",
        ):
            made = someone.types(Typed("", line).filled(someone.table))
            assert made.exit_code == 0, made.output
        yield someone


def typed() -> list[Typed]:
    """Give each command once, for the first page that has it."""
    found: dict[str, Typed] = {}
    for name, text in shelf.pages().items():
        for one in typed_runbooks.commands(name, text):
            if one.line.startswith("zonekeeper "):
                found.setdefault(one.line, one)
    return list(found.values())


def prepare(person: Person, line: str) -> None:
    """Bring about what the command is for."""
    why = ("--by", "anna", "--reason", "a test")
    if line.startswith("zonekeeper autorecovery release"):
        which = ("--cluster",) if "--cluster" in line else ("--zone", ZONE)
        person.cluster.text(autorecovery, "hold", *which, *why)
    if line.startswith("zonekeeper bookies take-back"):
        drain = ("drain", THERE, "--no-follow", "--yes", *why)
        person.cluster.text(bookies, *drain)
    if line.startswith("zonekeeper log "):
        person.types(f"zonekeeper log create {LOG}")  # perhaps it is there
        for made in (f"append {LOG} --payload one", f"read {LOG} --cursor {CURSOR} --move"):
            assert person.types(f"zonekeeper log {made}").exit_code == 0
    if line.startswith("zonekeeper maintenance "):
        person.cluster.call(maintenance, "end", "--zone", ZONE, *why)  # perhaps nothing is declared
    if line.startswith("zonekeeper maintenance end"):
        unit = ("--zone", ZONE, "--upgrade-domain", DOMAIN, "--for", "30m")
        person.cluster.text(maintenance, "start", *unit, *why)


def as_typed(person: Person, line: str) -> str:
    if line.startswith(ORDERS) and "--dry-run" not in line:
        return f"{line} --dry-run"
    if line.startswith(SERVES):
        return f"{line} --help"
    words = shlex.split(line)[1:]
    path = words[: 3 if words[:2] == ["log", "cursor"] else 2]
    asks = "--yes" in person.types(f"zonekeeper {' '.join(path)} --help").stdout
    return f"{line} --yes" if asks and "--dry-run" not in line else line


@pytest.mark.parametrize("one", typed(), ids=str)
def test_s150_a_command_of_a_runbook_runs_as_it_is_typed(person: Person, one: Typed) -> None:
    table = dict(person.table)
    if one.line.startswith("zonekeeper bookies recover"):
        table["bookie"] = LOST
    line = one.filled(table)
    prepare(person, line)
    address = None
    if line.startswith(ANEW):
        address = person.empty_root()
    result = person.types(as_typed(person, line), address=address)
    assert result.exit_code == 0, f"{one.runbook}: {line}\n{result.output}"
