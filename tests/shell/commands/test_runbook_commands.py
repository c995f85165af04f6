"""``zonekeeper runbook``: each page is there, is named by what it is about, can be followed."""

import json
import shlex
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from tests.shell import typed_runbooks
from tests.shell.typed_runbooks import Typed
from tests.support.checkout_root import ROOT
from zonekeeper.operator.cluster import desired
from zonekeeper.operator.kubernetes.api import (
    CLUSTER_LABEL,
    FORMATS_LABEL,
    INSTANCE_LABEL,
    KEEPS_LABEL,
    REFILLS_LABEL,
    REPAIRS_LABEL,
)
from zonekeeper.operator.plugin.commands import plugin
from zonekeeper.operator.roll.gates import RollGate
from zonekeeper.placement.zones import zone_alerts
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.zone_effects import Alert
from zonekeeper.replication.view import held_back
from zonekeeper.shell.commands.runbook import runbook
from zonekeeper.shell.monitoring import alert_rules
from zonekeeper.shell.reports import second_hand_text
from zonekeeper.shell.runbooks import shelf

#: What ``kubectl`` of a person does here: the words of a verb, and its options with a value.
VERBS = {"get", "describe", "delete", "logs", "scale"}
KINDS = {
    *("pod", "pods", "pvc", "node", "nodes", "statefulset", "controllerrevision", "deployments"),
    "poddisruptionbudgets",
    *("lease", "events"),
}
VALUED = {"-l", "-L", "-o", "-n", "--field-selector", "--replicas"}
FLAGS = {"--show-labels", "--force", "--all-namespaces", "--previous"}
FORMS = {"yaml", "wide"}
#: On the operator's own pods.
NAME_LABEL = "app.kubernetes.io/name"
LABELS = {
    *(CLUSTER_LABEL, FORMATS_LABEL, INSTANCE_LABEL, KEEPS_LABEL, REPAIRS_LABEL),
    REFILLS_LABEL,
    *(NAME_LABEL, desired.DEFAULT_ZONE_LABEL),
}
KUBECTL = {
    "kind": "pod",
    **dict.fromkeys(("name", "pod", "node", "claim", "statefulset", "cluster", "zone"), "bk-0"),
    "bookie": "bk-0",
    "reason": "why",
}


def typed(program: str) -> list[Typed]:
    return [
        one
        for name, text in shelf.pages().items()
        for one in typed_runbooks.commands(name, text)
        if one.line.startswith(f"{program} ")
    ]


#: Our plugin of ``kubectl`` has commands of its own.
PLUGIN = "kubectl zonekeeper"


def test_all_runbooks_are_listed_with_a_sentence_each() -> None:
    listed = json.loads(CliRunner().invoke(runbook, ["-o", "json"]).stdout)
    assert set(listed) == {page.stem for page in Path(shelf.__file__).parent.glob("*.md")}
    assert "losses are not repaired" not in listed["zoneHeld"], "one sentence"
    text = CliRunner(env={"COLUMNS": None}).invoke(runbook).stdout
    for name, meaning in listed.items():
        assert any({name} <= {*line.split()} and meaning in line for line in text.splitlines())


def test_a_runbook_is_printed_as_it_is_in_the_package() -> None:
    result = CliRunner().invoke(runbook, ["zoneHeld"])
    assert (result.exit_code, result.stdout) == (0, shelf.pages()["zoneHeld"])
    data = json.loads(CliRunner().invoke(runbook, ["zoneHeld", "-o", "json"]).stdout)
    assert data == {"name": "zoneHeld", "text": shelf.pages()["zoneHeld"]}


@pytest.mark.parametrize(
    ("name", "meant"),
    [("zoneheld", "did you mean zoneHeld"), ("rootinuse", "did you mean RootInUse")],
)
def test_a_wrong_name_is_refused_with_what_may_be_meant(name: str, meant: str) -> None:
    result = CliRunner().invoke(runbook, [name])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert meant in result.stderr
    assert "`zonekeeper runbook` lists all" in result.stderr


