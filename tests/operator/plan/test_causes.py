"""Of all that may keep bookies from being ready, one is the reason, and none is left out."""

import itertools

import pytest

from zonekeeper.operator.plan import causes
from zonekeeper.operator.plan.predicates import Predicate
from zonekeeper.operator.sight.pod_trouble import TroubleKind

#: What is told before what, as people read it.
ORDER = (
    *("Refused", "Blocked"),
    *("MetadataUnreachable", "Unusable", "RootLost", "OtherInstance", "RootInUse"),
    "OwnedByAnother",
    *("ImagePull", "Unschedulable", "NotStarted", "CrashLoop"),
    *("ZoneDown", "Failed", "BookiesNotReady"),
)


def test_of_every_combination_the_first_is_the_reason_and_all_are_in_the_words() -> None:
    for chosen in itertools.product((False, True), repeat=len(ORDER)):
        names = [name for name, is_there in zip(ORDER, chosen, strict=True) if is_there]
        found = {Predicate(name): f"what {name} says" for name in reversed(names)}

        waiting = causes.cause(found)

        if waiting is None:
            assert names == []
        else:
            assert waiting.predicate == names[0]
            assert waiting.why.splitlines() == [f"what {name} says" for name in names]


def test_each_trouble_of_a_pod_is_the_cause_of_its_name() -> None:
    assert {kind: str(cause) for kind, cause in causes.OF_TROUBLE.items()} == {
        kind: str(kind) for kind in TroubleKind
    }


def test_what_explains_nothing_is_no_cause() -> None:
    with pytest.raises(AssertionError, match="explain nothing"):
        causes.cause({Predicate.HELD: "zone b"})
