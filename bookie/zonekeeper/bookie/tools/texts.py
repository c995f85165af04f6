"""Ledgers and the parts of segments, as lines for a person and as plain data."""

import dataclasses
from collections.abc import Iterator
from typing import assert_never

from zonekeeper.bookie.ledgers import records
from zonekeeper.bookie.tools import segments
from zonekeeper.bookie.tools.contents import LedgerSummary
from zonekeeper.bookie.tools.segments import Part
from zonekeeper.wire.formats import entries
from zonekeeper.wire.formats.frames import Frame

LEDGER_HEAD = f"{'ledger':>19} {'entries':>12} {'first':>12} {'last':>12} {'lac':>12} gaps flags"


def ledger(summary: LedgerSummary) -> str:
    """Give a ledger's line."""
    state = summary.state
    flags = [
        *(["fenced"] if state.fenced else []),
        *(["limbo"] if state.in_limbo else []),
        f"{len(state.fragments)} fragments",
    ]
    first = "-" if summary.first is None else str(summary.first)
    last = "-" if summary.last is None else str(summary.last)
    gaps = max(0, summary.runs - 1)
    return (
        f"{summary.ledger_id:>19} {summary.entries:>12} {first:>12} {last:>12} "
        f"{summary.lac:>12} {gaps:>4} {', '.join(flags)}"
    )


def ledger_plain(summary: LedgerSummary) -> dict[str, object]:
    """Give a ledger as plain data; without its master key."""
    state = summary.state
    return {
        "ledger": summary.ledger_id,
        "entries": summary.entries,
        "firstEntry": summary.first,
        "lastEntry": summary.last,
        "runs": summary.runs,
        "lac": summary.lac,
        "fenced": state.fenced,
        "limbo": state.in_limbo,
        "digest": None if state.digest is None else state.digest.value,
        "fragments": [
            {"firstEntry": opening.first_entry_id, "ensemble": list(opening.ensemble)}
            for opening in state.fragments
        ],
    }


def part(seen: Part, *, with_entries: bool) -> Iterator[str]:
    """Give the lines of a part of a segment."""
    match seen:
        case segments.BatchSeen(offset=offset, header=header):
            yield (
                f"{offset:>10} batch {header.position.generation}/{header.position.sequence}: "
                f"{header.size} bytes, {header.records} records, synced up to "
                f"{header.known_synced}"
            )
        case segments.FrameSeen(offset=offset, frame=frame):
            checked = "digests checked" if seen.digests_checked else "digests not checked"
            yield (
                f"{offset:>10}   frame: ledger {frame.ledger_id}, {len(frame)} entries "
                f"{frame.first} to {frame.last}, {frame.size_bytes} bytes, {checked}"
            )
            if with_entries:
                yield from map(_entry_text, _entries(frame))
        case segments.StateSeen(record=record):
            yield f"{'':>10}   {_record(record)}"
        case segments.TableSeen(offset=offset, rows=rows):
            yield f"{offset:>10} table: {rows} rows"
        case segments.Damage(offset=offset, problem=problem):
            yield f"{offset:>10} DAMAGED: {problem}"
        case segments.Rest(offset=offset, size=size, what=what):
            yield f"{offset:>10} rest: {size} bytes, {what}"
        case _:
            assert_never(seen)


def part_plain(seen: Part, *, with_entries: bool) -> dict[str, object]:
    """Give a part of a segment as plain data."""
    match seen:
        case segments.BatchSeen(offset=offset, header=header):
            return {
                "part": "batch",
                "offset": offset,
                "size": header.size,
                "generation": header.position.generation,
                "sequence": header.position.sequence,
                "knownSynced": header.known_synced,
                "before": list(header.before),
                "records": header.records,
            }
        case segments.FrameSeen(offset=offset, frame=frame):
            listed = {"entries": list(_entries(frame))} if with_entries else {}
            return {
                "part": "frame",
                "offset": offset,
                "size": frame.size_bytes,
                "ledger": frame.ledger_id,
                "firstEntry": frame.first,
                "lastEntry": frame.last,
                "count": len(frame),
                "digestsChecked": seen.digests_checked,
                **listed,
            }
        case segments.StateSeen(record=record):
            return {"part": "record", "record": _record(record)}
        case segments.TableSeen(offset=offset, rows=rows):
            return {"part": "table", "offset": offset, "rows": rows}
        case segments.Damage(offset=offset, problem=problem):
            return {"part": "damage", "offset": offset, "problem": problem}
        case segments.Rest(offset=offset, size=size, what=what):
            return {"part": "rest", "offset": offset, "size": size, "what": what}
        case _:
            assert_never(seen)


def _entries(frame: Frame) -> Iterator[dict[str, int]]:
    for entry_id, packet in frame:
        header = entries.header(packet)
        yield {
            "entry": entry_id,
            "bytes": len(packet),
            "lac": header.last_add_confirmed,
            "length": header.length,
        }


def _entry_text(entry: dict[str, int]) -> str:
    return (
        f"{'':>10}     entry {entry['entry']}: packet of {entry['bytes']} bytes, "
        f"LAC {entry['lac']}, ledger's length {entry['length']}"
    )


def _record(record: records.Record) -> str:
    """Give the text of a record, without its master key and its packet."""
    if isinstance(record, records.FragmentRecord):
        opening = record.opening
        return (
            f"fragment: ledger {opening.ledger_id} from entry {opening.first_entry_id} on "
            f"{', '.join(opening.ensemble)}, {opening.quorums}, {opening.digest.value}"
        )
    said = ", ".join(
        f"{field.name} {getattr(record, field.name)}"
        for field in dataclasses.fields(record)
        if field.name not in ("master_key", "packet")
    )
    return f"{type(record).__name__.removesuffix('Record').lower()}: {said}"
