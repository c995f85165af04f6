"""No canary gets into a report, wherever it was; what is no secret stays."""

import io
import json
import tarfile

import pytest

from tests.operator.people import ordered
from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import EVENTS, PODS, NotPermittedError, ObjectKind
from zonekeeper.operator.plugin import redacting, report
from zonekeeper.operator.plugin.redacting import LEFT_OUT

CANARY = "canary-7f3a9c"
KEY = f"-----BEGIN EC PRIVATE KEY-----\n{CANARY}\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"-----BEGIN PRIVATE KEY-----\n{CANARY} cut off",
        f"Authorization: Bearer {CANARY}",
        f"authorization: basic {CANARY.replace('-', '+')}",
        f"password={CANARY}",
        f'{{"password": "{CANARY}", "user": "x"}}',
        f"--api-key={CANARY} --zone b",
        f"AWS_SECRET: {CANARY}",
        f"client_secret='{CANARY}'",
        f"zk://user:{CANARY}@zookeeper:2181/ledgers",
        f"token eyJhbGciOiJI.{CANARY}.{CANARY}",
        f"sasl credentials = {CANARY}",
    ],
)
def test_what_looks_like_a_secret_is_left_out_of_texts(text: str) -> None:
    found = redacting.text(f"before {text} after", frozenset())

    assert CANARY not in found
    assert CANARY.replace("-", "+") not in found
    assert LEFT_OUT in found
    assert found.startswith("before ")


@pytest.mark.parametrize(
    "text",
    [
        "ledger 7 has 3 entries",
        "zk://zookeeper:2181/logs/ledgers",
        "the secret of a good log",
        "2026-01-02T03:04:05Z INFO bookie log-b-0 is ready",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacting.text(text, frozenset()) == text


def test_a_value_that_is_left_out_in_one_place_is_left_out_everywhere() -> None:
    item = {"spec": {"env": [{"name": "LICENCE", "value": CANARY}, {"name": "X", "value": "1"}]}}
    secrets = redacting.secrets_in([item])

    assert secrets == {CANARY}
    assert redacting.text(f"started with {CANARY}!", secrets) == f"started with {LEFT_OUT}!"
    assert CANARY not in json.dumps(redacting.item(item, secrets))


def test_of_an_object_names_and_references_stay_and_values_go() -> None:
    item = {
        "metadata": {
            "managedFields": [{"manager": "x"}],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"env": CANARY}),
                "note": "kept",
            },
        },
        "spec": {
            "containers": [
                {
                    "env": [
                        {"name": "ZONEKEEPER_ZONE", "value": "b"},
                        {"name": "LICENCE", "value": CANARY},
                        {
                            "name": "FROM",
                            "valueFrom": {"secretKeyRef": {"name": "mine", "key": "k"}},
                        },
                    ],
                    "args": [f"--password={CANARY}"],
                }
            ],
            "automountServiceAccountToken": False,
            "dbPassword": CANARY,
        },
    }

    found = redacting.item(item, redacting.secrets_in([item]))

    assert CANARY not in json.dumps(found)
    assert found["metadata"] == {"annotations": {"note": "kept"}}
    zone, licence, other = found["spec"]["containers"][0]["env"]
    assert zone == {"name": "ZONEKEEPER_ZONE", "value": "b"}
    assert licence == {"name": "LICENCE", "value": LEFT_OUT}
    assert other["valueFrom"] == {"secretKeyRef": {"name": "mine", "key": "k"}}
    assert found["spec"]["automountServiceAccountToken"] is False


async def reported(world: World) -> dict[str, str]:
    item = ordered.resource_of(world)
    return await report.parts(world.kubernetes, SPACE, item, now_ms=world.wall_ms)


