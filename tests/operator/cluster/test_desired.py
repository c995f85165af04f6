"""What a resource says is read whole, and everything that is wrong with it is said at once."""

import itertools

import pytest

from tests.operator.resources import resource
from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.cluster.choices import OnDelete
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import Json


def reasons(**spec: object) -> str:
    found = desired.read(resource(**spec))
    assert isinstance(found, RefusedResource)
    return "\n".join(found.reasons)


def built(**spec: object) -> Desired:
    found = desired.read(resource(**spec))
    assert isinstance(found, Desired)
    return found


def test_defaults_are_those_of_the_record_and_the_zones_those_of_the_resource() -> None:
    found = built()

    assert found.policy.placement.zones == ("a", "b", "c")
    assert str(found.policy.quorums) == "3/3/2"
    assert found.policy.owner == "operator/logs/log"
    assert found.zones[0].node_labels == {"topology.kubernetes.io/zone": "a"}


ZONE = "topology.kubernetes.io/zone"


def three(*selectors: dict[str, str] | None) -> list[Json]:
    """Give three zones with these selectors; None: the default one."""
    return [
        {"name": name} if given is None else {"name": name, "nodeSelector": given}
        for name, given in zip("abc", selectors, strict=True)
    ]


@pytest.mark.parametrize(
    "zones",
    [
        three({"rack": "1"}, {"rack": "2"}, {"rack": "3"}),
        three({"rack": "1", "disk": "ssd"}, {"rack": "2"}, {"rack": "3", "disk": "ssd"}),
        three({ZONE: "x", "rack": "1"}, None, None),
        three({ZONE: "x", "rack": "1"}, {ZONE: "x", "rack": "2"}, None),
    ],
)
def test_a_zone_may_name_its_nodes_itself(zones: list[Json]) -> None:
    assert built(zones=zones).zones[0].node_labels == zones[0]["nodeSelector"]


@pytest.mark.parametrize(
    ("zones", "shared"),
    [
        (three({"disk": "ssd"}, {"disk": "ssd"}, {"disk": "ssd"}), [1, 2, 2]),
        (three({"rack": "1"}, None, None), [1, 2]),
        (three({"rack": "1"}, {"rack": "2"}, {"rack": "1"}), [2]),
        (three({"rack": "1"}, {"rack": "2"}, {"rack": "3", "disk": "ssd"}), []),
        (three({"rack": "1"}, {"rack": "2"}, {"disk": "ssd"}), [2, 2]),
        (three({ZONE: "b"}, None, None), [1]),
    ],
)
def test_zones_that_one_node_could_belong_to_are_refused(
    zones: list[Json], shared: list[int]
) -> None:
    found = desired.read(resource(zones=zones))
    told = found.reasons if isinstance(found, RefusedResource) else ()

    assert [reason.partition(":")[0] for reason in told] == [
        f"spec.zones[{index}].nodeSelector" for index in shared
    ]


