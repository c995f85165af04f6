"""Jobs of Spark in the lab, submitted as docs/pipeline-kubernetes.md says."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark
import yaml

from tests.cluster import controlplane
from tests.cluster.kubelet.api import Json
from tests.cluster.lab import Lab
from tests.cluster.processes import Process
from tests.support.checkout_root import ROOT

SPACE: Final = controlplane.AUDITED
IMAGE: Final = "zonekeeper-spark:0.1.0"
MANIFESTS: Final = ROOT / "manifests" / "spark"
#: The account that submits.
USER: Final = "a-person"
#: The compiler's second stage costs a short program more than it gives.
_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: The label of all pods of an application, with its id.
APPLICATION: Final = "spark-app-selector"
#: What begins the settings of the variables of drivers and of executors.
ENVIRONMENTS: Final = ("spark.kubernetes.driverEnv", "spark.executorEnv")
#: So much of the end of a log stands in an error.
LOG_CHARS: Final = 4_000
CREATED: Final = 201
FORBIDDEN: Final = 403
_READ: Final = re.compile(r"a task has read (\d+) bytes in its zone, and (\d+) beyond it")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Right:
    """A verb on a kind of objects."""

    group: str
    resource: str
    verb: str


def manifest(name: str) -> list[Json]:
    """Read the objects of a file that ships."""
    return [one for one in yaml.safe_load_all((MANIFESTS / name).read_text("utf-8")) if one]


def granted(role: str) -> set[Right]:
    """Give what a role that ships grants."""
    (found,) = (
        one
        for one in manifest("rbac.yaml")
        if one["kind"] == "Role" and one["metadata"]["name"] == role
    )
    return {
        Right(group=group, resource=resource, verb=verb)
        for rule in found["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class SparkJobs:
    """Submits, and looks at what pods and the API server say of it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._folder = lab.folder / "spark"
        self._folder.mkdir(exist_ok=True)
        self._kubeconfig = self._folder / "kubeconfig"
        lab.images.put(IMAGE, Path(os.path.realpath(sys.prefix)))

    def install(self) -> None:
        """Apply what ships, and bind the role of those who submit."""
        objects = manifest("rbac.yaml")
        objects.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": USER}})
        objects.append(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": USER},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Role",
                    "name": "spark-submit",
                },
                "subjects": [{"kind": "ServiceAccount", "name": USER}],
            }
        )
        for one in objects:
            one["metadata"]["namespace"] = SPACE
        self.lab.apply(objects)
        token = self.lab.kubectl("create", "token", USER, "-n", SPACE, "--duration=1h")
        config = json.loads(self.lab.kubeconfig.read_text("utf-8"))
        config["users"][0]["user"] = {"token": token.strip()}
        self._kubeconfig.write_text(json.dumps(config))

    def submit(
        self, name: str, program: Path, words: Sequence[str], settings: Mapping[str, str]
    ) -> Process:
        """Call spark-submit; its process ends with the application."""
        plane = self.lab.control_plane
        java = {name: os.environ[name] for name in ("JAVA_HOME",) if os.environ.get(name)}
        every = {
            "spark.kubernetes.namespace": SPACE,
            "spark.kubernetes.container.image": IMAGE,
            "spark.kubernetes.authenticate.driver.serviceAccountName": "spark-driver",
            "spark.kubernetes.driver.podTemplateFile": str(MANIFESTS / "driver.yaml"),
            "spark.kubernetes.executor.podTemplateFile": str(MANIFESTS / "executor.yaml"),
            "spark.kubernetes.driver.pod.name": f"{name}-driver",
            # There is no DNS, and no address of the API server's Service.
            "spark.kubernetes.driver.master": plane.url,
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.driver.extraJavaOptions": _JAVA,
            "spark.executor.extraJavaOptions": _JAVA,
            "spark.ui.enabled": "false",
            "spark.executorEnv.ZONEKEEPER_LOG_LEVEL": "info",
            # The host's programs are the image's.
            **{f"{side}.{name}": home for name, home in java.items() for side in ENVIRONMENTS},
            **settings,
        }
        spark = Path(pyspark.__file__).parent
        return Process(
            f"submit-{name}",
            [
                spark / "bin" / "spark-submit",
                *("--master", f"k8s://{plane.url}", "--deploy-mode", "cluster", "--name", name),
                *(word for item in every.items() for word in ("--conf", "=".join(item))),
                f"local://{program}",
                *words,
            ],
            log=self.lab.folder / "logs" / f"submit-{name}.log",
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self._folder),
                "KUBECONFIG": str(self._kubeconfig),
                "SPARK_HOME": str(spark),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_SUBMIT_OPTS": _JAVA,
                **java,
            },
        )

    def driver(self, name: str) -> Json:
        """Give the driver's pod of an application; an empty object if there is none."""
        return self.lab.get("pod", f"{name}-driver", namespace=SPACE)

    def executors(self, name: str) -> list[Json]:
        """Give the pods of an application's executors that run and are not to be deleted."""
        own = self.driver(name)["metadata"]["labels"][APPLICATION]
        own = f"{APPLICATION}={own},spark-role=executor"
        return [
            one
            for one in self.lab.list("pods", namespace=SPACE, selector=own)
            if "deletionTimestamp" not in one["metadata"] and one["status"]["phase"] == "Running"
        ]

    def log_of(self, pod: Json) -> str:
        """Give all that a pod has said."""
        uid = pod["metadata"]["uid"]
        files = sorted(self.lab.folder.glob(f"nodes/*/pods/{uid}/*.log"))
        return "".join(file.read_text(errors="replace") for file in files)

    def zones_told(self, name: str) -> set[str]:
        """Give the zones that the environment of an application's executors has named."""
        own = self.driver(name)["metadata"]["labels"][APPLICATION]
        specs = map(Path.read_text, self.lab.folder.glob("nodes/*/pods/*/executor.json"))
        every = (json.loads(spec)["env"] for spec in specs)
        return {env["ZONEKEEPER_ZONE"] for env in every if env["SPARK_APPLICATION_ID"] == own}

    def process_of(self, executor: Json) -> int:
        """Give the id of the process of an executor."""
        words = f"\0--podName\0{executor['metadata']['name']}\0".encode()
        (found,) = (
            int(folder.name)
            for folder in Path("/proc").iterdir()
            if folder.name.isdigit() and words in _command_line(folder)
        )
        return found

    def kubectl_of_user(self, *words: str) -> str:
        """Run kubectl as the account that submits; the lab's kubelet has no logs to give."""
        return self.lab.kubectl(
            f"--kubeconfig={self._kubeconfig}", "-n", SPACE, *words, check=False
        )

    def ends(self, name: str) -> str:
        """Give the ends of what an application's driver and executors have said, for an error."""
        pods = [one for one in (self.driver(name), *self.executors(name)) if one]
        return "\n".join(
            f"--- {one['metadata']['name']}\n{self.log_of(one)[-LOG_CHARS:]}" for one in pods
        )

    def bytes_read(self, pod: Json) -> tuple[int, int]:
        """Sum up what an executor's tasks say that they read in their zone, and beyond it."""
        found = _READ.findall(self.log_of(pod))
        return sum(int(one) for one, _ in found), sum(int(one) for _, one in found)

    def asked(self, account: str) -> set[Right]:
        """Give the calls of an account that the API server has answered."""
        return set(self._asked(f"system:serviceaccount:{SPACE}:{account}"))

    def _asked(self, user: str) -> Iterator[Right]:
        for line in self.lab.control_plane.audit.read_text("utf-8").splitlines():
            call = json.loads(line)
            about = call.get("objectRef", {})
            if call["user"]["username"] == user and about.get("namespace") == SPACE:
                status = int(call.get("responseStatus", {}).get("code", 0))
                assert status != FORBIDDEN, line
                part = about.get("subresource")
                resource = f"{about['resource']}/{part}" if part else about["resource"]
                # What is applied and was not there is created: that is a right of its own.
                for verb in (call["verb"], *(["create"] if status == CREATED else [])):
                    yield Right(group=about.get("apiGroup", ""), resource=resource, verb=verb)


def _command_line(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""  # it has ended meanwhile
