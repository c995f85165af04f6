"""The answers to the user's shell: fast, from files, and without a word of an error."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.shell.completing import answering, commands
from zonekeeper.shell.completing.word_tree import Words
from zonekeeper.shell.hosting.hosting import CommandHost
from zonekeeper.shell.main import main
from zonekeeper.shell.reaching import last_seen, seen_logs
from zonekeeper.shell.reaching.last_seen import KnownProcess, LastSeen
from zonekeeper.wire.running.page_identity import ProcessKind

STORE = "zk://zk-0:2181/ledgers"
#: What only commands need: they reach bookies and stores, and make tables.
HEAVY = ("asyncio", "grpc", "kazoo", "pyarrow", "rich", "rocksdict", "sqlite3", "yaml", "aiohttp")
STATUS = Words(
    options={"--output": ("text", "json"), "--zone": "zone", "--flag": "none"},
    arguments=("zone",),
    many=True,
)
TREE = Words(
    commands={
        "zones": Words(commands={"status": STATUS}),
        "bookies": Words(
            commands={"show": Words(options={"--metadata": "text"}, arguments=("bookie",))}
        ),
        "local": Words(
            commands={
                "kill-zone": Words(options={"--folder": "file"}, arguments=("zone",)),
                "kill-bookie": Words(arguments=("bookie",)),
            }
        ),
        "log": Words(
            commands={
                "read": Words(options={"--cursor": "log cursor"}, arguments=("log",)),
                "handover": Words(options={"--to": "log candidate"}, arguments=("log",)),
                "list": Words(arguments=("log namespace",)),
            }
        ),
        "runbook": Words(arguments=("runbook",)),
        "policy": Words(arguments=("file",)),
    }
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "ZONEKEEPER_METADATA": STORE}


def seen(environment: dict[str, str], store: str = STORE) -> None:
    def known(kind: ProcessKind, name: str, zone: str) -> KnownProcess:
        return KnownProcess(
            kind=kind,
            name=BookieId(name),
            zone=ZoneName(zone),
            upgrade_domain=UpgradeDomain("ud-0"),
            http=None,
            address=None,
            seen_ms=1,
        )

    processes = (
        known(ProcessKind.AUTORECOVERY, "auto-0", "c"),
        known(ProcessKind.BOOKIE, "bk-a-0", "a"),
        known(ProcessKind.BOOKIE, "bk-b-0", "b"),
    )
    sight = LastSeen(
        store=last_seen.store_name(store), instance="7f", seen_ms=1, processes=processes
    )
    assert last_seen.remember(last_seen.cache_folder(environment), sight) is None


def answered(environment: dict[str, str], typed: str, begun: str = "") -> list[str]:
    return answering.answer(TREE, typed.split(), begun, environment)[0]


def test_s180_zones_and_bookies_are_those_that_a_command_saw_last(
    environment: dict[str, str],
) -> None:
    assert answered(environment, "zones status") == [], "nothing was seen yet"
    seen(environment)

    assert answered(environment, "zones status") == ["a", "b", "c"]
    assert answered(environment, "bookies show") == ["bk-a-0", "bk-b-0"], "and no other process"
    assert answered(environment, "bookies show", "bk-b") == ["bk-b-0"]
    other = "bookies show --metadata zk://other:2181/ledgers"
    assert answered(environment, other) == []
    assert answered({**environment, "ZONEKEEPER_METADATA": "nonsense"}, "zones status") == []


def seen_log(environment: dict[str, str], name: str, *cursors: str) -> None:
    folder = seen_logs.cache_folder(environment)
    store = last_seen.store_name(STORE)
    seen_logs.change(folder, store, "7f", lambda seen: seen_logs.used(seen, name, cursors))


def test_s180_logs_and_cursors_are_those_that_commands_saw_last(
    environment: dict[str, str],
) -> None:
    assert answered(environment, "log read") == [], "nothing was seen yet"
    seen_log(environment, "orders/eu-1", "billing", "audit")
    seen_log(environment, "orders/us-1", "other")
    seen_log(environment, "single")

    assert answered(environment, "log read") == ["orders/eu-1", "orders/us-1", "single"]
    assert answered(environment, "log read", "orders/e") == ["orders/eu-1"]
    assert answered(environment, "log read orders/eu-1 --cursor") == ["audit", "billing"]
    assert answered(environment, "log read orders/eu-1", "--cursor=b") == ["--cursor=billing"]
    assert answered(environment, "log read --cursor") == [], "of which log?"
    assert answered(environment, "log list") == ["orders"], "and not the empty one"
    other = {**environment, "ZONEKEEPER_METADATA": "zk://other:2181/ledgers"}
    assert answered(other, "log read") == []
    assert answered({**environment, "ZONEKEEPER_METADATA": "nonsense"}, "log read") == []


def test_s180_candidates_are_those_that_commands_saw_last(environment: dict[str, str]) -> None:
    seen_log(environment, "orders/eu-1", "billing")
    assert answered(environment, "log handover orders/eu-1 --to") == []
    folder, store = seen_logs.cache_folder(environment), last_seen.store_name(STORE)
    seen_logs.change(
        folder, store, "7f", lambda seen: seen_logs.used(seen, "orders/eu-1", candidates=["b", "a"])
    )
    assert answered(environment, "log handover orders/eu-1 --to") == ["a", "b"]
    assert answered(environment, "log handover orders/eu-1", "--to=b") == ["--to=b"]
    assert answered(environment, "log handover orders/us-1 --to") == []
    assert answered(environment, "log read orders/eu-1 --cursor") == ["billing"]


def test_s180_many_logs_are_completed_part_by_part(environment: dict[str, str]) -> None:
    for number in range(answering.LOGS_SHOWN // 2 + 1):
        seen_log(environment, f"all/eu/{number:03d}")
        seen_log(environment, f"all/us/{number:03d}")
    assert answered(environment, "log read") == ["all/eu/", "all/us/"]
    assert len(answered(environment, "log read", "all/eu/")) == answering.LOGS_SHOWN // 2 + 1
    assert answered(environment, "log list") == ["all/eu", "all/us"]


@pytest.mark.parametrize(
    ("typed", "begun", "found"),
    [
        # As bash takes it apart:
        ("zones status --output", "=", ["text", "json"]),
        ("zones status --output =", "j", ["json"]),
        ("zones status --output = json", "", ["a", "b", "c"]),
        ("zones status --zone =", "", ["a", "b", "c"]),
        # As zsh and fish, and a bash whose COMP_WORDBREAKS has no "=", leave it:
        ("zones status", "--output=", ["--output=text", "--output=json"]),
        ("zones status", "--output=j", ["--output=json"]),
        ("zones status", "--zone=b", ["--zone=b"]),
        ("zones status", "--flag=", []),
        ("zones status", "--nonsense=", []),
    ],
)
def test_s180_a_value_behind_an_equals_sign_is_completed(
    environment: dict[str, str], typed: str, begun: str, found: list[str]
) -> None:
    seen(environment)
    assert answered(environment, typed, begun) == found


def test_names_of_a_local_cluster_are_those_in_its_folder(
    environment: dict[str, str], tmp_path: Path
) -> None:
    for name in ("bk-a-0", "bk-a-1", "bk-b-0"):
        (tmp_path / ".zonekeeper" / "local" / "bookies" / name).mkdir(parents=True)
    (tmp_path / "mine" / "bookies" / "bk-c-0").mkdir(parents=True)

    assert answered(environment, "local kill-zone") == ["a", "b"]
    assert answered(environment, "local kill-bookie") == ["bk-a-0", "bk-a-1", "bk-b-0"]
    assert answered(environment, f"local kill-zone --folder {tmp_path / 'mine'}") == ["c"]
    mine = {**environment, "ZONEKEEPER_LOCAL": str(tmp_path / "mine")}
    assert answered(mine, "local kill-bookie") == ["bk-c-0"]


def test_runbooks_and_files_are_completed(environment: dict[str, str]) -> None:
    assert "zoneHeld" in answered(environment, "runbook", "zoneH")
    assert answering.answer(TREE, ["policy"], "", environment) == ([], True)
    assert answering.answer(TREE, ["policy"], "--", environment) == ([], False)


def test_s180_words_are_remembered_until_a_file_that_they_were_made_of_changes(
    environment: dict[str, str], tmp_path: Path
) -> None:
    source = tmp_path / "commands.py"
    source.touch()
    assert answering.remembered(environment) is None
    answering.remember(environment, TREE, [source])
    assert answering.remembered(environment) == TREE

    os.utime(source, ns=(1, 1))
    assert answering.remembered(environment) is None
    answering.remember(environment, TREE, [source])
    source.unlink()
    assert answering.remembered(environment) is None


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_a_damaged_file_says_nothing(environment: dict[str, str], raw: bytes) -> None:
    answering.remember(environment, TREE, [Path(__file__)])
    answering._path(environment).write_bytes(raw)

    assert answering.remembered(environment) is None


def test_words_of_another_installation_say_nothing(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering.remember(environment, TREE, [Path(__file__)])
    monkeypatch.setattr(sys, "prefix", "/elsewhere")

    assert answering.remembered(environment) is None


def test_a_cache_that_cannot_be_written_is_no_error(environment: dict[str, str]) -> None:
    answering.remember({**environment, "HOME": "/proc/none"}, TREE, [Path(__file__)])


def test_words_that_cannot_be_kept_leave_no_part_behind(environment: dict[str, str]) -> None:
    path = answering._path(environment)
    path.mkdir(parents=True)
    answering.remember(environment, TREE, [Path(__file__)])
    assert list(path.parent.iterdir()) == [path], "a key that is pressed again would add one more"


def test_the_real_commands_say_what_they_take() -> None:
    words = commands.words_of(main, click.Context(main, **main.context_settings))

    zones = words.commands["zones"].commands["status"]
    assert (zones.arguments, zones.many) == (("zone",), True)
    assert zones.options["--output"] == ("text", "json")
    assert words.commands["bookies"].commands["decommission"].arguments == ("bookie",)
    assert words.commands["bookies"].commands["decommission"].options["--yes"] == "none"
    assert words.commands["autorecovery"].commands["release"].options["--zone"] == "zone"
    assert words.commands["local"].commands["kill-bookie"].arguments == ("bookie",)
    assert words.commands["local"].commands["up"].options["--timers"] == ("short", "production")
    assert words.commands["local"].commands["up"].options["--no-zookeeper"] == "none"
    assert words.commands["runbook"].arguments == ("runbook",)
    log = words.commands["log"].commands
    assert log["read"].arguments == ("log",)
    assert log["read"].options["--cursor"] == "log cursor"
    assert log["list"].arguments == ("log namespace",)
    assert log["handover"].options["--to"] == "log candidate"
    assert log["cursor"].commands["seek"].arguments == ("log", "log cursor")
    plan = words.commands["operator"].commands["plan"]
    assert plan.options["--namespace"] == "text", "a namespace of Kubernetes"
    assert words.commands["policy"].commands["diff"].arguments == ("file",)
    assert words.options["--version"] == "none"


@pytest.mark.parametrize(
    ("shell", "typed", "line"),
    [
        ("bash", {"COMP_WORDS": "zonekeeper zones status ", "COMP_CWORD": "3"}, "plain,a"),
        ("zsh", {"COMP_WORDS": "zonekeeper zones status ", "COMP_CWORD": "3"}, "a"),
        ("fish", {"COMP_WORDS": "zonekeeper zones status", "COMP_CWORD": ""}, "plain,a"),
    ],
)
def test_s180_a_shell_is_answered_without_loading_a_command(
    environment: dict[str, str], shell: str, typed: dict[str, str], line: str
) -> None:
    answering.remember(environment, TREE, [Path(__file__)])
    seen(environment)
    code = (
        "import atexit, json, sys\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        "import zonekeeper.shell.main\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, **typed, answering.VARIABLE: f"{shell}_complete"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert line in done.stdout.splitlines()
    loaded = json.loads(done.stderr)
    assert not {*HEAVY} & {*loaded}
    assert "zonekeeper.shell.hosting.hosting" not in loaded


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_asks_by_the_variable(
    shell: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "remembered", lambda _: TREE)

    found = CliRunner().invoke(main, ["completion", shell])

    assert found.exit_code == 0, found.output
    assert f"{answering.VARIABLE}={shell}_complete" in found.stdout
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2


def test_the_words_of_all_commands_leave_each_command_its_short_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """click keeps a command's option for help as the first context of the command has it.

    So the commands here are new ones: those of the shell have had contexts in other tests.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    inner = click.Command("inner")
    top = click.Group("top", [inner], context_settings=CommandHost().context_settings)

    commands.learn(top)

    for words in (["-h"], ["inner", "-h"]):
        assert CliRunner().invoke(top, words).exit_code == 0
