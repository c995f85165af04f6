"""A built cluster takes no older image and none that moves; a roll may be taken back."""

import pytest

from tests.operator.plan.test_last_legal import INSTANCE, decide
from tests.operator.resources import NOW, kept, resource
from zonekeeper.operator.kubernetes.api import Json

DIGEST = f"sha256:{'a' * 64}"


def running(image: str, *, up_to_date: str) -> Json:
    condition = {
        "type": "UpToDate",
        "status": up_to_date,
        "reason": "x",
        "message": "x",
        "lastTransitionTime": NOW,
    }
    status = {"instance": INSTANCE, "conditions": [condition]}
    return resource(image=image) | {"status": status}


def legal(item: Json, before: Json) -> tuple[str, str]:
    """Give what a turn says of a resource whose last legal spec is that of ``before``."""
    conditions = decide(item, kept(before)).status["conditions"]
    (found,) = (one for one in conditions if one["type"] == "Legal")
    return found["reason"], found["message"]


@pytest.mark.parametrize("older", ["zonekeeper:0.1.0", f"other/z:0.1.9@{DIGEST}"])
def test_a_version_older_than_all_bookies_run_is_blocked(older: str) -> None:
    before = running("zonekeeper:0.2.0", up_to_date="True")

    reason, message = legal(running(older, up_to_date="True"), before)

    assert reason == "Blocked"
    assert f"spec.image: {older}: must not be of an older version than the bookies run" in message


@pytest.mark.parametrize("up_to_date", ["False", "Unknown"])
def test_a_roll_that_is_under_way_or_has_halted_may_be_taken_back(up_to_date: str) -> None:
    before = running("zonekeeper:0.2.0", up_to_date=up_to_date)

    reason, _ = legal(running("zonekeeper:0.1.0", up_to_date=up_to_date), before)

    assert reason in ("Legal", "LegalWithWarnings")


@pytest.mark.parametrize("image", ["zonekeeper:0.10.0", "z:main", f"zonekeeper:V1@{DIGEST}"])
def test_an_image_that_is_not_known_to_be_older_is_taken(image: str) -> None:
    before = running("zonekeeper:0.2.0", up_to_date="True")

    reason, _ = legal(running(image, up_to_date="True"), before)

    assert reason in ("Legal", "LegalWithWarnings")


def test_a_built_cluster_cannot_change_to_an_image_that_moves_and_may_keep_one() -> None:
    before = running("zonekeeper:0.2.0", up_to_date="True")
    moving = running("zonekeeper:latest", up_to_date="True")

    reason, message = legal(moving, before)
    assert reason == "Blocked"
    assert 'spec.image: "zonekeeper:latest": must not have the tag latest' in message

    reason, message = legal(moving, moving)
    assert reason == "LegalWithWarnings"
    assert "must not have the tag latest" in message
