"""The commands of ``kubectl zonekeeper``: exit codes, JSON, and what is refused before a call."""

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.operator.resources import NAME, SPACE, resource
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, REPLACE, RESTART, Json
from zonekeeper.operator.kubernetes.api_server import ApiServer
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes
from zonekeeper.operator.people import order_format
from zonekeeper.operator.people.order_format import ORDER
from zonekeeper.operator.plugin import commands
from zonekeeper.operator.plugin.person_place import PersonPlace

Run = Callable[..., Result]


class AnsweringKubernetes(MemoryKubernetes):
    """The twin, with an operator that answers each order at once."""

    phase = "Done"

    async def edit(self, kind: object, seen: Json, changes: Json) -> None:
        """Change the resource; an order in it is answered."""
        await super().edit(BOOKIE_CLUSTERS, seen, changes)
        item = self.peek(BOOKIE_CLUSTERS, SPACE, NAME)
        assert item is not None
        text = item["metadata"].get("annotations", {}).get(ORDER)
        status = item["status"] | {"observedGeneration": item["metadata"]["generation"]}
        if text is not None:
            token = order_format.token_of(text)
            status["order"] = {"token": token, "phase": self.phase, "message": "as it is"}
        self.put(BOOKIE_CLUSTERS, item | {"status": status})


@pytest.fixture
def kubernetes() -> AnsweringKubernetes:
    held = [{"gate": "zones/b", "reason": "lost", "incident": "i-1", "sinceMs": 1}]
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "all"}
    found = AnsweringKubernetes()
    found.put(
        BOOKIE_CLUSTERS,
        resource()
        | {
            "status": {
                "conditions": [ready | {"lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "repair": {"enabled": True, "held": held},
            }
        },
    )
    return found


@pytest.fixture
def run(kubernetes: AnsweringKubernetes, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(PersonPlace, "opened", lambda _: (kubernetes, SPACE))

    def call(*words: str) -> Result:
        return CliRunner().invoke(commands.plugin, words)

    return call


def given(kubernetes: AnsweringKubernetes) -> list[str]:
    """Say what was written on the resource."""
    found = kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME)
    assert found is not None
    return sorted(found["metadata"].get("annotations", {}))


ORDERS = [
    ("autorecovery", "enable", "log", "--force"),
    ("autorecovery", "disable", "log"),
    ("autorecovery", "hold", "log", "--zone", "a"),
    ("autorecovery", "hold", "log", "--cluster"),
    ("autorecovery", "release", "log", "--zone", "b", "--force"),
    ("drain", "log", "log-b-0"),
    ("release", "log", "log-b-0"),
]


@pytest.mark.parametrize("words", ORDERS)
@pytest.mark.parametrize(("phase", "code"), [("Done", 0), ("Refused", 2), ("Failed", 1)])
def test_each_order_ends_with_the_code_of_its_answer(
    run: Run, kubernetes: AnsweringKubernetes, words: tuple[str, ...], phase: str, code: int
) -> None:
    kubernetes.phase = phase

    done = run(*words, "--reason", "a drill", "--by", "anna", "--yes", "-o", "json")

    assert done.exit_code == code, done.output
    assert json.loads(done.stdout)["phase"] == phase


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("autorecovery", "hold", "log"), "either --zone ZONE or --cluster"),
        (("autorecovery", "hold", "log", "--zone", "a", "--cluster"), "either --zone"),
        (("autorecovery", "release", "log", "--zone", "a"), "zones/a is not held"),
        (("drain", "nolog", "log-b-0"), "there is no BookieCluster nolog; there are log"),
    ],
)
def test_a_wrong_request_is_refused_and_nothing_is_written(
    run: Run, kubernetes: AnsweringKubernetes, words: tuple[str, ...], says: str
) -> None:
    done = run(*words, "--reason", "a drill", "--yes")

    assert done.exit_code == 2
    assert says in done.output
    assert given(kubernetes) == []


def test_an_order_without_a_terminal_needs_a_yes_and_always_a_reason(
    run: Run, kubernetes: AnsweringKubernetes
) -> None:
    unasked = run("autorecovery", "disable", "log", "--reason", "a drill")
    reasonless = run("autorecovery", "disable", "log", "--yes")
    long = run("autorecovery", "disable", "log", "--yes", "--reason", "x" * 600)

    assert [one.exit_code for one in (unasked, reasonless, long)] == [2, 2, 2]
    assert "--yes" in unasked.output
    assert given(kubernetes) == []


def test_status_is_text_and_data_and_its_code_says_whether_all_is_ready(
    run: Run, kubernetes: AnsweringKubernetes
) -> None:
    text, data = run("status", "log"), run("status", "log", "-o", "json")

    assert (text.exit_code, data.exit_code) == (0, 0)
    assert "held: zone b" in text.stdout
    found = json.loads(data.stdout)
    assert (found["ready"], found["repair"]["held"][0]["incident"]) == (True, "i-1")
    item = kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME)
    assert item is not None
    item["status"]["conditions"][0]["status"] = "False"
    kubernetes.put(BOOKIE_CLUSTERS, item)
    assert run("status", "log").exit_code == 1


