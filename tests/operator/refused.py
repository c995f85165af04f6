"""Resources that both the API server and the operator refuse, and the words of both.

``tests/operator/cluster/test_refused.py`` asks the operator, and
``tests/cluster/test_operator_words.py`` the API server.
"""

from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.kubernetes.api import Json

DIGEST: Final = f"sha256:{'a' * 64}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongSpec:
    """Fields of a spec, and the words that both refusals have."""

    name: str
    spec: Json
    #: The field that both name.
    path: str
    words: str


def _wrong(name: str, path: str, words: str, **spec: object) -> WrongSpec:
    return WrongSpec(name=name, spec=spec, path=path, words=words)


def _policy(**sections: object) -> Json:
    return {"policy": sections}


def _toleration(**fields: object) -> Json:
    return {"tolerations": [fields]}


def _affinity(**expression: object) -> Json:
    term = {"matchExpressions": [{"key": "disk", **expression}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def _tls(words: str, **fields: object) -> WrongSpec:
    return _wrong(f"tls: {words}", "spec.tls", words, tls=fields)


#: Each rule that needs no judgement is broken once.
WRONG: Final = (
    _tls("must have issuerRef with mode Issuer", mode="Issuer"),
    _tls("and with no other mode; write mode: Issuer", issuerRef={"name": "x"}),
    _tls("must have secrets with mode Secrets", mode="Secrets"),
    _tls(
        "and with no other mode; write mode: Secrets",
        mode="Operator",
        secrets={"bookies": "a", "autorecovery": "b"},
    ),
    _tls("must have clients with mode Operator or Issuer only", mode="Plaintext", clients=["a"]),
    _tls("must have lifetime with mode Operator or Issuer only", mode="Plaintext", lifetime="9d"),
    _tls(
        "must have authorityLifetime with mode Operator only",
        mode="Issuer",
        issuerRef={"name": "x"},
        authorityLifetime="9d",
    ),
    _tls(
        "must have settle with mode Operator only",
        mode="Issuer",
        issuerRef={"name": "x"},
        settle="1m",
    ),
    _wrong(
        "a way of pages",
        "spec.network.pages",
        "must be one of Plain, Certificate",
        network={"pages": "On"},
    ),
    _wrong("a mode", "spec.tls.mode", "must be one of Operator, Issuer", tls={"mode": "On"}),
    _wrong(
        "an issuer's kind",
        "spec.tls.issuerRef.kind",
        "must be one of Issuer, ClusterIssuer",
        tls={"mode": "Issuer", "issuerRef": {"name": "x", "kind": "Y"}},
    ),
    _wrong(
        "a namespace of clients",
        "spec.network.clientsFrom[0]",
        "must be the name of a namespace",
        network={"clientsFrom": ["A_B"]},
    ),
    _wrong(
        "ack above write",
        "spec.policy.quorums.ack",
        "4: must not exceed quorums.write (3); set it to 3 or less",
        **_policy(quorums={"ack": 4, "write": 3}),
    ),
    _wrong(
        "ack above the default of write",
        "spec.policy.quorums.ack",
        "5: must not exceed quorums.write (3",
        **_policy(quorums={"ack": 5}),
    ),
    _wrong(
        "ack zones above ack",
        "spec.policy.quorums.ackZones",
        "3: must not exceed quorums.ack (2); set it to 2 or less",
        **_policy(quorums={"ackZones": 3, "ack": 2}),
    ),
    _wrong(
        "write above ensemble",
        "spec.policy.quorums.write",
        "5: must not exceed quorums.ensemble (3",
        **_policy(quorums={"write": 5}),
    ),
    _wrong(
        "a zone twice",
        "spec.zones",
        "remove one of them",
        zones=[{"name": "a"}, {"name": "b"}, {"name": "a"}],
    ),
    _wrong(
        "two zones, one selector",
        "spec.zones",
        "name one label in both, with different values",
        zones=[
            {"name": "a", "nodeSelector": {"rack": "1"}},
            {"name": "b", "nodeSelector": {"rack": "1"}},
            {"name": "c", "nodeSelector": {"rack": "2"}},
        ],
    ),
    _wrong(
        "as many minZones as zones",
        "spec.policy.placement.minZones",
        "3: must be below the number of placement.zones (3), or the loss of one zone stops every "
        "new ensemble; use 2 or add a zone",
        **_policy(placement={"minZones": 3}),
    ),
    _wrong(
        "low mark at the high mark",
        "spec.policy.zoneWatch.lowMark",
        "0.9: must be below zoneWatch.highMark (0.9); lower it or raise zoneWatch.highMark",
        **_policy(zoneWatch={"lowMark": 0.9, "highMark": 0.9}),
    ),
    _wrong(
        "low mark above the default of the high mark",
        "spec.policy.zoneWatch.lowMark",
        "0.95: must be below zoneWatch.highMark (0.9",
        **_policy(zoneWatch={"lowMark": 0.95}),
    ),
    _wrong(
        "ensemble above all bookies",
        "spec.bookiesPerZone",
        "1: must give at least as many bookies as spec.policy.quorums.ensemble (6), and 3 zones "
        "have 3; set it to 2 or more",
        bookiesPerZone=1,
        **_policy(quorums={"ensemble": 6, "write": 6, "ack": 4}),
    ),
    _wrong(
        "no tag",
        "spec.image",
        "must be an image with a tag or a digest; write for example registry.example/zonekeeper:",
        image="registry.example:5000/zonekeeper",
    ),
    _wrong(
        "the tag latest", "spec.image", "must not have the tag latest", image="zonekeeper:latest"
    ),
    _wrong(
        "a volume too small",
        "spec.storage.size",
        "must be at least 352Mi, or the bookie has no room to work; write 352Mi or more",
        storage={"size": "351Mi"},
    ),
    _wrong(
        "a volume too small beside a journal",
        "spec.storage.size",
        "must be at least 256Mi",
        storage={"size": "255Mi", "journal": {"size": "1Gi"}},
    ),
    _wrong(
        "a new volume too small",
        "spec.storage.newVolumes.size",
        "must be at least 352Mi, or the bookie has no room to work; write 352Mi or more",
        storage={"size": "1Gi", "newVolumes": {"size": "351Mi"}},
    ),
    _wrong(
        "a new volume too small beside a journal",
        "spec.storage.newVolumes.size",
        "must be at least 256Mi",
        storage={"size": "1Gi", "newVolumes": {"size": "255Mi"}, "journal": {"size": "1Gi"}},
    ),
    _wrong(
        "a journal volume too small",
        "spec.storage.journal.size",
        "must be at least 256Mi",
        storage={"size": "1Gi", "journal": {"size": "100Mi"}},
    ),
    _wrong(
        "a reserved setting",
        "spec.config",
        "the operator sets it, because pods and volumes follow from it; leave it out",
        config={"listen": "0.0.0.0:1"},
    ),
    _wrong("an unknown setting", "spec.config", "unknown setting", config={"gc-intervall": "1m"}),
    _wrong(
        "a reserved variable",
        "spec.env[0].name",
        "must not begin with ZONEKEEPER_, because the operator sets these variables",
        env=[{"name": "ZONEKEEPER_DATA", "value": "/tmp"}],
    ),
    _wrong(
        "a reserved variable in a zone",
        "spec.zones[1].env[0].name",
        "must not begin with ZONEKEEPER_",
        zones=[
            {"name": "a"},
            {"name": "b", "env": [{"name": "ZONEKEEPER_DATA", "value": "/tmp"}]},
            {"name": "c"},
        ],
    ),
    _wrong(
        "two values of a variable",
        "spec.env[0]",
        "must not have both value and valueFrom; leave one of them out",
        env=[
            {
                "name": "A",
                "value": "1",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
            }
        ],
    ),
    _wrong(
        "two sources of a variable",
        "spec.env[0].valueFrom",
        "must name exactly one source",
        env=[
            {
                "name": "A",
                "valueFrom": {
                    "fieldRef": {"fieldPath": "metadata.name"},
                    "secretKeyRef": {"name": "s", "key": "k"},
                },
            }
        ],
    ),
    _wrong(
        "a field of the pod that no variable can have",
        "spec.env[0].valueFrom.fieldRef.fieldPath",
        "must be one of metadata.name, metadata.namespace",
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.hostNetwork"}}}],
    ),
    _wrong(
        "privileged",
        "spec.privileged",
        "cannot be set, because every pod keeps to the restricted pod security standard",
        privileged=True,
    ),
    _wrong(
        "a security context",
        "spec.securityContext",
        "cannot be set, because every pod keeps to the restricted pod security standard",
        securityContext={"privileged": True},
    ),
    _wrong("the node's network", "spec.hostNetwork", "cannot be set", hostNetwork=True),
    _wrong(
        "a path of the node",
        "spec.storage.hostPath",
        "cannot be set, because restricted pods use no path of their node; leave it out",
        storage={"size": "1Gi", "hostPath": "/srv"},
    ),
    _wrong(
        "a volume of the node",
        "spec.volumes",
        "cannot be set, because restricted pods use no path of their node",
        volumes=[{"name": "x", "hostPath": {"path": "/"}}],
    ),
    _wrong(
        "a label of the operator",
        "spec.podLabels",
        "must not have these names, by which pods are found again",
        podLabels={"zonekeeper.io/zone": "b"},
    ),
    _wrong(
        "an annotation that loosens confinement",
        "spec.podAnnotations",
        "which are the operator's or loosen confinement",
        podAnnotations={"container.apparmor.security.beta.kubernetes.io/bookie": "unconfined"},
    ),
    _wrong(
        "a toleration of nothing",
        "spec.tolerations[0]",
        "must name a key, or have operator Exists",
        **_toleration(value="x"),
    ),
    _wrong(
        "a toleration with a value that counts for nothing",
        "spec.tolerations[0]",
        "must have no value, because operator Exists fits every value; leave value out",
        **_toleration(key="a", operator="Exists", value="x"),
    ),
    _wrong(
        "a time without an effect",
        "spec.tolerations[0]",
        "must have effect NoExecute",
        **_toleration(key="a", tolerationSeconds=9),
    ),
    _wrong(
        "an effect that there is not",
        "spec.tolerations[0].effect",
        "must be one of NoSchedule, PreferNoSchedule, NoExecute",
        **_toleration(key="a", effect="NoWay"),
    ),
    _wrong(
        "an expression without values",
        "matchExpressions[0]",
        "must have values with In and NotIn",
        **_affinity(operator="In"),
    ),
    _wrong(
        "an expression with a label that cannot be",
        "matchExpressions[0].key",
        "must be the name of a label",
        **_affinity(operator="Exists", key="a b"),
    ),
    _wrong(
        "a pull policy that there is not",
        "spec.imagePullPolicy",
        "must be one of Always, IfNotPresent, Never",
        imagePullPolicy="Sometimes",
    ),
    _wrong(
        "a secret that cannot be",
        "spec.imagePullSecrets[0].name",
        "must be the name of an object",
        imagePullSecrets=[{"name": "A_B"}],
    ),
    _wrong(
        "a duration that is none",
        "spec.policy.reads.hedgeAfter",
        "must be a duration: a whole number and ms, s, m, h or d; write for example 60s",
        **_policy(reads={"hedgeAfter": "soon"}),
    ),
    _wrong(
        "a size that is none",
        "spec.policy.repair.bytesPerSecond",
        "must be a size: a whole number and KiB, MiB, GiB or TiB, or 0; write for example 10MiB",
        **_policy(repair={"bytesPerSecond": "50MB"}),
    ),
    _wrong(
        "a largest size below that of all volumes",
        "spec.heal.grow.max",
        "must not be below storage.size (2Gi); raise it, or leave it out",
        storage={"size": "2Gi"},
        heal={"grow": {"max": "1Gi"}},
    ),
    _wrong(
        "a share that no volume has",
        "spec.heal.grow.at",
        "must be a whole number of percent from 1% to 99%; write for example 80%",
        heal={"grow": {"at": "100%", "max": "4Ti"}},
    ),
    _wrong(
        "a step of more than a volume",
        "spec.heal.grow.by",
        "must be a whole number of percent from 1% to 100%; write for example 20%",
        heal={"grow": {"by": "101%", "max": "4Ti"}},
    ),
    _wrong("what is kept", "spec.onDelete", "must be one of Retain, Delete", onDelete="Perhaps"),
    _wrong(
        "a zone's name",
        "spec.zones[0]",
        "must be a DNS label: lower case letters, digits and -, at most 63",
        zones=[{"name": "A_B"}],
    ),
    _wrong(
        "an amount that is none",
        "spec.resources.limits",
        "must be an amount of zero, or from 1n to 2^63-1; write for example 500m or 2Gi",
        resources={"limits": {"memory": "lots"}},
    ),
)

#: Each is legal for both.
RIGHT: Final[tuple[tuple[str, Json], ...]] = (
    ("an issuer", {"tls": {"mode": "Issuer", "issuerRef": {"name": "x"}, "lifetime": "9d"}}),
    (
        "given secrets",
        {"tls": {"mode": "Secrets", "secrets": {"bookies": "a", "autorecovery": "b"}}},
    ),
    ("clients by default", {"tls": {"clients": ["a"], "settle": "1m"}}),
    ("who may come", {"network": {"policies": True, "clientsFrom": ["a"], "pagesFrom": ["b"]}}),
    ("pages by certificate", {"tls": {"mode": "Operator"}, "network": {"pages": "Certificate"}}),
    ("a tag with a digest", {"image": f"host:5000/zonekeeper:V1@{DIGEST}"}),
    ("latest with a digest", {"image": f"zonekeeper:latest@{DIGEST}"}),
    ("the least volumes", {"storage": {"size": "256Mi", "journal": {"size": "256Mi"}}}),
    ("the largest share and step", {"heal": {"grow": {"at": "99%", "by": "100%", "max": "1Ti"}}}),
    (
        "a largest size in another unit",
        {"heal": {"grow": {"at": "1%", "by": "1%", "max": "1024Mi"}}},
    ),
    ("the least volume", {"storage": {"size": "352Mi"}}),
    (
        "the least new volumes",
        {"storage": {"size": "1Gi", "newVolumes": {"size": "352Mi", "className": "slow"}}},
    ),
    (
        "empty selectors",
        {
            "zones": [
                {"name": "a", "nodeSelector": {}},
                {"name": "b", "nodeSelector": {}},
                {"name": "c"},
            ]
        },
    ),
    (
        "loose placement",
        {"policy": {"quorums": {"ackZones": 1}, "placement": {"strict": False, "minZones": 3}}},
    ),
    (
        "all that pods may have",
        {
            "imagePullSecrets": [{"name": "login"}],
            "imagePullPolicy": "Always",
            "podLabels": {"team": "logs", "app.kubernetes.io/part-of": "x"},
            "podAnnotations": {"example.com/scrape": "true"},
            "priorityClassName": "high",
            "config": {"gc-interval": "5m", "ledgers": 10},
            "tolerations": [
                {"operator": "Exists"},
                {"key": "dedicated", "value": "logs", "effect": "NoSchedule"},
                {
                    "key": "node.kubernetes.io/unreachable",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 60,
                },
            ],
            "env": [
                {"name": "TZ", "value": "UTC"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            ],
            **_affinity(operator="In", values=["ssd"]),
            "zones": [
                {
                    "name": "a",
                    "podLabels": {"team": "a"},
                    "env": [{"name": "TZ", "value": "CET"}],
                    "affinity": {
                        "podAntiAffinity": {
                            "preferredDuringSchedulingIgnoredDuringExecution": [
                                {
                                    "weight": 1,
                                    "podAffinityTerm": {
                                        "topologyKey": "kubernetes.io/hostname",
                                        "labelSelector": {"matchLabels": {"app": "db"}},
                                    },
                                }
                            ]
                        }
                    },
                },
                {"name": "b"},
                {"name": "c", "tolerations": [{"key": "gpu", "operator": "Exists"}]},
            ],
        },
    ),
)
