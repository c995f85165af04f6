"""Answers the user's shell when it completes a word, fast: people wait for it at each key.

The words of commands are in a file of the user's cache, which the first completion after an
installation, an update or an edit writes. So no command is loaded, and no library that reaches
bookies or stores. The file names the source files that it was made of, with their times. If one of
them is another one now, the file says nothing, and is made anew.

The names of zones and bookies are those that a command saw last (``last_seen``), and so are those
of logs, their cursors and candidates (``seen_logs``); no store is asked. Many logs are completed
part by part. For `zonekeeper local` they are those in the cluster's folder. A name that is new
since then can be typed as before. Whatever cannot be read gives no names, and is no error: an error
message would stand in the middle of the line that is typed.
"""

import contextlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from zonekeeper.metadata.formats import log_names
from zonekeeper.metadata.store.errors import BadStoreUriError
from zonekeeper.shell.completing import word_tree
from zonekeeper.shell.completing.word_tree import CursorPlace, Words
from zonekeeper.shell.reaching import last_seen, seen_logs
from zonekeeper.shell.reaching.last_seen import LastSeen
from zonekeeper.shell.runbooks import shelf
from zonekeeper.wire.running.page_identity import ProcessKind

#: The variable by which the shell's function asks for words, as click names it.
VARIABLE: Final = "_ZONEKEEPER_COMPLETE"
_ASKS: Final = "_complete"
_FORMAT: Final = 1
_OF_LOGS: Final = (
    *(word_tree.LOG, word_tree.LOG_NAMESPACE),
    *(word_tree.LOG_CURSOR, word_tree.LOG_CANDIDATE),
)
#: A file with more bytes is not read.
BYTES_MAX: Final = 4 << 20
#: More names of logs than so many are completed part by part, as files are by their folders.
LOGS_SHOWN: Final = 100


def is_asked(environment: Mapping[str, str]) -> bool:
    """Does a shell ask for words?"""
    return environment.get(VARIABLE, "").endswith(_ASKS)


def remembered(environment: Mapping[str, str]) -> Words | None:
    """Give the words of all commands; None: they must be learned anew."""
    try:
        with _path(environment).open("rb") as file:
            data = json.loads(file.read(BYTES_MAX + 1))
        match data:
            case {"format": 1, "python": sys.prefix, "files": dict(files), "words": words}:
                if files and all(Path(name).stat().st_mtime_ns == at for name, at in files.items()):
                    return word_tree.parse(words)
    except (OSError, ValueError, RecursionError, TypeError):
        return None
    return None


def remember(environment: Mapping[str, str], words: Words, sources: Iterable[Path]) -> None:
    """Write the words down, with the files that they were made of; what fails is left out."""
    path = _path(environment)
    with contextlib.suppress(OSError):
        files = {str(one): one.stat().st_mtime_ns for one in sorted(sources)}
        data = {
            "format": _FORMAT,
            "python": sys.prefix,
            "files": files,
            "words": word_tree.plain(words),
        }
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        last_seen.write_anew(path, json.dumps(data).encode())


def answer(
    words: Words, typed: Sequence[str], begun: str, environment: Mapping[str, str]
) -> tuple[list[str], bool]:
    """Give the words that fit; True: the shell is to add the names of files."""
    place, before = word_tree.find(words, typed), ""
    if begun == "=":  # bash takes `--output=` apart: the value begins behind it
        begun = ""
    option, equals, value = begun.partition("=")
    if equals and option in place.command.options:
        place = replace(place, kind=place.command.options[option])
        before, begun = f"{option}=", value
    names = _names(place, begun, environment)
    is_file = place.kind == word_tree.FILE and not begun.startswith("-")
    return [before + word for word in word_tree.fitting(place, begun, names)], is_file


def _names(place: CursorPlace, begun: str, environment: Mapping[str, str]) -> Sequence[str]:
    if place.kind == word_tree.RUNBOOK:
        return list(shelf.pages())
    if place.kind in _OF_LOGS:
        return _of_logs(place, begun, environment)
    if place.kind not in (word_tree.ZONE, word_tree.BOOKIE):
        return []
    wants_zones = place.kind == word_tree.ZONE
    if place.path[:1] == ("local",):
        return _local_names(place, environment, wants_zones=wants_zones)
    return _of_processes(place, environment, wants_zones=wants_zones)


def _of_processes(
    place: CursorPlace, environment: Mapping[str, str], *, wants_zones: bool
) -> list[str]:
    store = _store(place, environment)
    seen = None if store is None else last_seen.recall(last_seen.cache_folder(environment), store)
    if not isinstance(seen, LastSeen):
        return []
    if wants_zones:
        return [one.zone for one in seen.processes if one.zone is not None]
    return [one.name for one in seen.processes if one.kind is ProcessKind.BOOKIE]


def _of_logs(place: CursorPlace, begun: str, environment: Mapping[str, str]) -> Sequence[str]:
    store = _store(place, environment)
    if store is None:
        return []
    seen = seen_logs.recall(seen_logs.cache_folder(environment), store)
    if seen is None:
        return []
    if place.kind == word_tree.LOG_CURSOR:
        return seen.cursors(place.argument(word_tree.LOG) or "")
    if place.kind == word_tree.LOG_CANDIDATE:
        return seen.candidates(place.argument(word_tree.LOG) or "")
    if place.kind == word_tree.LOG:
        return word_tree.by_parts(seen.names, begun, LOGS_SHOWN)
    namespaces = {name.rpartition("/")[0] for name in seen.names} - {log_names.NO_NAMESPACE}
    return word_tree.by_parts(namespaces, begun, LOGS_SHOWN)


def _store(place: CursorPlace, environment: Mapping[str, str]) -> str | None:
    address = place.given.get("--metadata") or environment.get("ZONEKEEPER_METADATA", "")
    try:
        return last_seen.store_name(address)
    except BadStoreUriError:
        return None


def _local_names(
    place: CursorPlace, environment: Mapping[str, str], *, wants_zones: bool
) -> list[str]:
    """Give the bookies that have data in the folder of a local cluster, or their zones."""
    folder = place.given.get("--folder") or environment.get("ZONEKEEPER_LOCAL")
    home = Path(environment.get("HOME", "/nonexistent"))
    path = Path(folder) if folder else home / ".zonekeeper" / "local"
    try:
        bookies = sorted(one.name for one in (path / "bookies").iterdir())
    except OSError:
        return []
    return [_zone_of(name) for name in bookies] if wants_zones else bookies


def _zone_of(bookie: str) -> str:
    """Give the zone of a bookie of a local cluster, which its name has: ``bk-a-0``."""
    return bookie.partition("-")[2].rpartition("-")[0]


def _path(environment: Mapping[str, str]) -> Path:
    return last_seen.cache_folder(environment).parent / "words.json"
