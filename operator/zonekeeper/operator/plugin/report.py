"""Collects what a person needs to look into a cluster from afar: one archive, without secrets.

The resource, its events, its pods and the ends of their logs are read; Secrets never are. A part
that cannot be read, for example because the person may not, is named in ``missing.txt``, and the
others are there.
"""

import io
import json
import tarfile
from collections.abc import Mapping
from typing import Final

from zonekeeper.operator.kubernetes.api import (
    CLUSTER_LABEL,
    EVENTS,
    PODS,
    REPAIRS_LABEL,
    Json,
    Kubernetes,
    KubernetesError,
    ObjectKind,
)
from zonekeeper.operator.plugin import redacting, status_text

LOG_LINES: Final = 500
PODS_MAX: Final = 200


class _Collected:
    """The parts of a report, and what is missing."""

    def __init__(self) -> None:
        self.missing: list[str] = []

    async def listed(
        self, api: Kubernetes, kind: ObjectKind, namespace: str, labels: str = ""
    ) -> list[Json]:
        """List objects, or note that they are missing."""
        try:
            return await api.list(kind, namespace, labels=labels)
        except KubernetesError as error:
            self.missing.append(f"{kind.plural}: {error}")
            return []

    async def log(self, api: Kubernetes, namespace: str, pod: str) -> str | None:
        """Read the end of a log, or note that it is missing."""
        try:
            found = await api.log(namespace, pod, lines=LOG_LINES)
        except KubernetesError as error:
            self.missing.append(f"log of {pod}: {error}")
            return None
        if found is None:
            self.missing.append(f"log of {pod}: there is none")
        return found


async def parts(api: Kubernetes, namespace: str, resource: Json, *, now_ms: int) -> dict[str, str]:
    """Give the files of a report by their paths."""
    collected, name = _Collected(), str(resource["metadata"]["name"])
    pods = [
        pod
        for label in (CLUSTER_LABEL, REPAIRS_LABEL)
        for pod in await collected.listed(api, PODS, namespace, f"{label}={name}")
    ]
    if len(pods) > PODS_MAX:
        collected.missing.append(f"{len(pods) - PODS_MAX} pods more")
        pods = pods[:PODS_MAX]
    names = {name, *(pod["metadata"]["name"] for pod in pods)}
    events = [
        one
        for one in await collected.listed(api, EVENTS, namespace)
        if one.get("involvedObject", {}).get("name") in names
    ]
    secrets = redacting.secrets_in([resource, *pods])
    files = {
        "resource.json": _written(redacting.item(resource, secrets)),
        "status.txt": redacting.text("\n".join(status_text.lines(resource, now_ms)), secrets),
        "events.json": _written([redacting.item(one, secrets) for one in events]),
        "pods.json": _written([redacting.item(one, secrets) for one in pods]),
    }
    for pod in sorted(one["metadata"]["name"] for one in pods):
        if (found := await collected.log(api, namespace, pod)) is not None:
            files[f"logs/{pod}.log"] = redacting.text(found, secrets)
    if collected.missing:
        files["missing.txt"] = redacting.text("\n".join(collected.missing), secrets)
    return files


def archive(files: Mapping[str, str], folder: str, *, now_ms: int) -> bytes:
    """Give a gzipped tar archive of these files, below a folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as made:
        for path, content in sorted(files.items()):
            data = content.encode()
            entry = tarfile.TarInfo(f"{folder}/{path}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, now_ms // 1_000
            made.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _written(found: Json | list[Json]) -> str:
    return json.dumps(found, indent=1, sort_keys=True) + "\n"