@pytest.mark.parametrize("name", list(shelf.pages()))
def test_a_runbook_says_what_it_means_what_to_look_at_and_what_to_do(name: str) -> None:
    text = shelf.pages()[name]
    assert text.startswith(f"# `{name}`")
    for heading in ("## What it means", "## What to look at", "## What to do"):
        assert heading in text
    assert max(map(len, text.splitlines())) <= 125


@pytest.mark.parametrize("alert", list(Alert))
def test_each_alert_names_a_runbook_that_is_there(alert: Alert) -> None:
    for of_zone in (True, False):
        assert zone_alerts.runbook(alert, of_zone=of_zone) in shelf.pages()
    page = (ROOT / "docs" / "zones.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| `") and f"`{alert}`" in line]
    assert f"[{zone_alerts.runbook(alert, of_zone=True)}](" in row


def test_each_alert_of_what_is_held_back_has_a_runbook_of_its_name() -> None:
    assert set(held_back.SEVERITIES) <= set(shelf.pages())


def test_each_runbook_is_of_a_predicate_or_an_alert() -> None:
    known = {*map(str, HeldBy), *map(str, Alert), *held_back.SEVERITIES, second_hand_text.RUNBOOK}
    known |= {*map(str, RollGate)} | {rule.runbook for rule in alert_rules.RULES}
    operators = {name for name in shelf.pages() if name[0].isupper()}  # tests/operator holds these
    assert set(shelf.pages()) - operators <= known


def test_each_command_about_a_runbook_names_one_that_is_there() -> None:
    named = [one for one in typed("zonekeeper") if one.line.startswith("zonekeeper runbook ")]
    assert named
    for one in named:
        assert one.line.split()[2] in shelf.pages(), one


@pytest.mark.parametrize("one", typed(PLUGIN), ids=str)
def test_each_command_of_the_plugin_is_one_that_it_takes(one: Typed) -> None:
    command: click.Command = plugin
    words = shlex.split(one.filled(KUBECTL))[2:]
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    command.make_context(one.line, words)


@pytest.mark.parametrize(
    "one", [one for one in typed("kubectl") if not one.line.startswith(f"{PLUGIN} ")], ids=str
)
def test_each_command_for_kubernetes_names_what_there_is(one: Typed) -> None:
    _, verb, kind, *rest = shlex.split(one.filled(KUBECTL))
    crd = yaml.safe_load((ROOT / "manifests" / "crds" / "bookieclusters.yaml").read_text())
    assert verb in VERBS
    assert kind.partition("/")[0] in KINDS | {*crd["spec"]["names"]["shortNames"]}
    while rest:
        word = rest.pop(0)
        assert not word.startswith("-") or word in VALUED | FLAGS, word
        if word in {"-l", "-L"}:
            assert rest.pop(0).partition("=")[0] in LABELS
        elif word == "-o":
            assert rest.pop(0) in FORMS


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("`zonekeeper plan` and `kubectl get pods`", ["zonekeeper plan", "kubectl get pods"]),
        ("```console\n$ zonekeeper plan  # why\nsaid\n```\n", ["zonekeeper plan"]),
        ("`zonekeeper_x` and `plan`", []),
    ],
)
def test_commands_are_found_in_blocks_and_in_lines(text: str, lines: list[str]) -> None:
    assert [one.line for one in typed_runbooks.commands("x", text)] == lines


def test_a_command_that_cannot_be_typed_is_a_fault() -> None:
    with pytest.raises(AssertionError, match="broken over two lines"):
        typed_runbooks.commands("x", "`zonekeeper autorecovery\nhold`")
    with pytest.raises(AssertionError, match="unknown placeholders"):
        Typed("x", "zonekeeper zones status <planet>").filled({"zone": "a"})
