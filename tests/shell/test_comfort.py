"""All commands at a terminal: help, examples, completion, clear ends."""

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from tests.shell.live_world import LiveWorld
from tests.support.ready_processes import SHELL
from zonekeeper.shell.main import main

#: The commands on a live cluster.
LIVE = (
    *("audit", "autorecovery", "bookies", "ledger", "log", "maintenance"),
    *("plan", "policy", "timeline", "top", "zones"),
)
LIMIT_S = 60
#: A file that an example names.
FILE = re.compile(r"[\w-]+\.[a-z]+")
NOWHERE = "sqlite:///no/such/folder/meta.db"
#: What only commands that ask bookies need.
HEAVY = ("grpc", "kubernetes", "kopf", "pyspark", "rocksdict", "zonekeeper.client.api.client")


def leaves(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Give every command that does something, with its words."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command, **command.context_settings)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves((*path, name), inner)


def live_commands() -> list[tuple[str, click.Command]]:
    context = click.Context(main, **main.context_settings)
    found: list[tuple[str, click.Command]] = []
    for name in LIVE:
        command = main.get_command(context, name)
        assert command is not None
        found += leaves((name,), command)
    return found


def shell(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SHELL, *words],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("words", "command"), [*leaves((), main)], ids=str)
def test_a_help_text_has_an_example_that_can_be_typed(
    words: str, command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command.epilog is not None
    assert command.epilog.startswith(f"Example: zonekeeper {words}")
    typed = shlex.split(command.epilog.partition(">")[0])[2 + len(words.split()) :]
    monkeypatch.chdir(tmp_path)
    for file in filter(FILE.fullmatch, typed):
        Path(file).touch()
    needed = any("--metadata" in one.opts and one.required for one in command.params)
    if needed and "--metadata" not in typed:
        typed += ["--metadata", NOWHERE]
    command.make_context(words, typed, help_option_names=["-h", "--help"]).close()


@pytest.mark.parametrize(("words", "command"), live_commands(), ids=str)
def test_what_is_common_has_one_name(words: str, command: click.Command) -> None:
    options = {name for one in command.params for name in one.opts}
    assert "--metadata" in options
    metadata = next(one for one in command.params if "--metadata" in one.opts)
    if words == "autorecovery run":  # it reads its table itself, so that refusals name the source
        assert isinstance(metadata, click.Option)
        assert "[env ZONEKEEPER_METADATA; required]" in (metadata.help or "")
    else:
        assert metadata.envvar == "ZONEKEEPER_METADATA"
        assert {"--cluster-id", "--output", "-o"} <= options
    if "--yes" in options:
        assert "--dry-run" in options
    assert ("--reason" in options) == ("--by" in options)


@pytest.mark.parametrize(
    "words", [[], *([name, "--help"] for name in ("zones", "plan", "policy", "timeline"))]
)
def test_help_loads_nothing_that_is_heavy(words: list[str]) -> None:
    code = (
        "import json, sys\n"
        "from zonekeeper.shell.main import main\n"
        f"main({words!r}, standalone_mode=False)\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: " in done.stdout
    assert not {*HEAVY} & {*json.loads(done.stderr)}


def test_every_command_is_listed_as_it_says_of_itself() -> None:
    context = click.Context(main, **main.context_settings)
    listed = " ".join(CliRunner().invoke(main).stdout.split())
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        said = command.get_short_help_str(55).rstrip(".")
        assert f" {name} {said}" in listed


def test_no_list_of_commands_breaks_off_in_a_sentence() -> None:
    context = click.Context(main, **main.context_settings)
    for name in main.list_commands(context):
        listed = CliRunner().invoke(main, [name, "--help"]).stdout
        assert "..." not in listed.partition("Commands:")[2], name


def test_words_are_completed_by_the_shell() -> None:
    def completed(words: str, typed: str) -> list[str]:
        found = BashComplete(main, {}, "zonekeeper", "_ZONEKEEPER_COMPLETE")
        return [one.value for one in found.get_completions(shlex.split(words), typed)]

    assert completed("", "zo") == ["zones"]
    assert completed("autorecovery", "") == [
        *("disable", "enable", "hold", "release", "run", "status")
    ]
    assert completed("zones status", "--out") == ["--output"]
    assert completed("zones status --output", "j") == ["json"]


@pytest.mark.processes
def test_completion_is_installed_by_one_line() -> None:
    done = shell(_ZONEKEEPER_COMPLETE="bash_source")
    assert done.returncode == 0, done.stderr
    assert "complete -o nosort" in done.stdout


# ── ends ──


@pytest.fixture
def address(tmp_path: Path) -> str:
    world = LiveWorld(tmp_path)
    world.build(lost="a")
    return world.address


@pytest.mark.processes
@pytest.mark.parametrize(
    "words",
    [
        ["timeline"],
        ["zones", "status"],
        ["policy", "show", "-o", "json"],
        ["bookies", "list"],
        ["metadata", "export", "-"],
    ],
)
def test_who_reads_no_further_gets_no_traceback(address: str, words: list[str]) -> None:
    with subprocess.Popen(
        [*SHELL, *words, "--metadata", address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0, "other codes mean something here"


@pytest.mark.processes
@pytest.mark.parametrize("words", [["timeline"], ["zones", "status"], ["bookies", "list"]])
def test_a_terminal_that_knows_few_characters_is_no_harm(address: str, words: list[str]) -> None:
    done = subprocess.run(
        [*SHELL, *words, "--metadata", address],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.processes
@pytest.mark.parametrize(
    "words", [["zones", "status"], ["top", "--once", "--every", "0.1"], ["ledger", "list"]]
)
def test_an_answer_that_goes_nowhere_is_no_harm(address: str, words: list[str]) -> None:
    closed = ["bash", "-c", 'exec "$@" >&-', "closed", *SHELL, *words, "--metadata", address]
    done = subprocess.run(closed, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_column_is_left_out_where_a_terminal_is_narrow(tmp_path: Path) -> None:
    world = LiveWorld(tmp_path)
    world.build(lost="a")
    words = ["zones", "status", "--metadata", world.address]
    wide, narrow = (
        CliRunner(env={"COLUMNS": columns}).invoke(main, words).stdout for columns in ("80", "40")
    )
    assert narrow == wide


@pytest.mark.processes
def test_top_is_read_as_long_as_one_likes(address: str) -> None:
    with subprocess.Popen(
        [*SHELL, "top", "--every", "0.1", "--metadata", address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        try:
            assert (process.stderr.read(), process.wait(LIMIT_S)) == ("", 0)
        finally:
            process.kill()


#: What is started in the background may have interruptions switched off, and hand that on.
INTERRUPTIBLE = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runpy.run_module('zonekeeper.shell', run_name='__main__')"
)


#: A terminal interrupts the processes that have taken it as theirs.
INTERRUPTIBLE_ON_A_TERMINAL = (
    f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); {INTERRUPTIBLE}"
)


@pytest.mark.processes
def test_an_interruption_is_no_traceback_either(address: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "top", "--every", "0.1", "--metadata", address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it is drawn: it looks again and again
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, "interrupted\n")


def test_an_interruption_while_it_is_loaded_is_no_traceback() -> None:
    code = (
        "import runpy, sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'zonekeeper.shell.hosting.hosting':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "runpy.run_module('zonekeeper.shell', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")


QUESTION = "zonekeeper autorecovery disable --metadata {address} --reason because"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("typed", "code", "last"), [(b"\x03", 130, "interrupted"), (b"n\n", 1, "Aborted!")]
)
def test_an_interruption_is_no_answer_to_a_question(
    address: str, typed: bytes, code: int, last: str
) -> None:
    ours, theirs = os.openpty()
    asked = shlex.split(QUESTION.format(address=address))[1:]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE_ON_A_TERMINAL, *asked],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        said = b""
        try:
            while not said.endswith(b"[y/N]: "):
                more = process.stderr.read(1)
                assert more, said
                said += more
            # What is typed just before it begins to read interrupts nothing: typed again, it does.
            # One that only takes its time must not be hit twice: that ends it by the signal.
            for _ in range(5):
                os.write(ours, typed)
                if select.select([process.stderr], [], [], LIMIT_S)[0]:
                    break
            said += process.stderr.read()
            assert process.wait(LIMIT_S) == code
        finally:
            process.kill()
            os.close(theirs)
            os.close(ours)
    assert said.decode().split()[-1] == last


@pytest.mark.processes
def test_a_store_that_is_away_is_said_with_what_to_do() -> None:
    away = shell("zones", "status", "--metadata", "zk://127.0.0.1:1/ledgers")
    assert (away.returncode, away.stdout) == (1, "")
    assert "no server gave a session" in away.stderr
    folder = shell("zones", "status", ZONEKEEPER_METADATA=NOWHERE)
    assert (folder.returncode, folder.stdout) == (2, "")
    assert "there is no such file" in folder.stderr
    for done in (away, folder):
        assert done.stderr.startswith("Error: ")
        assert "Traceback" not in done.stderr
