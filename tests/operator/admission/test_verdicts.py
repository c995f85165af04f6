"""The webhook refuses what the operator refuses, in its words, and no edit that must pass."""

import pytest

from tests.operator.refused import WRONG, WrongSpec
from tests.operator.resources import NOW, resource
from zonekeeper.operator.admission import reviews, verdicts
from zonekeeper.operator.admission.reviews import ALLOWED, AdmissionAnswer, Review
from zonekeeper.operator.admission.verdicts import LegalEdit
from zonekeeper.operator.cluster import desired
from zonekeeper.operator.cluster.desired import RefusedResource
from zonekeeper.operator.kubernetes.api import Json

ILLEGAL: Json = {"policy": {"quorums": {"ensemble": 3, "write": 2}}}


def review(after: Json | None, before: Json | None = None, operation: str = "") -> Review:
    kind = operation or ("CREATE" if before is None else "UPDATE")
    return Review(uid="1", operation=kind, resource=after, before=before)


def by_fields(after: Json, before: Json | None = None) -> AdmissionAnswer | LegalEdit:
    return verdicts.by_fields(review(after, before), "zonekeeper:0.1.0")


def built(**spec: object) -> Json:
    return resource(**spec) | {"status": {"instance": "0d6e3a1e"}}


@pytest.mark.parametrize("wrong", WRONG, ids=[one.name for one in WRONG])
@pytest.mark.parametrize("is_new", [True, False])
def test_it_says_every_reason_that_the_operator_says(wrong: WrongSpec, is_new: bool) -> None:
    item = resource(**wrong.spec)
    refused = desired.read(item)
    if not isinstance(refused, RefusedResource):
        pytest.skip("only the API server refuses it")

    found = by_fields(item, None if is_new else resource())

    assert isinstance(found, AdmissionAnswer)
    assert found.refusal == "\n".join(refused.reasons)


def test_what_only_placement_can_judge_is_refused_before_it_is_stored() -> None:
    found = by_fields(resource(**ILLEGAL))

    assert isinstance(found, AdmissionAnswer)
    assert found.refusal is not None
    assert "spec.policy" in found.refusal


def test_a_new_resource_that_is_legal_is_told_what_the_operator_warns_of() -> None:
    item = resource(autoReplication={"perZone": 0})
    wanted = desired.read(item)
    assert not isinstance(wanted, RefusedResource)

    assert by_fields(item) == AdmissionAnswer(warnings=wanted.warnings)
    assert desired.NO_REPAIR in wanted.warnings


def test_an_image_that_is_left_out_is_the_operator_s_own() -> None:
    item = resource(bookiesPerZone=3)
    del item["spec"]["image"]

    assert by_fields(item) == ALLOWED
    refused = verdicts.by_fields(review(item), None)
    assert isinstance(refused, AdmissionAnswer)
    assert desired.NO_IMAGE in str(refused.refusal)


def test_an_edit_that_leaves_the_spec_as_it_is_passes_also_if_the_spec_is_illegal() -> None:
    """Otherwise nobody could take a finalizer off a resource that was stored without a webhook."""
    before = built(**ILLEGAL)
    after = before | {"metadata": before["metadata"] | {"finalizers": ["x"]}}

    assert by_fields(after, before) == ALLOWED


def test_an_edit_of_a_deleted_resource_passes() -> None:
    before = built()
    gone = before | {"metadata": before["metadata"] | {"deletionTimestamp": NOW}}

    assert by_fields(gone | {"spec": built(**ILLEGAL)["spec"]}, gone) == ALLOWED


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT", "None"])
def test_no_other_operation_is_ever_refused(operation: str) -> None:
    item = resource(**ILLEGAL)

    assert verdicts.by_fields(review(item, None, operation), None) == ALLOWED
    assert verdicts.by_fields(review(None, item, operation), None) == ALLOWED


def test_only_an_edit_of_a_built_cluster_is_judged_by_what_is_there() -> None:
    legal = {"bookiesPerZone": 3}

    assert isinstance(by_fields(resource(**legal), resource()), AdmissionAnswer)
    assert isinstance(by_fields(built(**legal), built()), LegalEdit)


def test_the_live_resource_says_what_is_looked_at_and_not_the_question() -> None:
    live = built()
    edit = by_fields(built(bookiesPerZone=3), live)
    assert isinstance(edit, LegalEdit)

    looked = verdicts.as_edited(live | {"status": {"instance": "live"}}, edit)
    assert looked is not None
    assert looked["spec"] == edit.resource["spec"]
    assert looked["status"] == {"instance": "live"}
    assert verdicts.as_edited(None, edit) is None
    another = live | {"metadata": live["metadata"] | {"uid": "uid-again"}}
    assert verdicts.as_edited(another, edit) is None
    elsewhere = by_fields(built(metadata={"uri": "zk://elsewhere:2181/x"}), live)
    assert isinstance(elsewhere, LegalEdit)
    assert verdicts.as_edited(live, elsewhere) is None


def test_an_edit_that_could_not_be_judged_is_allowed_and_says_so() -> None:
    edit = by_fields(built(autoReplication={"perZone": 0}), built())
    assert isinstance(edit, LegalEdit)

    found = verdicts.not_looked_at(edit, "that took too long")

    assert found.refusal is None
    assert "that took too long" in found.warnings[0]
    assert "see the condition Legal" in found.warnings[0]
    assert found.warnings[1:] == edit.wanted.warnings
    assert len(found.warnings[0]) < reviews.WARNING_CHARS_MAX
