"""The schemas of kinds and shapes. Pure.

No schema says ``pattern`` or ``enum``: the API server would show the pattern, or stop before it has
looked at the rules and say so of a field that it calls ``<nil>``. A rule in CEL says it in words.

CEL's cost is bounded, so each text, list and map has a limit.
"""

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes import names
from zonekeeper.operator.shapes.shapes import (
    REQUIRED,
    TEXT_MAX,
    Leaf,
    ListOf,
    MapOf,
    Record,
    Rule,
    Shape,
)
from zonekeeper.placement.base import fields

RULES: Final = "x-kubernetes-validations"
#: The longest duration or size that is read: 15 digits and a unit.
_AMOUNT_MAX: Final = 18
_DURATION: Final = "[0-9]{1,15}(ms|s|m|h|d)"
_SIZE: Final = "0|[0-9]{1,15}(KiB|MiB|GiB|TiB)"


def of_kind(kind: fields.Kind, most: int = TEXT_MAX) -> Json:
    """Give the schema of a kind of value; it allows all that the kind reads, and a little more."""
    schema: Json
    match kind:
        case fields.Whole():
            schema = {"type": "integer", "minimum": kind.least, "maximum": kind.most}
        case fields.Number():
            low = {"exclusiveMinimum": True} if kind.above else {}
            schema = {"type": "number", "minimum": kind.least, "maximum": kind.most} | low
        case fields.Duration():
            schema = _text(_AMOUNT_MAX, matches(_DURATION), kind)
        case fields.Size():
            rule = f"type(self) == int ? self == 0 : {matches(_SIZE)}"
            schema = {"x-kubernetes-int-or-string": True, "maxLength": _AMOUNT_MAX}
            schema[RULES] = [_in_words(rule, kind)]
        case fields.Flag():
            schema = {"type": "boolean"}
        case fields.OneOf():
            schema = _text(most, f"self in {list(map(str, kind.words))}", kind)
        case names.FREE_TEXT:
            schema = {"type": "string", "maxLength": most}
        case fields.Text():
            schema = _text(most, matches(kind.pattern), kind)
        case fields.Names():
            name = _text(names.LABEL_VALUE_MAX, matches(_ZONE_NAME), _A_NAME)
            schema = {"type": "array", "minItems": 1, "maxItems": kind.most, "items": name}
        case _:
            assert_never(kind)
    return schema


def of_shape(shape: Shape) -> Json:
    """Give the schema of a shape, with its description."""
    said = {"description": described(shape.about, shape.default)}
    match shape:
        case Leaf():
            schema = of_kind(shape.kind, shape.most)
            schema = with_rules(schema, of_rules(shape.rules))
        case Record():
            schema = {"type": "object", "properties": properties(shape.parts)}
            if required := [n for n, one in shape.parts.items() if one.default is REQUIRED]:
                schema["required"] = sorted(required)
            schema = with_rules(schema, of_rules(shape.rules))
        case ListOf():
            items = of_shape(shape.items) | {"description": shape.items.about}
            schema = {"type": "array", "maxItems": shape.most, "items": items}
            schema |= {"minItems": shape.least} if shape.least else {}
            if shape.unique is not None:
                schema |= {
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": [shape.unique],
                }
        case MapOf():
            schema = {
                "type": "object",
                "maxProperties": shape.most,
                "additionalProperties": of_kind(shape.values, shape.value_max),
            }
            key = matches(shape.keys.pattern).replace("self", "key", 1)
            each = _in_words(f"self.all(key, {key})", shape.keys)
            each["message"] = f"each name {each['message']}"
            schema = with_rules(schema, [each, *of_rules(shape.rules)])
        case _:
            assert_never(shape)
    return schema | said


def properties(parts: Mapping[str, Shape]) -> Json:
    """Give the schemas of several fields."""
    return {name: of_shape(part) for name, part in parts.items()}


def described(about: str, default: str | None) -> str:
    """Give a description that ends with the default, or says that the field is required."""
    return f"{about} {'Required.' if default is REQUIRED else f'Default: {default}.'}"


def of_rules(rules: Iterable[Rule]) -> list[Json]:
    """Give the validations of rules."""
    return [{"rule": rule.cel, "message": rule.words} for rule in rules]


def with_rules(schema: Json, rules: list[Json]) -> Json:
    """Give a schema with further validations."""
    return schema | {RULES: [*schema.get(RULES, ()), *rules]} if rules else schema


def matches(pattern: str) -> str:
    """Give the condition that the whole of ``self`` is of a pattern."""
    return f"self.matches(r'^({pattern})$')"


def _text(most: int, rule: str, kind: fields.Kind) -> Json:
    return {"type": "string", "maxLength": most, RULES: [_in_words(rule, kind)]}


def _in_words(rule: str, kind: fields.Kind) -> Json:
    return {"rule": rule, "message": fields.rule_of(kind)}


_ZONE_NAME: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
#: A name of ``fields.Names``, as a kind of its own.
_A_NAME: Final = fields.Text(
    _ZONE_NAME, fields.DNS_LABEL_RULE.removeprefix("must be "), "eu-west-1a"
)


def object_of(properties: Json, *, description: str, required: list[str] | None = None) -> Json:
    """Give the schema of an object with these properties."""
    whole: Json = {"type": "object", "description": description, "properties": properties}
    return whole | ({"required": required} if required else {})


def by_key(items: Json, *keys: str) -> Json:
    """Give the schema of a list of which each item has a key of its own."""
    return {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
    }
