"""The zone watch's records from and to plain data.

The stored form has the shape of the value: a mapping for each dataclass, with its field names in
``camelCase`` and times in whole milliseconds. So a field is named in one place only, and no field
can be forgotten; golden records in the tests show every change of a name. Fields that this version
does not know are kept, at any depth outside of lists, and are written back. A field that is marked
as ``LATER`` may be missing: an earlier version wrote the record.

Reading trusts nothing: wrong types, missing fields, numbers out of range, and values that break a
rule of their machine raise ``InvalidFieldsError``. A record with this error exists, but says
nothing. The auditor and the replicators leave it out, and a missing record holds. A watch does not
evaluate until a person has removed it, because a person's hold may stand in it.
"""

import dataclasses
import enum
import functools
import json
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from zonekeeper.placement.base import fields
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.placement.zones.zone_records import ClusterRecord, Record, ZoneRecord

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_D = TypeVar("_D", bound="DataclassInstance")
_R = TypeVar("_R", ZoneRecord, ClusterRecord)

LIST_MAX: Final = 10_000

_UNKNOWN: Final = "unknown"
_SCALARS: Final[Mapping[object, fields.Kind]] = {
    bool: fields.Flag(),
    int: fields.Whole(0, (1 << 53) - 1),
    str: fields.Text(r"(?s:.{0,4096})", "a text of at most 4096 characters", "zone watch"),
}
_FIX: Final = "remove the record: the zone watch begins a new one"


@typing.runtime_checkable
class _Checked(typing.Protocol):
    """A value that can say which of its own rules it breaks."""

    def fault(self) -> str | None: ...


_Read: TypeAlias = Callable[[str, object], object]


class _Field(typing.NamedTuple):
    """A field: its name in the value, its name in the record, and the function that reads it."""

    attribute: str
    name: str
    read: _Read
    #: Records of an earlier version lack the field: then it has its default.
    later: bool


def zone_record(data: Mapping[str, Plain]) -> ZoneRecord:
    """Read ``zones/<zone>``."""
    return _record(ZoneRecord, data)


def cluster_record(data: Mapping[str, Plain]) -> ClusterRecord:
    """Read ``cluster``."""
    return _record(ClusterRecord, data)


def maintenance(data: Mapping[str, Plain]) -> Maintenance:
    """Read ``maintenance/<zone>.<ud>``."""
    return _read_dataclass(Maintenance, "", data)


def plain(value: Record | Maintenance) -> dict[str, Plain]:
    """Give a record as plain data, including the fields that this version does not know."""
    known = _plain_dataclass(value)
    if isinstance(value, Maintenance):
        return known
    _add(known, json.loads(value.unknown))
    return known


def _record(kind: type[_R], data: Mapping[str, Plain]) -> _R:
    record = _read_dataclass(kind, "", data)
    rest = _rest(data, _plain_dataclass(record))
    return dataclasses.replace(record, unknown=fields.kept("the record", rest))


def _rest(data: Mapping[str, Plain], known: Mapping[str, Plain]) -> dict[str, Plain]:
    """Give the part of ``data`` that is not in ``known``."""
    rest: dict[str, Plain] = {}
    for name, value in data.items():
        inside = known.get(name)
        if name not in known:
            rest[name] = value
        elif isinstance(value, dict) and isinstance(inside, dict):
            rest[name] = _rest(value, inside)
    return {name: value for name, value in rest.items() if value != {} or name not in known}


def _add(known: dict[str, Plain], rest: Mapping[str, Plain]) -> None:
    """Put ``_rest`` back; a field that is known by now, or is no longer a mapping, is kept."""
    for name, value in rest.items():
        inside = known.setdefault(name, value)
        if inside is not value and isinstance(inside, dict) and isinstance(value, dict):
            _add(inside, value)


def _plain_dataclass(value: "DataclassInstance") -> dict[str, Plain]:
    return {field.name: _plain(getattr(value, field.attribute)) for field in _fields(type(value))}


def _plain(value: object) -> Plain:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    assert dataclasses.is_dataclass(value)
    assert not isinstance(value, type)
    return _plain_dataclass(value)


# The reader of each type is made once: records are read at every evaluation.


@functools.cache
def _fields(kind: "type[DataclassInstance]") -> tuple[_Field, ...]:
    return tuple(
        _Field(each.name, _camel(each.name), _reader(each.type), each.metadata == fields.LATER)
        for each in dataclasses.fields(kind)
        if each.name != _UNKNOWN
    )


def _reader(kind: object) -> _Read:
    """Give the function that reads a value of a type; it takes the value's path and the value."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return functools.partial(_read_optional, _reader(inner[0]))
    if origin is tuple:
        return functools.partial(_read_list, _reader(inner[0]))
    if isinstance(kind, typing.NewType):
        kind = kind.__supertype__
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return functools.partial(_read_dataclass, kind)
    if isinstance(kind, type) and issubclass(kind, enum.StrEnum):
        return fields.OneOf(kind).read
    assert kind in _SCALARS, f"no such kind of field: {kind}"
    return _SCALARS[kind].read


def _read_dataclass(kind: type[_D], path: str, value: object) -> _D:
    given = fields.mapping(path, value)
    values: dict[str, object] = {}
    for field in _fields(kind):
        where = fields.below(path, field.name)
        if field.name not in given and field.later:
            continue
        if field.name not in given:
            raise fields.InvalidFieldsError([fields.Problem(where, "missing", "is required", _FIX)])
        values[field.attribute] = field.read(where, given[field.name])
    build: Callable[..., _D] = kind
    made = build(**values)
    if (fault := _fault(made)) is not None:
        raise fields.refuse(path or "the record", value, fault, _FIX)
    return made


def _read_optional(read: _Read, path: str, value: object) -> object:
    return None if value is None else read(path, value)


def _read_list(read: _Read, path: str, value: object) -> object:
    if not isinstance(value, list) or len(value) > LIST_MAX:
        raise fields.refuse(path, value, f"must be a list of at most {LIST_MAX}", _FIX)
    return tuple(read(f"{path}[{at}]", item) for at, item in enumerate(value))


def _fault(made: "DataclassInstance") -> str | None:
    if not _has_rules(type(made)):
        return None
    assert isinstance(made, _Checked)
    return made.fault()


@functools.cache
def _has_rules(kind: type) -> bool:
    return hasattr(kind, "fault")


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