async def test_a_report_has_its_parts_and_no_canary() -> None:
    world = World(env=[{"name": "LICENCE", "value": CANARY}])
    await world.settle()
    for name, line in (("log-a-0", f"licence {CANARY}\n"), ("log-b-1", f"token={CANARY}\nready\n")):
        world.kubernetes.logs[SPACE, name] = line
    event = {"reason": "X", "message": f"password={CANARY}", "involvedObject": {"name": "log-a-0"}}
    world.kubernetes.put(EVENTS, {"metadata": {"name": "e", "namespace": SPACE}, **event})
    other = {"reason": "Y", "message": "of others", "involvedObject": {"name": "elsewhere"}}
    world.kubernetes.put(EVENTS, {"metadata": {"name": "f", "namespace": SPACE}, **other})
    used: set[tuple[str, str]] = set()
    world.kubernetes.disturb = lambda verb, kind: used.add((verb, kind.plural))

    files = await reported(world)

    assert not [path for path, text in files.items() if CANARY in text]
    assert {"resource.json", "status.txt", "events.json", "pods.json"} <= files.keys()
    assert files["logs/log-b-1.log"] == f"token={LEFT_OUT}\nready\n"
    assert files["logs/log-a-0.log"] == f"licence {LEFT_OUT}\n"
    assert [one["reason"] for one in json.loads(files["events.json"])].count("Y") == 0
    assert len(json.loads(files["pods.json"])) == 9, "bookies and autorecovery"
    assert "log of log-c-0: there is none" in files["missing.txt"]
    assert used == {("list", "pods"), ("list", "events"), ("log", "pods")}


async def test_what_may_not_be_read_is_named_and_the_rest_is_there() -> None:
    world = World()
    await world.settle()
    world.kubernetes.logs[SPACE, "log-a-0"] = "ready\n"

    def disturb(verb: str, kind: ObjectKind) -> None:
        if kind is EVENTS or (verb, kind) == ("log", PODS):
            raise NotPermittedError(403, "forbidden")

    world.kubernetes.disturb = disturb

    files = await reported(world)

    assert json.loads(files["events.json"]) == []
    assert "events: forbidden" in files["missing.txt"]
    assert "log of log-a-0: forbidden" in files["missing.txt"]
    assert NAME in files["resource.json"]


def test_an_archive_has_every_part_below_one_folder() -> None:
    data = report.archive({"a.txt": "ä", "logs/b.log": ""}, "report-log", now_ms=1_000)

    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as found:
        names = found.getnames()
        member = found.extractfile("report-log/a.txt")
        assert member is not None
        assert member.read().decode() == "ä"
    assert names == ["report-log/a.txt", "report-log/logs/b.log"]


@pytest.mark.parametrize(
    "text",
    [
        '{"password": "CANARY with words", "user": "anna"}',
        "password='CANARY with words'",
        "passphrase=CANARY",
        "DB_PWD: CANARY",
    ],
)
def test_a_quoted_secret_goes_to_its_end(text: str) -> None:
    told = redacting.text(text, frozenset())

    assert "CANARY" not in told
    assert "with words" not in told


def test_a_secret_that_begins_with_another_leaves_nothing_behind() -> None:
    secrets = frozenset({"canary", "canary-7f3a9c"})

    assert "7f3a9c" not in redacting.text("the word canary-7f3a9c is said", secrets)


def test_a_list_under_a_secret_name_is_left_out_everywhere() -> None:
    found = {"spec": {"token": ["canary-1", "canary-2"], "clients": ["drill"]}}

    cleaned = redacting.item(found, redacting.secrets_in([found]))

    assert "canary" not in str(cleaned)
    assert cleaned["spec"]["clients"] == ["drill"]
    assert redacting.secrets_in([found]) == {"canary-1", "canary-2"}


def test_a_short_value_of_a_variable_is_left_out_of_the_object_though_not_of_texts() -> None:
    pod = {"env": [{"name": "PIN", "value": "1234"}, {"name": "ZONEKEEPER_ZONE", "value": "b"}]}

    cleaned = redacting.item(pod, redacting.secrets_in([pod]))

    assert cleaned["env"] == [
        {"name": "PIN", "value": LEFT_OUT},
        {"name": "ZONEKEEPER_ZONE", "value": "b"},
    ]
