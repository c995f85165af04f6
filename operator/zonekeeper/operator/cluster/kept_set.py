"""A StatefulSet that is about to be made again with other volumes, kept until it stands. Pure.

The claim templates of a StatefulSet cannot change. So the StatefulSet is deleted, its pods stay,
and it is made again. All that it was, and that no resource says, would be lost with a crash in
between: the template of a zone that the roll has not reached, and the number of its bookies. So it
is kept in a ControllerRevision before it is deleted. The data of a ControllerRevision cannot be
changed: another body has another name, and of several the one with the highest number counts.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.kubernetes.api import KEEPS_LABEL, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSet:
    """A StatefulSet as it is to be made again."""

    name: str
    uid: str
    #: It rises with each one that is kept.
    number: int
    #: The uid of the StatefulSet that it comes after.
    replaces: str
    body: Json

    @property
    def set_name(self) -> str:
        """The name of the StatefulSet."""
        return str(self.body["metadata"]["name"])


def read(items: Iterable[Json], resource: Json) -> tuple[KeptSet, ...]:
    """Read the StatefulSets that are kept for this very resource, the newest first."""
    uid = resource["metadata"]["uid"]
    ours = (item for item in items if owned_objects.controller_of(item) == uid)
    found = [one for item in ours if (one := _read(item, resource)) is not None]
    return tuple(sorted(found, key=lambda one: one.number, reverse=True))


def revision(resource: Json, body: Json, *, replaces: str, number: int) -> Json:
    """Give the ControllerRevision that keeps a StatefulSet."""
    meta = resource["metadata"]
    return {
        "metadata": {
            "name": name_of(resource, body, replaces),
            "namespace": meta["namespace"],
            "labels": {KEEPS_LABEL: meta["name"]},
            "ownerReferences": [owned_objects.owner_reference(resource)],
        },
        "revision": number,
        "data": {"statefulSet": body, "replaces": replaces},
    }


def name_of(resource: Json, body: Json, replaces: str) -> str:
    """Name a revision: the same StatefulSet has the same name again."""
    text = json.dumps([resource["metadata"]["uid"], body, replaces], sort_keys=True)
    return f"{body['metadata']['name']}-set-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _read(item: Json, resource: Json) -> KeptSet | None:
    data = item.get("data")
    body = data.get("statefulSet") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(body, dict):
        return None
    name, replaces = item["metadata"]["name"], str(data.get("replaces"))
    if not isinstance(body.get("metadata"), dict) or "name" not in body["metadata"]:
        return None
    if name != name_of(resource, body, replaces):
        return None
    return KeptSet(
        name=name,
        uid=item["metadata"]["uid"],
        number=int(item.get("revision", 0)),
        replaces=replaces,
        body=body,
    )