def test_a_cluster_that_was_built_is_only_warned_of_zones_that_one_node_could_belong_to() -> None:
    """Its zones may be told apart by labels that only one of them names."""
    item = resource(zones=three({"zone-a": "yes"}, {"zone-b": "yes"}, {"zone-c": "yes"}))
    assert isinstance(desired.read(item), RefusedResource)

    found = desired.read(item | {"status": {"instance": "0d6e3a1e"}})

    assert isinstance(found, Desired)
    shared = [one for one in found.warnings if one.startswith("spec.zones")]
    assert shared[0].startswith("spec.zones[1].nodeSelector: ")
    assert len(shared) == 3


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"zones": []}, "spec.zones: []: must be a list of 1 to 16 names"),
        ({"zones": ["a", "b"]}, "spec.zones[0]: null: must be a text"),
        ({"zones": [{"name": "a"}, {"name": "a"}]}, 'spec.zones[1]: "a": duplicates spec.zones[0]'),
        ({"bookiesPerZone": 0}, "spec.bookiesPerZone: 0: must be a whole number from 1"),
        ({"bookiesPerZone": True}, "spec.bookiesPerZone: true: must be a whole number"),
        ({"image": "zonekeeper"}, "spec.image: "),
        ({"image": None}, "spec.image: missing: is required"),
        ({"storage": {}}, "spec.storage.size: missing: is required"),
        ({"storage": "1Gi"}, "spec.storage.size: missing: is required"),
        ({"storage": {"size": "ten"}}, 'spec.storage.size: "ten": must be a whole number and Mi'),
        ({"onDelete": "retain"}, 'spec.onDelete: "retain": must be one of Retain, Delete'),
        ({"metadata": {"uri": "sqlite:///meta.db"}}, "spec.metadata.uri: "),
        ({"metadata": {"uri": "zk://host/../x"}}, "spec.metadata.uri: "),
        ({"metadata": {"uri": "zk://user:pass@host/x"}}, "spec.metadata.uri: "),
        ({"metadata": {"uri": "zk://$(HOME)/x"}}, "spec.metadata.uri: "),
        ({"resources": {"limits": {"memory": "lots"}}}, 'spec.resources.limits.memory: "lots": '),
        (
            {"resources": {"requests": {"cpu": "-1"}}},
            'spec.resources.requests.cpu: "-1": must be an',
        ),
        ({"resources": {"requests": {"cpu": -1}}}, "spec.resources.requests.cpu: -1: must be an"),
        ({"resources": {"requests": {"cpu": True}}}, "spec.resources.requests.cpu: true: must be"),
        ({"resources": {"requests": {"memry": 1}}}, "spec.resources.requests.memry: "),
        ({"resources": {"limits": "1Gi"}}, 'spec.resources.limits: "1Gi": must be amounts'),
        (
            {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}},
            "spec.resources.requests.cpu: 2: must not be above spec.resources.limits.cpu (1500m)",
        ),
        (
            {"zones": [{"name": "a", "nodeSelector": {"bad key!": "x"}}]},
            'spec.zones[0].nodeSelector: {"bad key!": "x"}: must be names of labels',
        ),
        (
            {"zones": [{"name": "a", "nodeSelector": {"rack": "a b"}}]},
            "spec.zones[0].nodeSelector: ",
        ),
        ({"zones": [{"name": "a", "nodeSelector": "rack"}]}, "spec.zones[0].nodeSelector: "),
        *(
            ({"zones": [{"name": "a", "nodeSelector": {key: "x"}}]}, "spec.zones[0].nodeSelector: ")
            for key in ("a..b/x", "a.-b/x", "A.b/x", "/x", "a/b/x", f"{'a.' * 127}b/x")
        ),
        *(
            ({"resources": {"limits": {name: 1}}}, f"spec.resources.limits.{name}: ")
            for name in ("a.b/bad name!", "a..b/x", "..a/x", "a.b/", f"a/{'x' * 64}")
        ),
        *(
            ({"resources": {"requests": {"memory": amount}}}, "spec.resources.requests.memory: ")
            for amount in ("1e-12", "0.1n", "1e30", "8Ei", "9223372036854775808")
        ),
        (
            {"resources": {"requests": {"nvidia.com/gpu": 1}}},
            "spec.resources.requests.nvidia.com/gpu: 1: must be the same as "
            "spec.resources.limits.nvidia.com/gpu (missing); write both, or the limit alone",
        ),
        (
            {"resources": {"requests": {"hugepages-2Mi": "2Mi"}, "limits": {"hugepages-2Mi": 1}}},
            "must be the same as spec.resources.limits.hugepages-2Mi (1)",
        ),
        ({"storage": {"size": "1Gi", "className": "a..b"}}, 'spec.storage.className: "a..b": '),
        ({"policy": {"version": 4}}, "spec.policy.version: 4: is set by zonekeeper"),
        ({"policy": {"reads": {"hedge": 1}}}, "spec.policy.reads.hedge: 1: unknown field"),
        ({"policy": []}, ""),
        (
            {"policy": {"placement": {"zones": ["a"]}}},
            'spec.policy.placement.zones: ["a"]: must be the zones of spec.zones',
        ),
        (
            {"policy": {"quorums": {"ensemble": 3, "write": 2}}},
            "spec.policy.quorums.ensemble: 3: must be a multiple of quorums.write (2)",
        ),
        (
            {"bookiesPerZone": 1, "policy": {"quorums": {"ensemble": 6, "write": 6, "ack": 4}}},
            "spec.bookiesPerZone: 1: must give at least as many bookies as "
            "spec.policy.quorums.ensemble (6), and 3 zones have 3; set it to 2 or more",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_path_and_a_way_out(
    spec: dict[str, object], words: str
) -> None:
    if words:
        assert words in reasons(**spec)
    else:
        assert isinstance(desired.read(resource(**spec)), Desired | RefusedResource)


def test_all_that_is_wrong_is_said_at_once() -> None:
    found = reasons(image="x", onDelete="no", policy={"quorums": {"ack": 5}})

    assert found.count("\n") >= 2
    for path in ("spec.image", "spec.onDelete", "spec.policy.quorums.ack"):
        assert path in found


@pytest.mark.parametrize("name", ["with.dot", "n" * 31, "1log"])
def test_a_name_that_services_and_pods_cannot_be_named_after_is_refused(name: str) -> None:
    bad = resource()
    bad["metadata"]["name"] = name
    found = desired.read(bad)

    assert isinstance(found, RefusedResource)
    assert "metadata.name" in found.reasons[0]


def test_a_cluster_that_was_built_keeps_a_name_that_begins_with_a_digit() -> None:
    item = resource() | {"status": {"instance": "0d6e3a1e"}}
    item["metadata"]["name"] = "1log"

    assert isinstance(desired.read(item), Desired)


def test_a_zone_whose_set_name_is_too_long_is_refused() -> None:
    assert "has at most 52 characters" in reasons(zones=[{"name": "z" * 50}])


@pytest.mark.parametrize("given", [None, "delete", "Retain", 1, ["Delete"]])
def test_whatever_does_not_plainly_say_delete_retains(given: object) -> None:
    assert desired.on_delete(resource(onDelete=given)) is OnDelete.RETAIN


def test_warnings_of_placement_do_not_refuse() -> None:
    found = built(policy={"placement": {"upgradeDomains": 2}})

    assert any("placement.upgradeDomains: 2" in warning for warning in found.warnings)


def test_amounts_are_passed_on_as_they_were_written_and_empty_sections_are_not() -> None:
    given = {"requests": {"cpu": ".5", "memory": "1e9"}, "limits": {}}

    assert built(resources=given).resources == {"requests": given["requests"]}


@pytest.mark.parametrize(
    "given",
    [
        {"limits": {"nvidia.com/gpu": 1}},
        {"limits": {"nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": "1"}},
        {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "4096Ki"}},
        {"requests": {"cpu": 0, "memory": "9223372036854775807"}},
    ],
)
def test_amounts_that_kubernetes_takes_are_good(given: Json) -> None:
    assert built(resources=given).resources == given


