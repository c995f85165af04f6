"""Every reader of stored bytes, with the writer that must give back what was read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from zonekeeper.metadata.bookies import bookie_records, held_collections, order_records
from zonekeeper.metadata.cluster import policy_store, restored, timeline, zone_store
from zonekeeper.metadata.cluster.record_store import Codec
from zonekeeper.metadata.formats import (
    cookies,
    ledger_format,
    log_record_format,
    placement_stamp,
    records,
    service_info,
    underreplication_format,
)
from zonekeeper.metadata.formats.malformed import MalformedError, UnsupportedError
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.ledgers import deletions
from zonekeeper.metadata.logs import log_candidate, log_cursor
from zonekeeper.metadata.saving import export_format
from zonekeeper.metadata.saving.export_format import (
    ExportFooter,
    ExportHeader,
    ExportNode,
    ExportWriter,
)
from zonekeeper.metadata.store import layout

INSTANCE: Final = "d58c3de9-d9c6-429e-be20-474dcad4d089"

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Parser:
    """Bytes in, a value out, and back."""

    read: Callable[[bytes], object]
    rewrite: Callable[[bytes], bytes]


def _pair(read: Callable[[bytes], object], render: Callable[..., bytes]) -> Parser:
    return Parser(read, lambda raw: render(read(raw)))


def _record(codec: Codec[Value]) -> Parser:
    def read(raw: bytes) -> Value:
        return codec.parse(records.parse(raw, INSTANCE))

    return Parser(read, lambda raw: records.render(codec.render(read(raw)), INSTANCE))


def _read_export(raw: bytes) -> list[ExportHeader | ExportNode | ExportFooter]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return list(export_format.read(text.splitlines(keepends=True)))


def _write_export(parts: list[ExportHeader | ExportNode | ExportFooter]) -> bytes:
    writer, lines = ExportWriter(), []
    for part in parts:
        match part:
            case ExportHeader():
                lines.append(writer.header(part))
            case ExportNode():
                lines.append(writer.node(part))
            case ExportFooter():
                lines.append(writer.footer())
    return "".join(lines).encode()


PARSERS: Final[Mapping[str, Parser]] = {
    "ledger": _pair(ledger_format.parse, ledger_format.render),
    "cookie": _pair(cookies.parse, cookies.render),
    "service-info": _pair(service_info.parse, service_info.render),
    "mark": _pair(underreplication_format.parse, underreplication_format.render),
    "holder": _pair(underreplication_format.parse_holder, underreplication_format.render_holder),
    "time": _pair(underreplication_format.parse_time, underreplication_format.render_time),
    "layout": Parser(layout.parse_layout, lambda raw: raw),
    "instance": _pair(layout.parse_instance_id, lambda text: text.encode()),
    "record": _pair(
        lambda raw: records.parse(raw, INSTANCE), lambda d: records.render(d, INSTANCE)
    ),
    "event": _pair(
        lambda raw: timeline.parse(raw, INSTANCE), lambda event: timeline.render(event, INSTANCE)
    ),
    "restored": _pair(
        lambda raw: restored.parse(raw, INSTANCE), lambda mark: restored.render(mark, INSTANCE)
    ),
    "accepted": _record(restored.ACCEPTED),
    "collection": _record(held_collections.CODEC),
    "deletion": _pair(
        lambda raw: deletions.parse(raw, INSTANCE), lambda one: deletions.render(one, INSTANCE)
    ),
    "bookie-record": _record(bookie_records.CODEC),
    "order": _record(order_records.CODEC),
    "log": _pair(
        lambda raw: log_record_format.parse(raw, INSTANCE),
        lambda record: log_record_format.render(record, INSTANCE),
    ),
    "log-page": _pair(
        lambda raw: log_record_format.parse_page(raw, INSTANCE),
        lambda page: log_record_format.render_page(page, INSTANCE),
    ),
    "log-cursor": _pair(
        lambda raw: log_cursor.parse(raw, INSTANCE),
        lambda mark: log_cursor.render(mark, INSTANCE),
    ),
    "log-candidate": _pair(
        lambda raw: log_candidate.parse(raw, INSTANCE),
        lambda mark: log_candidate.render(mark, INSTANCE),
    ),
    "log-handover": _pair(
        lambda raw: log_candidate.parse_handover(raw, INSTANCE),
        lambda mark: log_candidate.render_handover(mark, INSTANCE),
    ),
    "policy": _record(policy_store.CODEC),
    "maintenance": _record(zone_store.MAINTENANCE),
    "stamp": Parser(placement_stamp.parse, lambda raw: raw),
    "export": _pair(_read_export, _write_export),
}


def outcome(parser: Parser, raw: bytes) -> str:
    """Say how reading ends: ``OK``, ``UNSUPPORTED``, ``FOREIGN``, or the flaw's name.

    Anything else that is raised is a bug, and goes on.
    """
    try:
        value = parser.read(raw)
    except MalformedError as error:
        return error.flaw.name
    except UnsupportedError:
        return "UNSUPPORTED"
    except ForeignRecordError:
        return "FOREIGN"
    again = parser.rewrite(raw)
    assert parser.read(again) == value, "what was read is not what is written back"
    assert parser.rewrite(again) == again, "writing is not stable"
    return "OK"
