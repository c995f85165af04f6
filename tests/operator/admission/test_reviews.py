"""A question of the API server is read or refused as a whole; an answer is within its limits."""

import json

import pytest

from tests.operator.admission import questions
from tests.operator.resources import resource
from zonekeeper.operator.admission import reviews
from zonekeeper.operator.admission.reviews import AdmissionAnswer, BadReviewError


def test_a_question_has_the_resource_as_it_would_stand_and_as_it_stands() -> None:
    before, after = resource(), resource(bookiesPerZone=3)

    found = reviews.parse(questions.body(after, before))

    assert (found.uid, found.operation) == ("question-1", "UPDATE")
    assert (found.resource, found.before) == (after, before)


def test_a_refusal_is_told_as_an_invalid_object_in_its_own_words() -> None:
    question = reviews.parse(questions.body(resource()))

    told = questions.response(reviews.render(question, AdmissionAnswer(refusal="spec.x: no")))

    assert told["allowed"] is False
    assert told["status"] == {"code": 422, "reason": "Invalid", "message": "spec.x: no"}
    assert "warnings" not in told


def test_what_is_told_is_bounded_and_a_warning_is_one_line() -> None:
    question = reviews.parse(questions.body(resource()))
    answer = AdmissionAnswer(refusal="x" * 9_999, warnings=("a\nb", *("w" * 999,) * 99))

    told = questions.response(reviews.render(question, answer))

    assert len(told["status"]["message"]) == reviews.REFUSAL_CHARS_MAX
    assert told["warnings"][0] == "a b"
    assert len(told["warnings"]) == reviews.WARNINGS_MAX
    assert {len(one) for one in told["warnings"][1:]} == {reviews.WARNING_CHARS_MAX}


def test_an_allowed_edit_has_neither_a_status_nor_warnings() -> None:
    question = reviews.parse(questions.body(resource()))

    told = questions.response(reviews.render(question, reviews.ALLOWED))

    assert told == {"uid": "question-1", "allowed": True}


def _question(**parts: object) -> bytes:
    whole = json.loads(questions.body(resource()))
    whole["request"] |= parts
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "kind"),
        (b'{"kind": "Pod"}', "kind"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v2"}', "apiVersion"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}', "request.uid"),
        (_question(uid=1), "request.uid"),
        (_question(object=[]), "request.object: must be a BookieCluster"),
        (_question(object={"kind": "Pod"}), "request.object: must be a BookieCluster"),
        (_question(object=resource() | {"metadata": {"name": "log"}}), "namespace"),
        (_question(object=resource() | {"spec": None}), "request.object.spec"),
        (_question(oldObject={"kind": "Pod"}), "request.oldObject"),
    ],
)
def test_what_is_no_question_about_a_cluster_is_refused_and_says_where(
    body: bytes, words: str
) -> None:
    with pytest.raises(BadReviewError, match=words) as told:
        reviews.parse(body)
    assert not told.value.retryable