def test_zones_that_are_too_small_to_be_held_are_warned_of() -> None:
    # S126.
    warned = [one for one in built(bookiesPerZone=1).warnings if "never held" in one]

    assert len(warned) == 3
    assert warned[0].startswith("spec.policy.zoneWatch.minLost: 2: zone a has 1 bookie, ")
    assert not [one for one in built(bookiesPerZone=2).warnings if "never held" in one]


def test_each_zone_has_one_autorecovery_process_unless_the_resource_says_otherwise() -> None:
    amounts = {"requests": {"memory": "256Mi"}}
    more = built(autoReplication={"perZone": 2, "resources": amounts})

    assert (built().repairers_per_zone, built().repair_resources) == (1, {})
    assert (more.repairers_per_zone, more.repair_resources) == (2, amounts)
    assert not any("autoReplication" in warning for warning in more.warnings)


def test_a_cluster_without_repair_is_warned_of() -> None:
    (warning,) = (one for one in built(autoReplication={"perZone": 0}).warnings if "perZone" in one)

    assert warning.startswith("spec.autoReplication.perZone: 0: ")
    assert "autorecovery run" in warning


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"perZone": 11}, "spec.autoReplication.perZone: 11"),
        ({"perZone": "1"}, "spec.autoReplication.perZone"),
        ([1], "spec.autoReplication: "),
        ({"resources": {"limits": {"cpu": "much"}}}, "spec.autoReplication.resources.limits.cpu"),
    ],
)
def test_what_is_wrong_with_auto_replication_is_named(given: object, words: str) -> None:
    assert words in reasons(autoReplication=given)


