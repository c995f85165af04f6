"""What a container of Spark on Kubernetes runs, from its arguments and its environment.

Spark's driver and executors are one image. Spark says by the first argument which of the two a
container is, and by variables of the environment all else:

============  ====================================================================================
``driver``    ``spark-submit`` in client mode, with the arguments of the container behind it. The
              driver listens at the address of its pod, and tells executors this address
``executor``  Java with Spark's executor: options by ``SPARK_JAVA_OPT_<n>``, in the order of the
              numbers
other words   the command itself
============  ====================================================================================

A variable that is missing is told by its name: else Java would start, and fail where nobody looks.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.pipeline.base import java_runtime
from zonekeeper.placement.base.troubles import Refusal

EXECUTOR: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
#: Flags of the executor, and the variables that Spark gives to its container.
EXECUTOR_FLAGS: Final[Mapping[str, str]] = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
MEMORY: Final = "SPARK_EXECUTOR_MEMORY"
ADDRESS: Final = "SPARK_DRIVER_BIND_ADDRESS"

_JAVA_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_([0-9]+)")


class BadContainerError(Refusal):
    """The container cannot be started; nothing was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCommand:
    """What to become."""

    words: tuple[str, ...]
    #: Variables beside those of the container.
    added: Mapping[str, str] = field(default_factory=dict)


def command(
    arguments: Sequence[str], environment: Mapping[str, str], spark_home: str | None
) -> ContainerCommand:
    """Give the command of a container; raises ``BadContainerError``, and ``NoJava``."""
    role = arguments[0] if arguments else ""
    if not role:
        raise BadContainerError(
            "the container was given no arguments: Spark gives it `driver` or `executor`, a person "
            "a command"
        )
    if role not in ("driver", "executor"):
        return ContainerCommand(words=tuple(arguments))
    if spark_home is None:
        raise BadContainerError(
            "pyspark is not installed in this image: pip install 'zonekeeper[pipeline]'"
        )
    java = java_runtime.found(environment)
    added = {"SPARK_HOME": spark_home}
    if role == "driver":
        return ContainerCommand(words=_driver(arguments[1:], environment, spark_home), added=added)
    return ContainerCommand(words=_executor(environment, spark_home, java), added=added)


def _driver(
    arguments: Sequence[str], environment: Mapping[str, str], spark_home: str
) -> tuple[str, ...]:
    address = _needed(environment, ADDRESS)
    return (
        f"{spark_home}/bin/spark-submit",
        *("--conf", f"spark.driver.bindAddress={address}"),
        *("--conf", f"spark.executorEnv.SPARK_DRIVER_POD_IP={address}"),
        *("--deploy-mode", "client"),
        *arguments,
    )


def _executor(environment: Mapping[str, str], spark_home: str, java: str) -> tuple[str, ...]:
    memory = _needed(environment, MEMORY)
    flags = [
        word for flag, name in EXECUTOR_FLAGS.items() for word in (flag, _needed(environment, name))
    ]
    return (
        java,
        *_java_options(environment),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        *("-cp", class_path(environment, spark_home)),
        EXECUTOR,
        *flags,
    )


def class_path(environment: Mapping[str, str], spark_home: str) -> str:
    """Give the executor's class path: settings first, then the application's, then Spark's."""
    parts = (
        environment.get("SPARK_CONF_DIR", ""),
        environment.get("HADOOP_CONF_DIR", ""),
        environment.get("SPARK_CLASSPATH", ""),
        f"{spark_home}/jars/*",
        environment.get("SPARK_DIST_CLASSPATH", ""),
    )
    return ":".join(part for part in parts if part)


def _java_options(environment: Mapping[str, str]) -> list[str]:
    found = [
        (match, text)
        for name, text in environment.items()
        if (match := _JAVA_OPTION.fullmatch(name))
    ]
    return [text for match, text in sorted(found, key=lambda one: int(one[0][1]))]


def _needed(environment: Mapping[str, str], name: str) -> str:
    text = environment.get(name, "")
    if not text:
        raise BadContainerError(
            f"{name} is not in the container's environment: Spark gives it to the pods that it "
            "makes, so let spark-submit make the pod"
        )
    return text
