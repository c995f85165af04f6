"""The state of a stopped bookie, in short."""

from collections.abc import Mapping
from dataclasses import dataclass

from zonekeeper.bookie.disk.files import Space
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint
from zonekeeper.bookie.life.data_folder import HeldFolders
from zonekeeper.bookie.tools import contents as all_of
from zonekeeper.bookie.tools import folders
from zonekeeper.bookie.tools.contents import Contents
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.placement.base import units


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderState:
    """The state of a bookie's folders."""

    cookie: Cookie
    #: The start number in the metadata store; None: the store was not asked.
    boot_epoch: int | None
    contents: Contents
    ledgers: int
    entries: int
    sorted_bytes: int
    #: The number of arrival segments that wait for the rewrite.
    backlog_segments: int
    #: Their bytes.
    backlog_bytes: int
    #: By folder; the data folder is "".
    spaces: Mapping[str, Space]


def look(
    held: HeldFolders, cookie: Cookie, contents: Contents, boot_epoch: int | None
) -> FolderState:
    """Gather the state."""
    counts = [each.entries for each in all_of.ledgers(contents)]
    waiting = [each for each in contents.arrivals if each.generation is not None]
    return FolderState(
        cookie=cookie,
        boot_epoch=boot_epoch,
        contents=contents,
        ledgers=len(counts),
        entries=sum(counts),
        sorted_bytes=sum(
            _size(held, contents.checkpoint, each) for each in contents.checkpoint.sorted_numbers
        ),
        backlog_segments=len(waiting),
        backlog_bytes=sum(each.used_bytes for each in waiting),
        spaces={folder or "": files.space() for folder, files in held.folders.items()},
    )


def plain(state: FolderState) -> dict[str, object]:
    """Give the state as plain data."""
    cookie, contents = state.cookie, state.contents
    return {
        "bookie": cookie.bookie,
        "instance": cookie.instance,
        "location": None if cookie.location is None else str(cookie.location),
        "bootEpoch": state.boot_epoch,
        "readOnly": contents.memory.read_only,
        "ledgers": state.ledgers,
        "entries": state.entries,
        "mark": list(contents.checkpoint.mark),
        "end": list(contents.end),
        "sortedSegments": list(contents.checkpoint.sorted_numbers),
        "sortedBytes": state.sorted_bytes,
        "arrivalSegments": [
            {
                "name": each.name,
                "generation": each.generation,
                "usedBytes": each.used_bytes,
                "sizeBytes": each.size_bytes,
            }
            for each in contents.arrivals
        ],
        "backlog": {"segments": state.backlog_segments, "bytes": state.backlog_bytes},
        "space": {
            folder or "data": {"totalBytes": space.total_bytes, "freeBytes": space.free_bytes}
            for folder, space in state.spaces.items()
        },
    }


def text(state: FolderState) -> str:
    """Give the state as lines for a person."""
    cookie, contents = state.cookie, state.contents
    epoch = "not asked (--metadata)" if state.boot_epoch is None else state.boot_epoch
    mode = "read-only by a person's order" if contents.memory.read_only else "writable"
    numbers = contents.checkpoint.sorted_numbers
    lines = [
        f"bookie:   {cookie.bookie} at {cookie.location or 'an unknown location'}, {mode}",
        f"cluster:  {cookie.instance}",
        f"boots:    {epoch}",
        f"ledgers:  {state.ledgers}, with {state.entries} entries",
        f"marks:    sorted up to batch {_position(contents.checkpoint.mark)}, "
        f"the log ends at batch {_position(contents.end)}",
        f"sorted:   {len(numbers)} segments, {_size_text(state.sorted_bytes)}",
        f"arrival:  {len(contents.arrivals)} segments",
        *(
            f"  {each.name}: "
            + (
                "free"
                if each.generation is None
                else f"generation {each.generation}, {_size_text(each.used_bytes)}"
            )
            for each in contents.arrivals
        ),
        f"backlog:  {state.backlog_segments} segments wait to be sorted, "
        f"{_size_text(state.backlog_bytes)}",
        *(
            f"disk:     {_size_text(space.free_bytes)} free of {_size_text(space.total_bytes)}"
            + (f" at {folder}" if folder else "")
            for folder, space in state.spaces.items()
        ),
    ]
    return "\n".join(lines)


def _position(position: tuple[int, int]) -> str:
    return f"{position[0]}/{position[1]}"


def _size(held: HeldFolders, last: Checkpoint, number: int) -> int:
    file = folders.open_sorted(held, last, number)
    try:
        return file.size()
    finally:
        file.close()


def _size_text(size_bytes: int) -> str:
    for unit, worth in (("GiB", units.GIB), ("MiB", units.MIB), ("KiB", units.KIB)):
        if size_bytes >= worth:
            return f"{size_bytes / worth:.1f} {unit}"
    return f"{size_bytes} bytes"