def test_the_roll_is_paused_resumed_and_restarted(
    run: Run, kubernetes: AnsweringKubernetes
) -> None:
    assert run("plan", "log").exit_code == 0
    for word, paused in (("pause", True), ("resume", False)):
        assert run("roll", word, "log").exit_code == 0
        found = kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME)
        assert found is not None
        assert found["spec"]["update"] == {"bake": "0s", "paused": paused}
    assert run("roll", "restart", "log").exit_code == 2
    assert run("roll", "restart", "log", "--yes").exit_code == 0
    assert given(kubernetes) == [RESTART]


def test_another_volume_is_asked_for_by_an_annotation(
    run: Run, kubernetes: AnsweringKubernetes
) -> None:
    refused = run("replace", "log", "log-b-0")
    assert refused.exit_code == 2
    assert given(kubernetes) == []
    done = run("replace", "log", "log-b-0", "--yes")
    assert done.exit_code == 0
    assert "another volume of log-b-0 is asked for" in done.output
    found = kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME)
    assert found is not None
    assert found["metadata"]["annotations"][REPLACE] == "log-b-0"

    ended = run("replace", "log", "log-b-0", "--end")
    assert ended.exit_code == 0
    assert "no more" in ended.output
    assert given(kubernetes) == []


def test_a_report_is_a_new_file_for_its_person_alone(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "r.tar.gz"

    done, again = (run("report", "log", "--file", str(path)) for _ in range(2))

    assert done.exit_code == 0, done.output
    assert path.stat().st_mode & 0o777 == 0o600
    assert again.exit_code == 2
    assert "is there already" in again.output


def kubeconfig(folder: Path) -> Path:
    clusters = [
        {"name": name, "cluster": {"server": f"https://{name}.example:6443"}}
        for name in ("one", "two")
    ]
    contexts = [
        {"name": "one", "context": {"cluster": "one", "user": "u", "namespace": "logs"}},
        {"name": "two", "context": {"cluster": "two", "user": "u"}},
    ]
    users = [{"name": "u", "user": {"token": "t"}}]
    path = folder / "config"
    whole = {"clusters": clusters, "contexts": contexts, "users": users, "current-context": "one"}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **whole}))
    return path


@pytest.mark.parametrize(
    ("context", "namespace", "host", "where"),
    [
        (None, None, "one", "logs"),
        ("two", None, "two", "default"),
        ("two", "here", "two", "here"),
        (None, "here", "one", "here"),
    ],
)
async def test_the_place_is_taken_as_kubectl_takes_it(
    tmp_path: Path, context: str | None, namespace: str | None, host: str, where: str
) -> None:
    place = PersonPlace(kubeconfig=str(kubeconfig(tmp_path)), context=context, namespace=namespace)

    api, found = place.opened()

    assert isinstance(api, ApiServer)
    assert api.host == f"https://{host}.example:6443"
    assert found == where
    await api.close()


@pytest.mark.parametrize("broken", ["no such context", "no such file"])
def test_a_place_that_is_not_there_is_said(tmp_path: Path, broken: str) -> None:
    path = kubeconfig(tmp_path) if broken == "no such context" else tmp_path / "nothing"
    words = ["status", "log", "--kubeconfig", str(path), "--context", "three"]

    done = CliRunner().invoke(commands.plugin, words)

    assert done.exit_code == 1
    assert "the kubeconfig names no API server" in done.output


def test_every_command_has_a_help_and_an_example() -> None:
    def leaves(group: click.Group) -> list[click.Command]:
        found: list[click.Command] = []
        for one in group.commands.values():
            found += leaves(one) if isinstance(one, click.Group) else [one]
        return found

    for one in leaves(commands.plugin):
        assert one.help, one.name
        assert (one.epilog or "").startswith("Example: kubectl zonekeeper "), one.name


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--zone", "b"), "give either --for TIME or --end"),
        (("--zone", "b", "--for", "10m", "--end"), "give either --for TIME or --end"),
        (("--zone", "b", "--for", "ten"), "--for"),
        (("--for", "10m"), "--zone"),
    ],
)
def test_a_drill_says_zone_and_time_or_the_end(
    run: Run, kubernetes: AnsweringKubernetes, words: tuple[str, ...], says: str
) -> None:
    done = run("drill", "log", *words, "--reason", "r", "--by", "anna", "--yes")

    assert done.exit_code == 2
    assert says in done.output
    assert given(kubernetes) == []


def test_a_drill_that_is_not_waited_for_ends_with_its_order(run: Run) -> None:
    said = ("--reason", "r", "--by", "anna", "--yes", "--no-wait")
    done = run("drill", "log", "--zone", "b", "--for", "10m", *said)

    assert (done.exit_code, done.output) == (0, "Done: as it is\n")
