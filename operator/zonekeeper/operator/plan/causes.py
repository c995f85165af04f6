"""Why bookies are not ready: of all that may be the cause, one is the reason. Pure.

Several things may be wrong at once. What explains the most comes first: a resource that is not
built, then a root that no bookie can use, then what Kubernetes says of pods, then a zone that is
down, then an act of the operator that failed. The counts come last, because they explain nothing.
The text names all that was found, so that a cause of higher priority hides no other.
"""

from collections.abc import Mapping
from typing import Final

from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.sight.pod_trouble import TroubleKind

#: The causes; one that stands earlier goes before those after it.
PRIORITY: Final = (
    Predicate.REFUSED,
    Predicate.BLOCKED,
    Predicate.UNREACHABLE,
    Predicate.UNUSABLE,
    Predicate.ROOT_LOST,
    Predicate.OTHER_INSTANCE,
    Predicate.IN_USE,
    Predicate.OWNED_BY_ANOTHER,
    Predicate.IMAGE_PULL,
    Predicate.UNSCHEDULABLE,
    Predicate.NOT_STARTED,
    Predicate.VOLUME_LOST,
    Predicate.CRASH_LOOP,
    Predicate.ZONE_DOWN,
    Predicate.FAILED,
    Predicate.BOOKIES_NOT_READY,
)

#: The cause that a pod's trouble is.
OF_TROUBLE: Final[Mapping[TroubleKind, Predicate]] = {
    TroubleKind.IMAGE_PULL: Predicate.IMAGE_PULL,
    TroubleKind.UNSCHEDULABLE: Predicate.UNSCHEDULABLE,
    TroubleKind.NOT_STARTED: Predicate.NOT_STARTED,
    TroubleKind.CRASH_LOOP: Predicate.CRASH_LOOP,
}


def cause(found: Mapping[Predicate, str]) -> Waiting | None:
    """Give the first cause by priority, with the words of all in that order; None: none is found.

    ``found`` is what is said of each cause; it has no other predicates than ``PRIORITY``.
    """
    assert found.keys() <= set(PRIORITY), f"{found.keys() - set(PRIORITY)} explain nothing"
    ordered = [predicate for predicate in PRIORITY if predicate in found]
    if not ordered:
        return None
    return Waiting(ordered[0], "\n".join(found[predicate] for predicate in ordered))
