"""The arrival segments that count, opened to be read: what a start reads, and nothing changed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from zonekeeper.bookie.files import File, FileSystem
from zonekeeper.bookie.segments import arrival_scan, arrivals
from zonekeeper.bookie.segments.arrival_scan import Link
from zonekeeper.bookie.segments.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """All files of arrival segments, and the generations past the mark, oldest first."""

    files: Mapping[str, File]
    links: Sequence[Link]


@contextmanager
def opened(files: FileSystem, last: Checkpoint) -> Iterator[Chain]:
    """Open the arrival segments; raises ``DamagedLogError`` where a start would."""
    named: dict[str, File] = {}
    try:
        for name in files.names():
            if arrivals.number_of(name) is not None:
                named[name] = files.open(name)
        headers = {n: arrival_scan.first_header(f.read, last.log_id) for n, f in named.items()}
        heads = {name: header for name, header in headers.items() if header is not None}
        links = arrival_scan.chain(heads, last.mark)
        known = {link.generation for link in links}
        for name in sorted(set(named) - set(heads)):
            arrival_scan.refuse_lost_generation(
                named[name].read, last.log_id, name=name, known=known, mark=last.mark
            )
        yield Chain(files=named, links=links)
    finally:
        for file in named.values():
            file.close()
