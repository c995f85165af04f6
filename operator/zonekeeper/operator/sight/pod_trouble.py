"""Why a pod does not run: read from the status that Kubernetes gives it. Pure.

Four troubles are told apart, because each has another way out: an image that is not pulled, a pod
that fits on no node, a container that cannot be made, and a process that ends again and again. A
pod that only starts slowly has no trouble. A pod that is ready has none, whatever was before.

A process in a crash loop runs for a moment between two ends. It stays in trouble during that run,
so that what is told of it does not change with every look.
"""

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.sight import moments

#: So much is kept of the words of Kubernetes and of a container; of the latter the end counts.
WORDS_MAX: Final = 500
#: A process that ended so often, and each time soon, is in a crash loop also while it runs.
_RESTARTS_MIN: Final = 3
_SOON_S: Final = 60

_PULL_REASONS: Final = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_MAKING_REASONS: Final = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
_CRASH_REASON: Final = "CrashLoopBackOff"


class TroubleKind(enum.StrEnum):
    """What keeps a pod from running; the first ones come first in its life."""

    UNSCHEDULABLE = "Unschedulable"
    IMAGE_PULL = "ImagePull"
    NOT_STARTED = "NotStarted"
    CRASH_LOOP = "CrashLoop"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTrouble:
    """The trouble of one pod."""

    kind: TroubleKind
    #: What Kubernetes says of it: the scheduler, or the kubelet.
    words: str
    #: What the container wrote before it ended last, or how it ended; None: no end is known.
    last_words: str | None
    #: The time from which on the pod is not well, as the API writes it; None: it is not said.
    since: str | None

    @property
    def told(self) -> str:
        """The words in one line, with the last words of the container."""
        last = "" if self.last_words is None else f"; its last words: {self.last_words}"
        return f"{self.words}{last}"


def of_pod(item: Json) -> PodTrouble | None:
    """Give the trouble of a pod; None: it is ready, leaves, or may still become ready."""
    status = item.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    if item["metadata"].get("deletionTimestamp") or _says(conditions, "Ready", "True"):
        return None
    if _says(conditions, "PodScheduled", "False"):
        said = conditions["PodScheduled"]
        return PodTrouble(
            kind=TroubleKind.UNSCHEDULABLE,
            words=_first(str(said.get("message") or said.get("reason") or "no node was found")),
            last_words=None,
            since=said.get("lastTransitionTime"),
        )
    since = conditions.get("Ready", {}).get("lastTransitionTime") or status.get("startTime")
    containers = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    return min(_of_containers(containers, since), key=_rank, default=None)


def _rank(trouble: PodTrouble) -> int:
    return list(TroubleKind).index(trouble.kind)


def _says(conditions: dict[str, Json], kind: str, status: str) -> bool:
    return bool(conditions.get(kind, {}).get("status") == status)


def _of_containers(containers: Iterable[Json], since: str | None) -> Iterator[PodTrouble]:
    for container in containers:
        kind = _kind(container)
        if kind is not None:
            yield PodTrouble(
                kind=kind,
                words=_first(_words(container)),
                last_words=_last_words(container),
                since=since,
            )


def _kind(container: Json) -> TroubleKind | None:
    reason = _part(container, "state", "waiting").get("reason")
    if reason in _PULL_REASONS:
        return TroubleKind.IMAGE_PULL
    if reason in _MAKING_REASONS:
        return TroubleKind.NOT_STARTED
    if reason == _CRASH_REASON or _ended_now(container) or _ends_soon(container):
        return TroubleKind.CRASH_LOOP
    return None


def _ended_now(container: Json) -> bool:
    """Has the process failed, after an earlier one had ended, too?"""
    ended = _part(container, "state", "terminated")
    return bool(ended.get("exitCode")) and int(container.get("restartCount", 0)) > 0


def _ends_soon(container: Json) -> bool:
    """Is this a run of a process that has failed often, the last time soon after its start?"""
    ended = _part(container, "lastState", "terminated")
    if int(container.get("restartCount", 0)) < _RESTARTS_MIN or container.get("ready"):
        return False
    began, end = moments.read_s(ended.get("startedAt")), moments.read_s(ended.get("finishedAt"))
    is_short = began is not None and end is not None and end - began < _SOON_S
    return bool(ended.get("exitCode")) and is_short


def _words(container: Json) -> str:
    name = container.get("name", "")
    waiting = _part(container, "state", "waiting")
    parts = [str(waiting[key]) for key in ("reason", "message") if waiting.get(key)]
    if not parts:
        parts = [f"has ended and was started again {container.get('restartCount', 0)} times"]
    return f"container {name}: {': '.join(parts)}"


def _last_words(container: Json) -> str | None:
    for state in ("state", "lastState"):
        ended = _part(container, state, "terminated")
        if ended:
            said = str(ended.get("message") or "").strip()
            how = f"{ended.get('reason') or 'Ended'}, exit code {ended.get('exitCode')}"
            return _line(said)[-WORDS_MAX:] if said else how
    return None


def _part(container: Json, *path: str) -> Json:
    found: Json = container
    for step in path:
        found = found.get(step) or {}
    return found


def _first(words: str) -> str:
    return _line(words)[:WORDS_MAX]


def _line(words: str) -> str:
    parts: Sequence[str] = words.split()
    return " ".join(parts)
