"""Texts that try to be more than a text, and resources that have one of them in one field.

The fields are those of the schema, so a field that is added is tried without a word here.
"""

import copy
from collections.abc import Iterator
from typing import Any, Final

from tests.operator.resources import resource
from zonekeeper.operator.definition import crd
from zonekeeper.operator.kubernetes.api import Json

#: By it a text is found again, whatever became of it.
MARK: Final = "zk0injected"
TEXTS: Final = {
    "shell": f"{MARK}; touch /tmp/x",
    "substituted": f"$(touch {MARK})",
    "backticks": f"`{MARK}`",
    "pipe": f"{MARK} | sh",
    "variable": f"$(ZONEKEEPER_DATA){MARK}",
    "braces": f"${{{MARK}}}",
    "template": f"{{{{ .Values.{MARK} }}}}",
    "option": f"--{MARK}=x",
    "yaml": f"{MARK}: {{a: b}}\n- c",
    "document": f"{MARK}\n---\nkind: Pod",
    "anchor": f"&{MARK} *{MARK}",
    "tag": f"!!python/object/apply:os.system ['{MARK}']",
    "quotes": f"{MARK}\"'}}],",
    "path": f"../../{MARK}",
    "absolute": f"/etc/{MARK}",
    "newline": f"{MARK}\nb",
    "return": f"{MARK}\r\nX: y",
    "nul": f"{MARK}\x00b",
    "escape": f"\x1b[2J{MARK}",
    "long": MARK * 20_000,
    "cyrillic": f"{MARK}\u0430",
    "fullwidth": f"{MARK}\uff0e\uff0f",
    "turned": f"{MARK}\u202etxt",
    "nothing": f"{MARK}\u200b",
    "plain": MARK,
}
Way = tuple[str | int, ...]


def fields() -> Iterator[tuple[Way, Json]]:
    """Give the way to each text of a spec, and a spec in which what is beside it is good."""
    schema = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    yield from _below(schema["properties"]["spec"], (), resource()["spec"])


def with_text(way: Way, spec: Json, text: str) -> Json:
    """Give the resource with the text at the end of the way; ``*`` is the name in a map."""
    changed = copy.deepcopy(spec)
    level: Any = changed  # lists and mappings by turns
    for step in way[:-1]:
        level = level[step]
    last = way[-1]
    if last == "*":
        level[text] = level.pop("*")
    else:
        level[last] = text
    return resource(**changed)


def _below(schema: Json, way: Way, spec: Json) -> Iterator[tuple[Way, Json]]:
    if "enum" in schema or schema.get("type") in ("string", "integer", "boolean", "number"):
        yield way, spec  # a number, too: a text in its place
        return
    if schema.get("x-kubernetes-int-or-string"):
        yield way, spec
        return
    if schema.get("type") == "array":
        yield from _below(schema["items"], (*way, 0), _put(spec, (*way, 0), schema["items"]))
        return
    for name, inner in schema.get("properties", {}).items():
        yield from _below(inner, (*way, name), _put(spec, (*way, name), inner))
    if isinstance(inner := schema.get("additionalProperties"), dict):
        filled = _put(spec, (*way, "*"), inner)
        yield (*way, "*"), filled
        yield from _below(inner, (*way, "a"), _put(spec, (*way, "a"), inner))


def _put(spec: Json, way: Way, schema: Json) -> Json:
    """Give the spec with something good at the end of the way, if nothing is there."""
    changed = copy.deepcopy(spec)
    level: Any = changed  # lists and mappings by turns
    for step in way[:-1]:
        level = level[step]
    last = way[-1]
    if isinstance(last, int):
        if not level:
            level.append(_good(schema))
    elif last not in level:
        level[last] = _good(schema)
    return changed


def _good(schema: Json) -> object:
    if "enum" in schema:
        (first, *_) = schema["enum"]
        return str(first)
    if "default" in schema:
        return copy.deepcopy(schema["default"])
    kind = schema.get("type", "string")
    if kind == "object":
        needed = schema.get("required", [])
        return {name: _good(schema["properties"][name]) for name in needed}
    plain: dict[str, object] = {
        "array": [],
        "boolean": False,
        "integer": schema.get("minimum", 1),
        "number": schema.get("minimum", 1),
    }
    return plain.get(kind, "a")
