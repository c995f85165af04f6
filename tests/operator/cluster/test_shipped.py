"""What is shipped fits the code: the definition is fresh, rights are those that are used."""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tests.operator.worlds import World, resource
from tests.support.checkout_root import ROOT
from zonekeeper.operator.cluster import crd, desired, owned_objects, quantities
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.commands import commands
from zonekeeper.operator.kubernetes.api import OWNED, STATEFUL_SETS, Json, ObjectKind
from zonekeeper.placement.base import fields
from zonekeeper.placement.policy import rules_data
from zonekeeper.placement.policy.rules import Policy

SAMPLE = ROOT / "manifests" / "samples" / "bookiecluster.yaml"


@pytest.mark.parametrize("folder", ["manifests/crds", "charts/zonekeeper/crds"])
def test_the_definition_that_is_shipped_is_the_one_that_the_code_makes(folder: str) -> None:
    made = CliRunner().invoke(commands, ["crds"])

    assert (ROOT / folder / "bookieclusters.yaml").read_text() == made.stdout, "run `make crds`"


def test_the_sample_is_legal_without_a_warning() -> None:
    sample = yaml.safe_load(SAMPLE.read_text())
    sample["metadata"] |= {"namespace": "logs", "uid": "uid", "generation": 1}

    found = desired.read(sample)

    assert isinstance(found, Desired), found
    assert found.warnings == ()


def test_the_schema_knows_every_field_of_the_policy_and_no_other() -> None:
    whole = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found = dict(_leaves(whole["properties"]["spec"]["properties"]["policy"]))
    record = rules_data.rules(_policy())

    assert set(found) == set(_names(record))
    for name, schema in found.items():
        value: object = record
        for step in name.split("."):
            assert isinstance(value, dict)
            value = value[step]
        _assert_allows(schema, value, name)


def _policy() -> Policy:
    found = desired.read(resource())
    assert isinstance(found, Desired)
    return found.policy


def _leaves(schema: Json, path: str = "") -> list[tuple[str, Json]]:
    found: list[tuple[str, Json]] = []
    for name, inner in schema["properties"].items():
        where = f"{path}.{name}" if path else name
        found += _leaves(inner, where) if "properties" in inner else [(where, inner)]
    return found


def _names(data: object, path: str = "") -> list[str]:
    if not isinstance(data, dict):
        return [path]
    return [
        inner
        for name, value in data.items()
        for inner in _names(value, f"{path}.{name}" if path else name)
    ]


def _assert_allows(schema: Json, value: object, name: str) -> None:
    if isinstance(value, list):
        for item in value:
            _assert_allows(schema["items"], item, name)
    elif isinstance(value, str):
        assert re.search(schema.get("pattern", ""), value), name
        assert value in schema.get("enum", [value]), name
    elif not isinstance(value, bool):
        assert isinstance(value, int | float)
        assert schema.get("minimum", value) <= value <= schema.get("maximum", value), name


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (fields.Duration(), ["60s", "5m", "250ms"], ["60", "1.5h", "5 m", ""]),
        (fields.Size(1 << 50), ["0", "50MiB"], ["50", "50MB"]),
        (desired.FIELDS["image"], ["zonekeeper:1", "host:5000/x/y:1.2"], ["zonekeeper", "x/y"]),
        (desired.FIELDS["storage.size"], ["1Gi"], ["0Gi", "1G", "1.5Gi"]),
        (desired.FIELDS["metadata.uri"], ["zk://h:1,h2/x"], ["sqlite:///x", "zk://$(X)/x"]),
    ],
)
def test_a_pattern_allows_what_its_kind_reads(
    kind: fields.Kind, good: list[str], bad: list[str]
) -> None:
    pattern = crd.schema_of(kind)["pattern"]
    for text in good:
        assert re.search(pattern, text), text
        kind.read("x", text)
    for text in bad:
        assert not re.search(pattern, text), text
        with pytest.raises(fields.InvalidFieldsError):
            kind.read("x", text)


def pods() -> list[tuple[str, Json]]:
    item = resource(resources={"requests": {"cpu": "1"}})
    wanted = desired.read(item)
    assert isinstance(wanted, Desired)
    made = [
        (body["metadata"]["name"], body["spec"]["template"]["spec"])
        for kind, body in owned_objects.all_of(wanted, item, None)
        if kind is STATEFUL_SETS
    ]
    operator = yaml.safe_load((ROOT / "manifests" / "deployment.yaml").read_text())
    return [*made, ("operator", operator["spec"]["template"]["spec"])]


@pytest.mark.parametrize(("name", "spec"), pods())
def test_every_pod_keeps_to_the_restricted_standard(name: str, spec: Json) -> None:
    assert spec["securityContext"]["runAsNonRoot"] is True, name
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    for container in spec["containers"]:
        rights = container["securityContext"]
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert rights["readOnlyRootFilesystem"] is True
        assert "privileged" not in rights


async def test_the_role_allows_exactly_what_the_operator_does(tmp_path: Path) -> None:
    used: set[tuple[str, str]] = set()

    def note(verb: str, kind: ObjectKind) -> None:
        verbs = {"apply": {"patch", "create"}, "release": {"patch"}}.get(verb, {verb})
        used.update((f"{kind.group}/{kind.plural}", each) for each in verbs)

    world = World(tmp_path, onDelete="Delete")
    world.fate = note
    await world.settle()
    await world.unmark_claims()
    await world.settle()
    world.delete()
    await world.settle()
    used |= {(f"{kind.group}/{kind.plural}", verb) for kind in OWNED for verb in ("list", "watch")}
    clusters = "zonekeeper.io/bookieclusters"
    # Its status and finalizer are applied; the resource itself is never created by us.
    used |= {(clusters, "list"), (clusters, "watch"), (f"{clusters}/status", "patch")}
    used -= {(clusters, "create"), ("/persistentvolumeclaims", "create")}

    assert allowed() == used


def allowed() -> set[tuple[str, str]]:
    documents = yaml.safe_load_all((ROOT / "manifests" / "rbac.yaml").read_text())
    role = next(item for item in documents if item["kind"] == "ClusterRole")
    return {
        (f"{group}/{name}", verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("text", ["1", "500m", ".5", "1.", "1.5Gi", "1e10", "100e-3", "2E", "1Ei"])
def test_the_schema_allows_an_amount_that_kubernetes_reads(text: str) -> None:
    assert re.search(_amount_pattern(), text)
    assert quantities.value(text) is not None


@pytest.mark.parametrize("text", ["", "lots", "-1", "+1", "1 Gi", "1gi", "1KB", ".", "1e", "1ee3"])
def test_the_schema_refuses_what_is_no_amount(text: str) -> None:
    assert not re.search(_amount_pattern(), text)
    assert quantities.value(text) is None


def _amount_pattern() -> str:
    whole = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    resources = whole["properties"]["spec"]["properties"]["resources"]["properties"]
    return str(resources["limits"]["additionalProperties"]["pattern"])
