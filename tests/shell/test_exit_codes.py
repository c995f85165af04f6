"""The exit code of a command means the same, whichever component it comes from.

Every command that reaches a store is called as its own example says: with an address that is none,
with a store that is out of reach, and with a store where nothing is.
"""

import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.bookie.tools.places import BOOKIE, Place
from tests.shell.test_comfort import leaves
from zonekeeper.client.api import client as clients
from zonekeeper.metadata.cluster import joining
from zonekeeper.metadata.commands import exits, opening
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.placement.base.troubles import Refusal, Trouble
from zonekeeper.shell.main import main

POLICY = "placement:\n  zones: [a, b, c]\n"
#: By their name, the files that examples name.
FILES = {"policy.yaml": POLICY, "saved.jsonl": "", "app.log": "a line\n"}
#: They take addresses as arguments, not as an option.
BY_ARGUMENT = ("metadata diff",)


def reaching() -> list[tuple[str, click.Command]]:
    """Give all commands that reach a store."""
    return [
        (words, command)
        for words, command in leaves((), main)
        if words in BY_ARGUMENT or any("--metadata" in one.opts for one in command.params)
    ]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A bookie's folder that was prepared in a cluster, and the files of the examples."""
    place = Place(tmp_path_factory.mktemp("exits"))
    place.initialise()
    assert place.format().exit_code == 0
    assert place.on_data("export-hints", str(place.folder / "bk-a-0.hints")).exit_code == 0
    for name, text in FILES.items():
        (place.folder / name).write_text(text)
    return place


@pytest.fixture
def place(prepared: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The folder that all is typed in; nothing that is refused, or fails, changes it."""
    monkeypatch.chdir(prepared.folder)
    return prepared


def call(place: Place, words: str, command: click.Command, address: str) -> Result:
    """Call a command as its example says, on the place's bookie and with an address."""
    assert command.epilog is not None
    example = command.epilog.removeprefix("Example: zonekeeper ").partition(" < ")[0]
    typed = shlex.split(example.partition(" > ")[0])[len(words.split()) :]
    typed = [word for word in typed if word != "bk-b-0.hints"]
    if words in BY_ARGUMENT:
        typed = [address, address]
    else:
        typed = [*without("--metadata", typed), "--metadata", address]
    known = {name for one in command.params for name in one.opts}
    if "--data" in known:
        data = place.folder / "new" if words == "bookie format" else place.data
        typed = [*without("--data", typed), "--data", str(data)]
    if "--http" in known:
        typed += ["--http", "127.0.0.1:0"]
    if "--listen" in known:
        typed += ["--listen", "127.0.0.1:0"]
    if "--yes" in known:
        typed += ["--yes"]
    env = {"ZONEKEEPER_METADATA": None, "ZONEKEEPER_DATA": None, "COLUMNS": "80"}
    return CliRunner(env=env).invoke(main, [*words.split(), *typed], catch_exceptions=False)


def without(name: str, typed: list[str]) -> list[str]:
    """Leave out an option and what it says."""
    if name not in typed:
        return typed
    at = typed.index(name)
    return typed[:at] + typed[at + 2 :]


async def out_of_reach(
    address: str, timeouts: object = None, *, must_exist: bool = False
) -> MetadataStore:
    """Answer as a store that is out of reach; a real one takes its time to find out."""
    raise StoreUnavailableError("no server answers", store=address)


@pytest.mark.parametrize(("words", "command"), reaching(), ids=str)
def test_an_address_that_is_none_is_refused(
    place: Place, words: str, command: click.Command
) -> None:
    said = call(place, words, command, "etcd://nowhere")

    assert said.exit_code == exits.REFUSED, said.output
    assert "Error: " in said.stderr
    assert "etcd://nowhere" in said.stderr


#: They go on without the store, and wait until it is back.
STAYING = ("console",)


@pytest.mark.parametrize(
    ("words", "command"), [each for each in reaching() if each[0] not in STAYING], ids=str
)
def test_a_store_that_is_out_of_reach_is_no_mistake_of_whoever_asks(
    place: Place, words: str, command: click.Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (opening, clients, joining):
        monkeypatch.setattr(module, "open_store", out_of_reach)

    said = call(place, words, command, "zk://away:2181/ledgers")

    assert said.exit_code == exits.NOT, said.output
    assert said.stderr.splitlines()[-1].startswith("Error: ")
    assert "no server answers" in said.stderr


#: They make what is not there.
MAKING = ("cluster init", "metadata import", "metadata rebuild")


@pytest.mark.parametrize(
    ("words", "command"),
    [each for each in reaching() if each[0] not in MAKING],
    ids=str,
)
def test_a_store_where_nothing_is_is_refused_and_not_made(
    place: Place, words: str, command: click.Command
) -> None:
    missing = place.folder / "slip.db"

    said = call(place, words, command, f"sqlite://{missing}")

    assert said.exit_code == exits.REFUSED, said.output
    assert "there is no such file" in said.stderr
    assert not missing.exists()


@pytest.mark.parametrize(("words", "command"), reaching(), ids=str)
def test_what_is_no_store_is_refused(place: Place, words: str, command: click.Command) -> None:
    said = call(place, words, command, f"sqlite://{place.folder / 'app.log'}")

    assert said.exit_code == exits.REFUSED, said.output
    assert "app.log" in said.stderr
    assert (place.folder / "app.log").read_text() == FILES["app.log"]


def test_an_operator_without_an_api_server_could_not_do_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    away = CliRunner().invoke(main, ["operator", "run"])
    wrong = CliRunner().invoke(main, ["operator", "run", "--http", "8080"])

    assert (away.exit_code, wrong.exit_code) == (exits.NOT, exits.REFUSED), away.output
    assert "Error: --http: '8080': must be HOST:PORT" in wrong.stderr


def test_a_trouble_s_kind_says_the_exit_code() -> None:
    assert exits.of(Refusal("no")).exit_code == exits.REFUSED
    assert exits.of(Trouble("no")).exit_code == exits.NOT
    assert exits.of(OSError("no")).exit_code == exits.NOT
    assert (exits.answer(yes=True), exits.answer(yes=False)) == (exits.DONE, exits.NOT)


def test_the_bookie_of_the_place_is_the_one_of_the_examples() -> None:
    assert BOOKIE == "bk-a-0"
