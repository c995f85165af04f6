"""What a process showed over HTTP, judged: is it the process that is meant, and is it ready?

An endpoint may belong to another process by now: a port was given to another bookie, or a pod of
another cluster has the address. So a page counts only if it names the process and the cluster that
are meant. Otherwise the sight is a ``Mistaken`` one, which says what is there instead. A page of an
older version does not name its cluster; its name and kind then decide.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeAlias

from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.shell.reaching.last_seen import KnownProcess
from zonekeeper.wire.running import page_identity
from zonekeeper.wire.running.page_identity import ProcessIdentity, ProcessKind

#: At most so many lines of ``/readyz`` are kept, each with so many characters.
REASONS_MAX: Final = 16
REASON_CHARS_MAX: Final = 300
#: Of a text of ``/state`` so many characters are kept.
TEXT_CHARS_MAX: Final = 1_000
#: What stands deeper in ``/state`` is left out: no page of ours has so many levels.
LEVELS_MAX: Final = 16
#: What a process whose pages are by certificate answers to a caller that may not look, or not yet.
_NOT_SHOWN: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.SERVICE_UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page as it came: its status and its text."""

    status: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """The process that is meant has answered."""

    process: KnownProcess
    identity: ProcessIdentity
    ready: bool
    #: Why it is not ready; if it is ready, what it remarks.
    reasons: tuple[str, ...]
    #: Its ``/state``, as it shows it; its texts have only characters that can be printed.
    state: Mapping[str, Plain]
    #: Its ``/metrics``; None: not asked for, or not given.
    metrics: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """No process has answered there, or none with our pages; ``why`` is for people."""

    process: KnownProcess
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistaken:
    """Another process than the one that is meant has answered there."""

    process: KnownProcess
    #: Which process it is; None: it does not say.
    identity: ProcessIdentity | None
    why: str


HttpSight: TypeAlias = Answering | Silent | Mistaken


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The pages that an endpoint gave; None: it did not give that one."""

    state: FetchedPage | None
    ready: FetchedPage | None
    metrics: FetchedPage | None = None
    #: Why a page is missing.
    trouble: str = ""


def judge(process: KnownProcess, instance: str | None, pages: Pages) -> HttpSight:
    """Judge the pages of an endpoint; ``instance`` is that of the cluster that is meant."""
    if why_silent := _why_silent(process, pages):
        return Silent(process=process, why=why_silent)
    state = _state(pages.state)
    if state is None:
        why = "what answers there shows no /state page of zonekeeper"
        return Mistaken(process=process, identity=None, why=why)
    identity = page_identity.of_state(state)
    if identity is None:
        why = "what answers there does not say which process it is"
        return Mistaken(process=process, identity=None, why=why)
    if (identity.kind, identity.name) != (process.kind, process.name):
        why = f"{_named(identity)} answers there now"
        return Mistaken(process=process, identity=identity, why=why)
    if None not in (instance, identity.instance) and identity.instance != instance:
        why = f"{_named(identity)} of another cluster ({identity.instance}) answers there now"
        return Mistaken(process=process, identity=identity, why=why)
    ready, reasons = _readiness(pages.ready)
    metrics = pages.metrics
    return Answering(
        process=process,
        identity=identity,
        ready=ready,
        reasons=reasons,
        state={name: _cleaned(value, LEVELS_MAX) for name, value in state.items()},
        metrics=metrics.text if metrics is not None and metrics.status == HTTPStatus.OK else None,
    )


def _why_silent(process: KnownProcess, pages: Pages) -> str:
    """Say why a process shows nothing; empty: a page is there that can be judged."""
    page = pages.state
    if page is None:
        return pages.trouble or "it gave no /state page"
    if process.http_tls and page.status in _NOT_SHOWN:
        return f"it shows no page: {_printable(' '.join(page.text.split()), REASON_CHARS_MAX)}"
    return ""


def _state(page: FetchedPage | None) -> dict[str, Plain] | None:
    if page is None or page.status != HTTPStatus.OK:
        return None
    try:
        data = json.loads(page.text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _readiness(page: FetchedPage | None) -> tuple[bool, tuple[str, ...]]:
    if page is None:
        return False, ("it gave no /readyz page",)
    shown = [line.strip() for line in page.text.splitlines()]
    lines = [_printable(line, REASON_CHARS_MAX) for line in shown if line]
    if page.status == HTTPStatus.OK:
        return True, tuple(line for line in lines if line != "ready")[:REASONS_MAX]
    return False, tuple(lines[:REASONS_MAX]) or (f"/readyz answers {page.status}",)


def _cleaned(value: Plain, levels: int) -> Plain:
    """Give a value of ``/state`` for a terminal, which any process may have written."""
    match value:
        case str():
            return _printable(value, TEXT_CHARS_MAX)
        case dict() | list() if levels == 0:
            return None
        case dict():
            return {
                _printable(name, TEXT_CHARS_MAX): _cleaned(one, levels - 1)
                for name, one in value.items()
            }
        case list():
            return [_cleaned(one, levels - 1) for one in value]
    return value


def _printable(text: str, chars_max: int) -> str:
    return "".join(one if one.isprintable() else "?" for one in text[:chars_max])


def _named(one: ProcessIdentity) -> str:
    return f"{one.kind.value} {one.name}"


# ── what the sights of a whole cluster say ──


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSight:
    """What all processes of a cluster showed, sorted by kind and name."""

    sights: tuple[HttpSight, ...] = field(default=())

    def of_kind(self, kind: ProcessKind) -> tuple[HttpSight, ...]:
        """Give the sights of one kind of process."""
        return tuple(one for one in self.sights if one.process.kind is kind)

    def bookie(self, name: BookieId) -> HttpSight | None:
        """Give the sight of a bookie; None: no such bookie is remembered."""
        bookies = self.of_kind(ProcessKind.BOOKIE)
        return next((one for one in bookies if one.process.name == name), None)

    @property
    def watching(self) -> Answering | None:
        """The autorecovery process that knows most of the zones; None: none knows anything.

        The leader of the zone watch goes first, then a process that has read the records, then the
        one with the first name.
        """
        answering = [one for one in self.of_kind(ProcessKind.AUTORECOVERY) if _records(one)]
        found = [one for one in answering if isinstance(one, Answering)]
        return min(found, key=lambda one: (not leads(one), one.process.name), default=None)

    @property
    def zones(self) -> tuple[ZoneName, ...]:
        """Every zone that a process stands in, sorted."""
        found = {zone_of(one) for one in self.sights}
        return tuple(sorted(zone for zone in found if zone is not None))


def zone_of(sight: HttpSight) -> ZoneName | None:
    """Give the zone of the process that is meant; what the process itself says goes first."""
    if isinstance(sight, Answering) and sight.identity.zone is not None:
        return sight.identity.zone
    return sight.process.zone


def leads(sight: Answering) -> bool:
    """Does this process lead the zone watch, as far as it knows?"""
    roles = sight.state.get("leads")
    return isinstance(roles, dict) and roles.get("zoneWatch") is True


def _records(sight: HttpSight) -> bool:
    return isinstance(sight, Answering) and isinstance(sight.state.get("records"), dict)
