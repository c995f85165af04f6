"""What a container of a pod spec means as a process: its command, environment and mounts. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.cluster.kubelet.api import Json

#: The limits of a real kubelet on a termination message: of the file, and of the end of the log.
MESSAGE_BYTES_MAX = 4096
LOG_BYTES_MAX = 2048
LOG_LINES_MAX = 80

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


class NotReadyError(Exception):
    """Something that the container needs is not there yet: the pod waits."""


class NoImageError(Exception):
    """No registry has the image."""

    def __init__(self, image: str) -> None:
        super().__init__(
            f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": '
            f"{image}: not found"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The objects that a pod's environment and volumes may refer to, by name."""

    config_maps: Mapping[str, Json]
    secrets: Mapping[str, Json]


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace ``$(NAME)``, as Kubernetes does; an unknown name stays as it is."""

    def one(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return env.get(match[1], match[0])

    return _REFERENCE.sub(one, text)


def field(pod: Json, path: str) -> str:
    """Read a field of the downward API."""
    match = re.fullmatch(r"(metadata)\.(labels|annotations)\['([^']+)'\]", path)
    if match:
        return str(pod["metadata"].get(match[2], {}).get(match[3], ""))
    value: object = pod
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        raise NotReadyError(f"the pod has no {path} yet")
    return str(value)


def environment(
    pod: Json, container: Json, sources: Sources, base: Mapping[str, str]
) -> dict[str, str]:
    """Give a container's environment; later entries may refer to earlier ones."""
    env = dict(base)
    for item in container.get("envFrom", ()):
        env |= _all_of(item, sources)
    for item in container.get("env", ()):
        if "valueFrom" not in item:
            env[item["name"]] = expand(item.get("value", ""), env)
            continue
        value = _value_from(pod, item["valueFrom"], sources)
        if value is not None:
            env[item["name"]] = value
    return env


def _all_of(item: Json, sources: Sources) -> dict[str, str]:
    prefix = item.get("prefix", "")
    for key, objects in (("configMapRef", sources.config_maps), ("secretRef", sources.secrets)):
        if key in item:
            data = _object(objects, item[key])
            return {prefix + name: text for name, text in data.items()}
    return {}


def _value_from(pod: Json, source: Json, sources: Sources) -> str | None:
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"])
    for key, objects in (
        ("configMapKeyRef", sources.config_maps),
        ("secretKeyRef", sources.secrets),
    ):
        if key in source:
            data = _object(objects, source[key])
            if source[key]["key"] in data:
                return data[source[key]["key"]]
            if source[key].get("optional"):
                return None
            raise NotReadyError(f"{source[key]['name']} has no key {source[key]['key']}")
    raise NotReadyError(f"an environment source that the lab does not know: {sorted(source)}")


def _object(objects: Mapping[str, Json], reference: Json) -> dict[str, str]:
    if reference["name"] not in objects:
        if reference.get("optional"):
            return {}
        raise NotReadyError(f"no object named {reference['name']} yet")
    data: dict[str, str] = objects[reference["name"]]
    return data


def command(container: Json, env: Mapping[str, str]) -> list[str]:
    """Give the command line; images have none of their own here, so the spec must say it."""
    words = [*container.get("command", ()), *container.get("args", ())]
    if not container.get("command"):
        raise NotReadyError(
            f"container {container['name']} names no command, and the lab has no images"
        )
    return [expand(word, env) for word in words]


def last_words(file: bytes, log: bytes, policy: str, exit_code: int) -> str:
    """Give a container's termination message, within a kubelet's limits."""
    if not file and policy == "FallbackToLogsOnError" and exit_code != 0:
        lines = log[-LOG_BYTES_MAX:].splitlines(keepends=True)[-LOG_LINES_MAX:]
        return b"".join(lines).decode(errors="replace")
    return file[:MESSAGE_BYTES_MAX].decode(errors="replace")


def referenced(pod: Json) -> tuple[set[str], set[str]]:
    """Give the names of the config maps and secrets that a pod refers to."""
    config_maps: set[str] = set()
    secrets: set[str] = set()
    spec = pod["spec"]
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        for item in container.get("envFrom", ()):
            config_maps |= {item["configMapRef"]["name"]} if "configMapRef" in item else set()
            secrets |= {item["secretRef"]["name"]} if "secretRef" in item else set()
        for item in container.get("env", ()):
            source = item.get("valueFrom", {})
            config_maps |= {source[k]["name"] for k in ("configMapKeyRef",) if k in source}
            secrets |= {source[k]["name"] for k in ("secretKeyRef",) if k in source}
    for volume in spec.get("volumes", ()):
        for source in (volume, *volume.get("projected", {}).get("sources", ())):
            config_maps |= {source["configMap"]["name"]} if "configMap" in source else set()
            if "secret" in source:
                secrets.add(source["secret"].get("secretName") or source["secret"]["name"])
    return config_maps, secrets
