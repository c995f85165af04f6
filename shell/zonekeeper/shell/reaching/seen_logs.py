"""The logs of a cluster as commands saw them last: a small file in the user's cache.

It serves completion, which asks no store. There is one file for each metadata address::

    $XDG_CACHE_HOME/zonekeeper/logs/<digest of the address>.json

    {"format":1, "instance":"…", "store":"zk://…",
     "logs":[{"name":"orders/eu-1", "cursors":["billing"], "candidates":["host-1"]}, …]}

The logs used last come first. A log without known candidates has no such field.
A cluster may have 100,000 logs, and the file has ``LOGS_MAX`` of them at most. So a name that is
not in the file may exist all the same. As with ``last_seen`` the file is a record, is replaced in
one step, and is readable by its owner alone. A file that is missing, damaged, too large, or of
another address or instance says nothing, and is no error. Nothing else may rely on it.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from zonekeeper.metadata.formats import log_names, records
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnreadableError
from zonekeeper.metadata.logs import log_candidate, log_cursor
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.shell.reaching import last_seen

#: The file has at most so many logs: those that were used last.
LOGS_MAX: Final = 1_000
#: The file has at most so many cursors of a log, and so many candidates.
CURSORS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLog:
    """A log that a command saw, and its cursors and candidates as far as one saw them."""

    name: str
    cursors: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLogs:
    """What was seen of the logs of one cluster."""

    #: The metadata address, without options.
    store: str
    #: The instance of the cluster.
    instance: str
    #: Each of them once; the ones used last come first.
    logs: tuple[KnownLog, ...] = ()

    @property
    def names(self) -> list[str]:
        """Give the names of all."""
        return [one.name for one in self.logs]

    def cursors(self, name: str) -> Sequence[str]:
        """Give the known cursors of a log."""
        return self._of(name).cursors

    def candidates(self, name: str) -> Sequence[str]:
        """Give the known candidates of a log."""
        return self._of(name).candidates

    def _of(self, name: str) -> KnownLog:
        return next((one for one in self.logs if one.name == name), KnownLog(name=name))


# ── the format ──


def render(seen: SeenLogs) -> bytes:
    """Give the bytes of the file."""
    logs: list[Plain] = [
        {
            "name": one.name,
            "cursors": [*one.cursors],
            **({"candidates": [*one.candidates]} if one.candidates else {}),
        }
        for one in seen.logs
    ]
    data: dict[str, Plain] = {"store": seen.store, "logs": logs}
    return records.render(data, seen.instance)


def parse(raw: bytes, store: str) -> SeenLogs:
    """Read the bytes of the file; raises ``UnreadableError``. What can be no name is left out."""
    if len(raw) > last_seen.BYTES_MAX:
        raise MalformedError(Flaw.TOO_LARGE, f"it has more than {last_seen.BYTES_MAX} bytes")
    instance = records.text(records.parse_object(raw), "instance")
    data = records.parse(raw, instance)
    entries = data.get("logs")
    if records.text(data, "store") != store or not isinstance(entries, list):
        raise MalformedError(Flaw.WRONG_TYPE, "it has no logs of this store")
    found = dict[str, KnownLog]()
    for entry in entries[:LOGS_MAX]:
        if isinstance(entry, dict) and (one := _log(entry)) is not None:
            found.setdefault(one.name, one)
    return SeenLogs(store=store, instance=instance, logs=tuple(found.values()))


def _log(data: Mapping[str, Plain]) -> KnownLog | None:
    name = data.get("name")
    if not isinstance(name, str) or not _fits(log_names.check, name):
        return None
    return KnownLog(
        name=name,
        cursors=_names(data.get("cursors"), log_cursor.check_name),
        candidates=_names(data.get("candidates"), log_candidate.check_name),
    )


def _names(given: Plain, check: Callable[[str], None]) -> tuple[str, ...]:
    names = given if isinstance(given, list) else ()
    known = [one for one in names if isinstance(one, str) and _fits(check, one)]
    return tuple(known[:CURSORS_MAX])


def _fits(check: Callable[[str], None], name: str) -> bool:
    try:
        check(name)
    except Refusal:
        return False
    return True


# ── what is remembered ──


def used(
    seen: SeenLogs,
    name: str,
    cursors: Collection[str] | None = None,
    candidates: Collection[str] | None = None,
) -> SeenLogs:
    """Note that a log was used.

    ``cursors`` and ``candidates`` are all that it has; None: they were not looked at.

    A log of the newer half stays where it is, so that a program that uses a few logs again and
    again does not write the file each time.
    """
    old = next((one for one in seen.logs if one.name == name), KnownLog(name=name))
    new = old
    if cursors is not None:
        new = replace(new, cursors=tuple(sorted(cursors)[:CURSORS_MAX]))
    if candidates is not None:
        new = replace(new, candidates=tuple(sorted(candidates)[:CURSORS_MAX]))
    if name in seen.names[: LOGS_MAX // 2]:
        return replace(seen, logs=tuple(new if one is old else one for one in seen.logs))
    others = [one for one in seen.logs if one is not old]
    return replace(seen, logs=(new, *others)[:LOGS_MAX])


def gone(seen: SeenLogs, names: Collection[str]) -> SeenLogs:
    """Note that logs are not there any more."""
    return replace(seen, logs=tuple(one for one in seen.logs if one.name not in names))


def listed(seen: SeenLogs, names: Sequence[str]) -> SeenLogs:
    """Note logs of a listing behind those that were used: they push none of them out."""
    known = {*seen.names}
    new = [KnownLog(name=name) for name in names if name not in known]
    return replace(seen, logs=(*seen.logs, *new)[:LOGS_MAX])


# ── the file ──


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Give the folder of the files; it may not exist."""
    return last_seen.cache_folder(environment).parent / "logs"


def recall(folder: Path, store: str) -> SeenLogs | None:
    """Give what is remembered of the logs at ``store`` (``last_seen.store_name``)."""
    try:
        with last_seen.file_of(folder, store).open("rb") as file:
            return parse(file.read(last_seen.BYTES_MAX + 1), store)
    except (OSError, UnreadableError):
        return None


def change(
    folder: Path, store: str, instance: str, changed: Callable[[SeenLogs], SeenLogs]
) -> None:
    """Change what is remembered, if that changes anything; what cannot be written is left out.

    Two commands may do so at the same time: the later one stands.
    """
    before = recall(folder, store)
    if before is None or before.instance != instance:  # the root was wiped, and made again
        before = SeenLogs(store=store, instance=instance)
    after = changed(before)
    if after == before:
        return
    raw = render(after)
    while len(raw) > last_seen.BYTES_MAX and after.logs:  # the names are long: the older half goes
        after = replace(after, logs=after.logs[: len(after.logs) // 2])
        raw = render(after)
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        last_seen.write_anew(last_seen.file_of(folder, store), raw)
        last_seen.tidy(folder)
