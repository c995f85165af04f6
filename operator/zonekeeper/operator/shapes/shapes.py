"""Shapes: what a structure in ``spec`` may hold, for the schema and for the operator alike. Pure.

A shape is a value. ``schemas`` makes the schema from it, and ``read`` checks a value against it. So
the two refuse the same, in the same words, also where the stored schema is older than the operator.

A rule between the fields of a structure has two forms of its condition, in CEL and in Python, and
one text. A test holds the two forms to each other on a table of wrong values.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.placement.base import fields
from zonekeeper.placement.base.fields import Problem

#: The default of a field that must be given.
REQUIRED: Final = None
TEXT_MAX: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A condition that must hold for a value, and what is said and done if it does not."""

    cel: str
    #: The value of a leaf is a text; a function that takes any value takes it, too.
    holds: Callable[[Json], bool]
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A plain value."""

    kind: fields.Kind
    about: str
    #: What is so if it is left out, in words; None: it must be given.
    default: str | None = "none"
    #: A text has at most so many characters.
    most: int = TEXT_MAX
    #: A condition over the text.
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Fields by name."""

    parts: Mapping[str, "Shape"]
    about: str
    default: str | None = "none"
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """A list of values of one shape."""

    items: "Shape"
    most: int
    about: str
    least: int = 0
    default: str | None = "none"
    #: No two items have the same value in this field.
    unique: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    """Texts by names of one form."""

    keys: fields.Text
    values: fields.Text
    most: int
    about: str
    value_max: int = TEXT_MAX
    default: str | None = "none"
    rules: tuple[Rule, ...] = ()


Shape: TypeAlias = Leaf | Record | ListOf | MapOf


def read(shape: Shape, path: str, value: object) -> Iterator[Problem]:
    """Give all that is wrong with a value; the value itself stays as it is."""
    match shape:
        case Leaf():
            yield from _read_leaf(shape, path, value)
        case Record():
            yield from _read_record(shape, path, value)
        case ListOf():
            yield from _read_list(shape, path, value)
        case MapOf():
            yield from _read_map(shape, path, value)


def _read_leaf(leaf: Leaf, path: str, value: object) -> Iterator[Problem]:
    wrong = list(_of_kind(leaf.kind, path, value))
    if not wrong and isinstance(value, str) and len(value) > leaf.most:
        rule = f"must have at most {leaf.most} characters"
        wrong = [Problem(path, fields.shown(value), rule, "shorten it")]
    yield from wrong or _broken(leaf.rules, path, value)


def _of_kind(kind: fields.Kind, path: str, value: object) -> Iterator[Problem]:
    try:
        kind.read(path, value)
    except fields.InvalidFieldsError as refused:
        yield from refused.problems


def _broken(rules: tuple[Rule, ...], path: str, value: object) -> Iterator[Problem]:
    for rule in rules:
        if not rule.holds(cast(Json, value)):
            said, _, fix = rule.words.partition("; ")
            yield Problem(path, fields.shown(value), said, fix)


def _read_record(record: Record, path: str, value: object) -> Iterator[Problem]:
    if not isinstance(value, dict):
        rule = "must be fields by name"
        hint = f"write for example {{{next(iter(record.parts))}: ...}}"
        yield Problem(path, fields.shown(value), rule, hint)
        return
    # Kubernetes drops a field without a value, so this does, too.
    given = {name: inner for name, inner in value.items() if inner is not None}
    wrong: list[Problem] = []
    for name, inner in given.items():
        where = fields.below(path, str(name))
        if name in record.parts:
            wrong += read(record.parts[name], where, inner)
        else:
            wrong.append(fields.unknown(where, inner, record.parts))
    for name, part in record.parts.items():
        if part.default is REQUIRED and name not in given:
            where = fields.below(path, name)
            wrong.append(Problem(where, "missing", "is required", part.about))
    yield from wrong or _broken(record.rules, path, given)


def _read_list(shape: ListOf, path: str, value: object) -> Iterator[Problem]:
    if not isinstance(value, list) or not shape.least <= len(value) <= shape.most:
        rule = f"must be a list of {shape.least} to {shape.most}"
        yield Problem(path, fields.shown(value), rule, "write the items in [ ]")
        return
    seen: dict[object, int] = {}
    for index, item in enumerate(value):
        where = f"{path}[{index}]"
        wrong = list(read(shape.items, where, item))
        yield from wrong
        if shape.unique is None or wrong:
            continue
        first = seen.setdefault(item[shape.unique], index)
        if first != index:
            shown = fields.shown(item[shape.unique])
            rule = f"duplicates {path}[{first}]"
            yield Problem(f"{where}.{shape.unique}", shown, rule, "remove one of them")


def _read_map(shape: MapOf, path: str, value: object) -> Iterator[Problem]:
    if not isinstance(value, dict) or len(value) > shape.most:
        rule = f"must be at most {shape.most} texts by name"
        hint = f"write for example {{{shape.keys.example}: {shape.values.example}}}"
        yield Problem(path, fields.shown(value), rule, hint)
        return
    wrong: list[Problem] = []
    for name, inner in value.items():
        wrong += _of_kind(shape.keys, path, name)
        where = fields.below(path, str(name))
        leaf = Leaf(kind=shape.values, about="", most=shape.value_max)
        wrong += _read_leaf(leaf, where, inner)
    yield from wrong or _broken(shape.rules, path, value)


def pruned(shape: Shape, value: object) -> object:
    """Give a value that ``read`` found good as the API server stores it: without what is empty.

    A text, a list or a map that is empty is the same as none, and is not stored. Fields that are
    empty structures stay: an empty selector fits every pod, and none fits no pod. If a wanted
    object had more than the stored one, it would be applied again in every turn.
    """
    match shape:
        case Record():
            assert isinstance(value, dict), "it was read"
            inside = ((name, shape.parts[name], inner) for name, inner in value.items())
            found = {name: pruned(part, inner) for name, part, inner in inside if inner is not None}
            return {
                name: inner
                for name, inner in found.items()
                if isinstance(shape.parts[name], Record) or inner not in ("", [], {})
            }
        case ListOf():
            assert isinstance(value, list), "it was read"
            return [pruned(shape.items, item) for item in value]
        case _:
            return value
