"""The arrival segments that count, opened for reading: those that a start reads, unchanged."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from zonekeeper.bookie.disk.files import File, FileSystem
from zonekeeper.bookie.formats import arrival_scan
from zonekeeper.bookie.formats.arrival_scan import ChainLink, DamagedLogError
from zonekeeper.bookie.formats.batch_format import BatchHeader
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint
from zonekeeper.bookie.formats.log_end import LogEnd
from zonekeeper.bookie.segments import arrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """All files of arrival segments, and the generations past the mark, oldest first."""

    files: Mapping[str, File]
    links: Sequence[ChainLink]


def _refuse(error: DamagedLogError | OSError) -> None:
    raise error


@contextmanager
def opened(
    files: FileSystem,
    last: Checkpoint,
    known: LogEnd,
    damaged: Callable[[DamagedLogError | OSError], None] = _refuse,
) -> Iterator[Chain]:
    """Open the arrival segments; raises ``DamagedLogError`` or ``OSError`` like a start.

    ``known`` is the log's end as far as it is known to be on the disk. If ``damaged`` is given, it
    is called with each error instead. Then the segments that can still be read are given.
    """
    named: dict[str, File] = {}
    headers: dict[str, BatchHeader | None] = {}
    try:
        for name in files.names():
            if arrivals.number_of(name) is not None:
                try:
                    named[name] = files.open(name)
                    headers[name] = arrival_scan.first_header(named[name].read, last.log_id)
                except OSError as error:
                    damaged(error)
        heads = {name: header for name, header in headers.items() if header is not None}
        try:
            links = arrival_scan.chain(headers, last.mark, known)
        except DamagedLogError as error:
            damaged(error)
            links = _unchained(heads, last)
        chained = {link.generation for link in links}
        for name in sorted(set(headers) - set(heads)):
            try:
                arrival_scan.refuse_lost_generation(
                    named[name].read, last.log_id, name=name, known=chained, mark=last.mark
                )
            except (DamagedLogError, OSError) as error:
                damaged(error)
        yield Chain(files=named, links=links)
    finally:
        for file in named.values():
            file.close()


def _unchained(heads: Mapping[str, BatchHeader], last: Checkpoint) -> list[ChainLink]:
    """Give the generations past the mark, each without an end, as if it were the newest."""
    found = [
        ChainLink(name=name, generation=head.position.generation, before=head.before, last=None)
        for name, head in heads.items()
        if head.position.generation > last.mark.generation
    ]
    return sorted(found, key=lambda link: link.generation)
