"""The processes of a cluster as a command saw them last: a small file in the user's cache.

While the metadata store is away, nothing says where the processes are. So each command that reads
the store notes where the processes serve their pages, one file for each metadata address::

    $XDG_CACHE_HOME/zonekeeper/endpoints/<digest of the address>.json

    {"format":1, "instance":"…", "store":"zk://…", "seenMs":…,
     "processes":[{"kind":"bookie", "name":"bk-a-0", "zone":"a", "upgradeDomain":"ud-0",
                   "http":"host:port", "address":"host:port", "seenMs":…}, …]}

The file is a record as the store has them (``records``), so keys that a reader does not know are
ignored. It is replaced in one step, and only its owner can read it. Two commands may write at the
same time: the later one stands. A file that is missing, damaged, too large or of another address
says nothing, and is no error. The file is a help for people: nothing else may rely on it.

A process that is gone from the store stays in the file for ``KEPT_MS``. It may be away for the same
reason for which the store goes away next, and then a person wants to look at it.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from zonekeeper.metadata.formats import cookies, records
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnreadableError
from zonekeeper.metadata.store.errors import BadStoreUriError
from zonekeeper.metadata.stores import uri
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.wire.formats import addresses
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running.page_identity import ProcessKind

#: A file with more bytes is not read, and none is written.
BYTES_MAX: Final = 512 << 10
#: A file remembers at most so many processes: those that were seen last.
PROCESSES_MAX: Final = 1_000
#: The folder has at most so many files: those that were written last.
FILES_MAX: Final = 32
#: A file that says the same is written again when it is older than this.
FRESH_MS: Final = 60_000
#: A process that the store does not show any more is remembered for this long.
KEPT_MS: Final = 7 * 24 * 3_600_000
#: The year 10,000: a later time is none that a command wrote, and has no date.
WALL_MS_END: Final = 253_402_300_800_000

_TEXT_CHARS_MAX: Final = 300
_PARTS_OLD_S: Final = 3_600
_SUFFIX: Final = ".json"
_PART: Final = ".part"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownProcess:
    """A process of a cluster, and where it is; None: unknown."""

    kind: ProcessKind
    name: BookieId
    zone: ZoneName | None
    upgrade_domain: UpgradeDomain | None
    #: Where it serves its pages; None: it serves none.
    http: Address | None
    #: The pages are by certificate, over TLS.
    http_tls: bool = False
    #: Where a bookie serves clients: ``host:port``.
    address: str | None
    #: When the store showed it last, as wall time.
    seen_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSeen:
    """What was seen of one cluster."""

    #: The metadata address, without options.
    store: str
    #: The instance of the cluster.
    instance: str
    #: When the store was read, as wall time.
    seen_ms: int
    #: Sorted by kind and name, each of them once.
    processes: tuple[KnownProcess, ...]


@dataclass(frozen=True, slots=True)
class NothingSeen:
    """Nothing is remembered of a cluster, and why."""

    why: str


# ── the format ──


def store_name(address: str) -> str:
    """Give a metadata address without its options; raises ``BadStoreUriError``."""
    match uri.parse(address):
        case uri.SqliteAddress(path=path, root=root):
            return f"sqlite://{path}?root={root}"
        case uri.MemoryAddress():
            raise BadStoreUriError("a store in memory is of one process, and is not remembered")
        case uri.ZooKeeperAddress() as servers:
            return str(servers)


def render(seen: LastSeen) -> bytes:
    """Give the bytes of the file."""
    data: dict[str, Plain] = {
        "store": seen.store,
        "seenMs": seen.seen_ms,
        "processes": [plain(one) for one in seen.processes],
    }
    return records.render(data, seen.instance)


def plain(one: KnownProcess) -> dict[str, Plain]:
    """Give a process as plain data."""
    return {
        "kind": one.kind.value,
        "name": one.name,
        "zone": one.zone,
        "upgradeDomain": one.upgrade_domain,
        "http": None if one.http is None else str(one.http),
        **({"httpTls": True} if one.http_tls else {}),
        "address": one.address,
        "seenMs": one.seen_ms,
    }


def parse(raw: bytes, store: str) -> LastSeen:
    """Read the bytes of the file; raises ``UnreadableError``.

    A process of a kind that this program does not know, or that makes no sense, is left out.
    """
    if len(raw) > BYTES_MAX:
        raise MalformedError(Flaw.TOO_LARGE, f"it has more than {BYTES_MAX} bytes")
    data = records.parse_object(raw)
    instance = records.text(data, "instance")
    data = records.parse(raw, instance)
    if (theirs := records.text(data, "store")) != store:
        raise MalformedError(Flaw.WRONG_TYPE, f"it is of {theirs[:_TEXT_CHARS_MAX]}")
    entries = data.get("processes")
    if not isinstance(entries, list):
        raise MalformedError(Flaw.WRONG_TYPE, "processes must be a list")
    found = {}
    for entry in entries[:PROCESSES_MAX]:
        if isinstance(entry, dict) and (one := _process(entry)) is not None:
            found[one.kind, one.name] = one
    processes = tuple(found[key] for key in sorted(found))
    seen_ms = records.number(data, "seenMs")
    if seen_ms >= WALL_MS_END:
        raise MalformedError(Flaw.BAD_NUMBER, "seenMs is no time")
    return LastSeen(store=store, instance=instance, seen_ms=seen_ms, processes=processes)


def _process(data: Mapping[str, Plain]) -> KnownProcess | None:
    kind, name, seen_ms = data.get("kind"), _text(data, "name"), data.get("seenMs")
    if kind not in tuple(ProcessKind) or name is None or not cookies.is_bookie_id(name):
        return None
    if type(seen_ms) is not int or not 0 <= seen_ms < WALL_MS_END:
        return None
    zone, domain, http = _text(data, "zone"), _text(data, "upgradeDomain"), _text(data, "http")
    return KnownProcess(
        kind=ProcessKind(kind),
        name=BookieId(name),
        zone=None if zone is None else ZoneName(zone),
        upgrade_domain=None if domain is None else UpgradeDomain(domain),
        http=None if http is None else endpoint(http),
        http_tls=data.get("httpTls") is True,
        address=_text(data, "address"),
        seen_ms=seen_ms,
    )


def _text(data: Mapping[str, Plain], key: str) -> str | None:
    text = data.get(key)
    if not isinstance(text, str) or not text.isprintable() or len(text) > _TEXT_CHARS_MAX:
        return None
    return text or None


def endpoint(text: str) -> Address | None:
    """Read where pages are served; None: no process can be reached there."""
    try:
        found = addresses.parse(text)
        addresses.host(found.host)
    except ValueError:
        return None
    return found if found.port and found.host.isprintable() else None


# ── what is remembered ──


def merged(
    old: LastSeen | NothingSeen, new: LastSeen, known: Collection[BookieId] | None = None
) -> LastSeen:
    """Add to a new sight what an old one has besides.

    ``known``: the bookies that the cluster knows; others are removed. None: it was not read.
    """
    found = {(one.kind, one.name): one for one in new.processes}
    if isinstance(old, LastSeen) and (old.store, old.instance) == (new.store, new.instance):
        for one in old.processes:
            removed = one.kind is ProcessKind.BOOKIE and known is not None and one.name not in known
            if not removed and 0 <= new.seen_ms - one.seen_ms <= KEPT_MS:
                found.setdefault((one.kind, one.name), one)
    newest = sorted(found.values(), key=lambda one: (-one.seen_ms, one.kind, one.name))
    kept = sorted(newest[:PROCESSES_MAX], key=lambda one: (one.kind, one.name))
    return replace(new, processes=tuple(kept))


def is_due(old: LastSeen | NothingSeen, new: LastSeen) -> bool:
    """Say whether the file must be written: it says something else, or is a minute old."""
    if not isinstance(old, LastSeen) or not 0 <= new.seen_ms - old.seen_ms < FRESH_MS:
        return True
    return _timeless(old) != _timeless(new)


def _timeless(seen: LastSeen) -> tuple[object, ...]:
    return (seen.instance, *(replace(one, seen_ms=0) for one in seen.processes))


# ── the file ──


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Give the folder of the files; it may not exist."""
    base = Path(environment.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the rule of XDG: a relative path is ignored
        base = Path(environment.get("HOME", "/nonexistent")) / ".cache"
    return base / "zonekeeper" / "endpoints"


def recall(folder: Path, store: str) -> LastSeen | NothingSeen:
    """Give what is remembered of the cluster at ``store`` (``store_name``)."""
    path = file_of(folder, store)
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
        return parse(raw, store)
    except FileNotFoundError:
        return NothingSeen("no command of this user has seen this cluster")
    except OSError as error:
        return NothingSeen(f"{path}: {error.strerror or error}")
    except UnreadableError as error:
        return NothingSeen(f"{path} cannot be used, and is written anew: {error}")


def remember(folder: Path, seen: LastSeen, known: Collection[BookieId] | None = None) -> str | None:
    """Note what was seen, if that is due; give the reason why it could not be noted.

    ``known`` is that of ``merged``.
    """
    old = recall(folder, seen.store)
    whole = merged(old, seen, known)
    if not is_due(old, whole):
        return None
    raw = render(whole)
    while len(raw) > BYTES_MAX and whole.processes:  # the names are long: the oldest go
        newest = sorted(whole.processes, key=lambda one: (-one.seen_ms, one.kind, one.name))
        kept = sorted(newest[: len(newest) // 2], key=lambda one: (one.kind, one.name))
        whole = replace(whole, processes=tuple(kept))
        raw = render(whole)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_anew(file_of(folder, seen.store), raw)
        tidy(folder)
    except OSError as error:
        return f"{folder}: {error.strerror or error}"
    return None


def forget(folder: Path, store: str) -> bool:
    """Remove what is remembered of a cluster; False: nothing was. Raises ``OSError``."""
    try:
        file_of(folder, store).unlink()
    except FileNotFoundError:
        return False
    return True


def file_of(folder: Path, store: str) -> Path:
    """Give the file of one cluster in a folder of them."""
    return folder / f"{hashlib.sha256(store.encode()).hexdigest()[:32]}{_SUFFIX}"


def write_anew(path: Path, raw: bytes) -> None:
    """Write a file in one step, which only its owner can read; raises ``OSError``."""
    # The name of the part is of this call alone, and only its owner can read it (mkstemp).
    number, part = tempfile.mkstemp(prefix=path.name, suffix=_PART, dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(raw)
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def tidy(folder: Path) -> None:
    """Remove the files that were written first, and parts that killed commands left."""
    files = sorted(_dated(folder, _SUFFIX), reverse=True)
    newest_s = files[0][0] if files else 0.0
    old = [path for written_s, path in _dated(folder, _PART) if written_s < newest_s - _PARTS_OLD_S]
    for path in [*(path for _, path in files[FILES_MAX:]), *old]:
        path.unlink(missing_ok=True)


def _dated(folder: Path, suffix: str) -> Iterator[tuple[float, Path]]:
    for path in folder.iterdir():
        if path.name.endswith(suffix):
            with contextlib.suppress(FileNotFoundError):  # another command was faster
                yield path.stat().st_mtime, path
