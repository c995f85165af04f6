"""Fields that a resource cannot have, because its pods keep to the ``restricted`` standard. Pure.

The API server would pass over a field that the schema does not know, or call it unknown. These
names stand in the schema only to be refused in words.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes import schemas
from zonekeeper.placement.base import fields
from zonekeeper.placement.base.fields import Problem

_RESTRICTED: Final = (
    "cannot be set, because every pod keeps to the restricted pod security standard"
)
_NO_HOST_PATH: Final = "cannot be set, because restricted pods use no path of their node"
_ANY: Final[Json] = {"x-kubernetes-preserve-unknown-fields": True}
_OBJECT: Final[Json] = {"type": "object", **_ANY}
_LIST: Final[Json] = {"type": "array", "maxItems": 64, "items": _OBJECT}
_FLAG: Final[Json] = {"type": "boolean"}

#: Each field by its path in ``spec``: the type that people give it, and why it is refused.
FORBIDDEN: Final[Mapping[str, tuple[Json, str]]] = {
    "hostIPC": (_FLAG, _RESTRICTED),
    "hostNetwork": (_FLAG, _RESTRICTED),
    "hostPID": (_FLAG, _RESTRICTED),
    "privileged": (_FLAG, _RESTRICTED),
    "securityContext": (_OBJECT, _RESTRICTED),
    "storage.hostPath": ({"type": "string", "maxLength": 4_096}, _NO_HOST_PATH),
    "volumes": (_LIST, _NO_HOST_PATH),
}
_FIXES: Final = {
    _RESTRICTED: "leave it out",
    _NO_HOST_PATH: "leave it out, and name a storage class of local volumes in storage.className",
}


def problems(spec: Json) -> Iterator[Problem]:
    """Find these fields in a spec."""
    for path, (_, why) in FORBIDDEN.items():
        found: object = spec
        for step in path.split("."):
            found = found.get(step) if isinstance(found, dict) else None
        if found is not None:
            yield Problem(f"spec.{path}", fields.shown(found), why, _FIXES[why])


def add_to(spec: Json) -> None:
    """Put these fields, and the rules that refuse them, into the schema of ``spec``."""
    for path, (schema, why) in FORBIDDEN.items():
        *sections, last = path.split(".")
        level = spec
        for section in sections:
            level = level["properties"][section]
        about = {"description": f"Refused: it {why}."}
        level["properties"][last] = schema | about
        rule = {
            "rule": f"!has(self.{last})",
            "message": f"{why}; {_FIXES[why]}",
            "fieldPath": f".{last}",
        }
        level |= schemas.with_rules(level, [rule])