@pytest.mark.parametrize(
    ("bookies", "quorums", "words"),
    [
        (2, {}, ["fewer than placement.upgradeDomains (3)"]),
        (
            1,
            {},
            [
                "fewer than placement.upgradeDomains (3)",
                "while a bookie is lost, no ledger can be created: there are too few bookies",
                "while a zone is lost, no ledger can be created",
            ],
        ),
        (
            3,
            {"ensemble": 9, "write": 3, "ack": 2},
            [
                "while a bookie is lost, no ledger can be created: there are too few bookies: 9 "
                "wanted for 9/3/2, 8 can be had",
                "while a zone is lost, no ledger can be created: there are too few bookies: 9 "
                "wanted for 9/3/2, 6 can be had",
            ],
        ),
        (3, {}, []),
        (4, {"ensemble": 6, "write": 6, "ack": 4}, []),
        (1_000, {"ensemble": 9, "write": 3, "ack": 2}, []),
    ],
)
def test_a_cluster_is_judged_by_the_bookies_that_will_run(
    bookies: int, quorums: Json, words: list[str]
) -> None:
    found = built(bookiesPerZone=bookies, policy={"quorums": quorums}).warnings

    said = [one for one in found if one.startswith(f"spec.bookiesPerZone: {bookies}: ")]
    assert len(said) == len(words)
    for text, part in zip(said, words, strict=True):
        assert part in text


def no_ledgers(bookies: int, quorums: Json, **placement: object) -> list[str]:
    """Give the warnings of losses after which there are no new ledgers."""
    policy = {"quorums": quorums, "placement": placement}
    found = desired.read(resource(bookiesPerZone=bookies, policy=policy))
    said = found.warnings if isinstance(found, Desired) else ()
    return [one for one in said if "no ledger can be created" in one]


@pytest.mark.parametrize(
    ("bookies", "quorums", "enough"),
    [
        (1, {}, 2),
        (2, {"ensemble": 6, "write": 3, "ack": 2}, 3),
        (3, {"ensemble": 9, "write": 3, "ack": 2}, 5),
    ],
)
def test_a_warning_of_too_few_bookies_says_how_many_are_enough(
    bookies: int, quorums: Json, enough: int
) -> None:
    way_out = f"; set it to {enough} or more, or lower policy.quorums.ensemble"

    assert all(one.endswith(way_out) for one in no_ledgers(bookies, quorums))
    assert no_ledgers(enough - 1, quorums)
    assert not no_ledgers(enough, quorums)


def test_for_every_legal_policy_some_number_of_bookies_is_enough() -> None:
    judged = []
    for ensemble, write, ack, domains in itertools.product((1, 2, 3, 4), (1, 2, 3), (1, 2), (1, 3)):
        if ack <= write <= ensemble:
            quorums = {"ensemble": ensemble, "write": write, "ack": ack}
            enough = (ensemble + 1) * domains
            assert no_ledgers(enough, quorums, upgradeDomains=domains) == []
            if no_ledgers(1, quorums, upgradeDomains=domains):
                judged.append((ensemble, write, ack, domains))
    assert (3, 3, 2, 3) in judged, "some policies are legal, and one bookie a zone is too few"


@pytest.mark.parametrize(
    "spec", [{}, {"autoReplication": {"perZone": 0}}, {"zones": three(None, None, None)[::-1]}]
)
def test_the_names_of_the_objects_are_those_of_the_objects_in_their_order(spec: Json) -> None:
    wanted = built(**spec)

    made = owned_objects.all_of(wanted, resource(**spec), None)

    assert owned_objects.names(wanted) == tuple(
        (kind, body["metadata"]["name"]) for kind, body in made
    )
