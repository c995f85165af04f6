"""What is shipped fits the code: the definition is fresh, rights are those that are used."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml
from click.testing import CliRunner

from tests.operator.draining.draining_world import DrainingWorld
from tests.operator.resources import clock, resource
from tests.operator.volumes.absence_world import LOST, AbsenceWorld
from tests.operator.volumes.volume_world import VolumeWorld
from tests.operator.worlds import World
from tests.support.checkout_root import ROOT
from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.commands import commands
from zonekeeper.operator.definition import crd
from zonekeeper.operator.kubernetes.api import DEPLOYMENTS, OWNED, STATEFUL_SETS, Json, ObjectKind
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes
from zonekeeper.operator.lead.keeping_lease import LeaseClocks
from zonekeeper.operator.lead.leading import ActingRight
from zonekeeper.operator.lead.lease_objects import LeasePlace
from zonekeeper.operator.run import standing_by
from zonekeeper.operator.shapes import quantities, schemas
from zonekeeper.placement.base import fields
from zonekeeper.placement.policy import rules_data
from zonekeeper.placement.policy.rules import Policy

SAMPLES = sorted((ROOT / "manifests" / "samples").glob("*.yaml"))


@pytest.mark.parametrize("folder", ["manifests/crds", "charts/zonekeeper/definitions"])
def test_the_definition_that_is_shipped_is_the_one_that_the_code_makes(folder: str) -> None:
    made = CliRunner().invoke(commands, ["crds"])

    assert (ROOT / folder / "bookieclusters.yaml").read_text() == made.stdout, "run `make crds`"


@pytest.mark.parametrize("path", SAMPLES, ids=[path.stem for path in SAMPLES])
def test_each_sample_is_legal_without_a_warning(path: Path) -> None:
    sample = yaml.safe_load(path.read_text())
    sample["metadata"] |= {"namespace": "logs", "uid": "uid", "generation": 1}

    found = desired.read(desired.with_own_image(sample, "zonekeeper:0.1.0"))

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
        (fields.Size(1 << 50), ["0", "50MiB"], ["50", "50MB", ""]),
        (
            desired.FIELDS["image"],
            [
                *("zonekeeper:1", "host:5000/x/y:1.2", "zonekeeper:V1", f"x@sha256:{'a' * 64}"),
                *(f"zonekeeper:V1@sha256:{'a' * 64}", f"host:5000/x:V1@sha256:{'0' * 64}"),
            ],
            ["zonekeeper", "x/y", "host:5000/x", "x@sha256:ab", f"x:@sha256:{'a' * 64}", "X:1"],
        ),
        (desired.FIELDS["storage.size"], ["1Gi"], ["0Gi", "1G", "1.5Gi"]),
        (desired.FIELDS["metadata.uri"], ["zk://h:1,h2/x"], ["sqlite:///x", "zk://$(X)/x"]),
    ],
)
def test_a_pattern_allows_what_its_kind_reads(
    kind: fields.Kind, good: list[str], bad: list[str]
) -> None:
    (rule,) = schemas.of_kind(kind)[schemas.RULES]
    pattern = rule["rule"].partition("matches(r'")[2].removesuffix("')")
    for text in good:
        assert re.search(pattern, text), text
        kind.read("x", text)
    for text in bad:
        assert not re.search(pattern, text), text
        with pytest.raises(fields.InvalidFieldsError):
            kind.read("x", text)


def test_no_list_is_required_that_an_apply_may_empty() -> None:
    """The API server drops it then, and refuses the whole status: the operator stands still."""
    whole = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    found = list(_required_lists(whole["properties"]["status"]))

    assert found == []


def _required_lists(schema: Json, path: str = "status") -> Iterator[str]:
    inner = schema.get("properties", {})
    for name, each in inner.items():
        is_list = each.get("type") == "array" and each.get("x-kubernetes-list-type") == "map"
        if is_list and name in schema.get("required", ()):
            yield f"{path}.{name}"
        yield from _required_lists(each.get("items", each), f"{path}.{name}")


def pods() -> list[tuple[str, Json]]:
    item = resource(resources={"requests": {"cpu": "1"}})
    wanted = desired.read(item)
    assert isinstance(wanted, Desired)
    made = [
        (body["metadata"]["name"], body["spec"]["template"]["spec"])
        for kind, body in owned_objects.all_of(wanted, item, None)
        if kind in (STATEFUL_SETS, DEPLOYMENTS)
    ]
    operator, _ = yaml.safe_load_all(
        (ROOT / "manifests" / "operator" / "deployment.yaml").read_text()
    )
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

    secure = {"tls": {"mode": "Operator"}, "network": {"policies": True}}
    world = World(tmp_path, onDelete="Delete", **secure)
    world.fate = note
    await world.settle()
    for image in ("zonekeeper:0.1.1", "zonekeeper:0.1.0", "zonekeeper:0.1.1"):
        await world.change(image=image)  # it is told again, and the event is counted up
        await world.settle()
    await world.unmark_claims()
    await world.settle()
    await world.change(network={"policies": False}, bookiesPerZone=3)  # more names to certify
    await world.settle()
    world.delete()
    await world.settle()
    issuer = World(tls={"mode": "Issuer", "issuerRef": {"name": "x"}})
    issuer.fate = note
    await issuer.settle()
    await issuer.change(bookiesPerZone=3)
    await issuer.settle()
    growing = VolumeWorld()
    growing.fate = note
    await growing.settle()
    await growing.change(storage={"size": "2Gi"})
    await growing.settle()
    losing = AbsenceWorld()
    losing.fate = note
    await losing.settle()
    await losing.lose_node(LOST)
    await losing.pass_minutes(1)
    draining = DrainingWorld()
    await draining.settle()
    draining.fate = note
    draining.cordon("a")
    await draining.settle()
    used |= {(f"{kind.group}/{kind.plural}", verb) for kind in OWNED for verb in ("list", "watch")}
    clusters = "zonekeeper.io/bookieclusters"
    # Its status and finalizer are applied; the resource itself is never created by us.
    used |= {(clusters, "list"), (clusters, "watch"), (f"{clusters}/status", "patch")}
    used -= {(clusters, "create"), ("/persistentvolumeclaims", "create")}

    assert allowed("ClusterRole") == used


async def test_a_process_that_stands_for_the_lease_needs_no_more_than_it_is_allowed() -> None:
    used: set[tuple[str, str]] = set()
    kubernetes = MemoryKubernetes()

    def note(verb: str, kind: ObjectKind) -> None:
        # The Lease is applied only where it is there.
        used.add((f"{kind.group}/{kind.plural}", {"apply": "patch"}.get(verb, verb)))

    kubernetes.disturb = note
    place, clocks = LeasePlace("default"), LeaseClocks(elapsed_ms=lambda: 0, wall=clock)
    right = ActingRight(kubernetes, [place], "one_a_1", clocks)
    async with right.held(lambda *_: standing_by.tell(kubernetes, place, "b", "a", clock)):
        pass
    await standing_by.tell(kubernetes, place, "two_a_1", "one_a_1", clock)

    assert used - allowed("ClusterRole") == allowed("Role")


def allowed(kind: str) -> set[tuple[str, str]]:
    documents = yaml.safe_load_all((ROOT / "manifests" / "operator" / "rbac.yaml").read_text())
    (role,) = (item for item in documents if item["kind"] == kind)
    return {
        (f"{group}/{name}", verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
        for verb in rule["verbs"]
    }


def test_no_field_of_the_spec_is_refused_by_a_pattern_or_before_the_rules_are_looked_at() -> None:
    """The API server shows a pattern as it is, and of rules that it skips it says ``<nil>``."""
    for path, schema in _all_schemas(_spec()):
        assert "pattern" not in schema, path
        assert "enum" not in schema, path
        for rule in schema.get(schemas.RULES, ()):
            assert len(rule["message"]) <= MESSAGE_MAX, path
            assert ";" in rule["message"] or ":" in rule["message"], path


def test_no_rule_repeats_a_part_of_its_pattern_oftener_than_the_api_server_takes() -> None:
    """It refuses the whole definition then, so nothing could be installed."""
    for path, schema in _all_schemas(_spec()):
        for rule in schema.get(schemas.RULES, ()):
            for count in re.findall(r"\{(?:\d+,)?(\d+)\}", rule["rule"]):
                assert int(count) <= REPEATS_MAX, (path, rule["rule"])


#: The most repetitions in a pattern of RE2.
REPEATS_MAX = 1_000
#: The API server takes no longer message of a rule.
MESSAGE_MAX = 2_048


def test_every_field_of_the_spec_says_its_default_or_that_it_is_required() -> None:
    wrong = []
    for path, schema in _fields(_spec()):
        about = schema.get("description", "")
        if "properties" in schema and "Default: " not in about:
            wrong += [] if about.endswith(".") else [path]
        elif about.startswith("Refused: "):
            continue
        elif not re.search(r"(Required|Default: [^.].*|leave it out)\.$", about):
            wrong.append(f"{path}: {about}")

    assert wrong == []


def test_every_field_of_the_spec_stands_in_the_table_of_the_page() -> None:
    page = (ROOT / "docs" / "operator.md").read_text()
    table = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
    names = set(re.findall(r"`([A-Za-z.\[\]]+)`", table))

    assert set(_listed(_spec())) - names == set()


#: Structures of our own, whose fields stand in the page one by one.
_SECTIONS: Final = ("autoReplication", "drains", "heal", "scaleDown", "storage", "update")


def _listed(spec: Json) -> list[str]:
    """Name what the page lists: plain fields, and structures that Kubernetes has by themselves."""
    found = []
    for name, schema in spec["properties"].items():
        if name in ("policy", "zones", "resources") or name not in _SECTIONS:
            found.append(name)
            continue
        found += [f"{name}.{inner}" for inner in schema["properties"] if inner != "journal"]
    zone = spec["properties"]["zones"]["items"]["properties"]
    journal = spec["properties"]["storage"]["properties"]["journal"]["properties"]
    found += [f"zones[].{inner}" for inner in zone] + [f"storage.journal.{one}" for one in journal]
    return [name for name in found if name not in ("metadata", "zones")] + ["metadata.uri"]


def _spec() -> Json:
    whole = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec: Json = whole["properties"]["spec"]
    return spec


def _all_schemas(schema: Json, path: str = "spec") -> list[tuple[str, Json]]:
    found = [(path, schema)]
    for name, inner in schema.get("properties", {}).items():
        found += _all_schemas(inner, f"{path}.{name}")
    for step in ("items", "additionalProperties"):
        if isinstance(schema.get(step), dict):
            found += _all_schemas(schema[step], f"{path}[]")
    return found


def _fields(spec: Json) -> list[tuple[str, Json]]:
    """Give what has a name: not the items of lists, and not the values of maps."""
    return [pair for pair in _all_schemas(spec) if not pair[0].endswith("[]")]


@pytest.mark.parametrize("text", ["1", "500m", ".5", "1.", "1.5Gi", "1e10", "100e-3", "2E", "1Ei"])
def test_an_amount_that_kubernetes_reads_has_a_value(text: str) -> None:
    assert quantities.value(text) is not None


@pytest.mark.parametrize("text", ["", "lots", "-1", "+1", "1 Gi", "1gi", "1KB", ".", "1e", "1ee3"])
def test_what_is_no_amount_has_none(text: str) -> None:
    assert quantities.value(text) is None
