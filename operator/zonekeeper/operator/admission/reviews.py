"""An ``AdmissionReview``, as the API server asks it and as it is answered. Pure.

The API server sends the resource as it would stand, and for an update also as it stands. It asks,
too, before the definition of the resources is deleted. The answer
carries the uid of the question. Only what the operator reads is checked here: a question that
cannot be read is refused as a bad request, and with ``failurePolicy: Ignore`` the API server then
goes on as if it had not asked.
"""

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from zonekeeper.operator.definition import crd
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, Json
from zonekeeper.placement.base.troubles import Refusal

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
#: The API server cuts warnings off that are longer, and drops more than 4096 characters of them.
WARNING_CHARS_MAX: Final = 256
WARNINGS_MAX: Final = 16
REFUSAL_CHARS_MAX: Final = 4_000


class BadReviewError(Refusal, ValueError):
    """The request is no question about a BookieCluster; the message says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One question."""

    uid: str
    #: CREATE, UPDATE, or another that is never refused.
    operation: str
    #: The resource as it would stand; None: it is deleted.
    resource: Json | None
    #: The resource as it stands; None: there is none.
    before: Json | None
    #: The definition of the resources is deleted, and with it every resource.
    ends_definition: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionAnswer:
    """What is answered."""

    #: Why the edit is refused; None: it is allowed.
    refusal: str | None = None
    #: What the person is told in either case.
    warnings: tuple[str, ...] = ()


ALLOWED: Final = AdmissionAnswer()


def parse(body: bytes) -> Review:
    """Read a question; raises ``BadReviewError``."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadReviewError(f"the body is not JSON: {error}; send an {KIND}") from error
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise BadReviewError(f"kind: must be {KIND}")
    if data.get("apiVersion") != API_VERSION:
        raise BadReviewError(f"apiVersion: must be {API_VERSION}")
    request = data.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise BadReviewError("request.uid: is required")
    operation = str(request.get("operation"))
    if _is_of_definitions(request):
        ends = operation == "DELETE" and request.get("name") == crd.definition()["metadata"]["name"]
        return Review(
            uid=request["uid"],
            operation=operation,
            resource=None,
            before=None,
            ends_definition=ends,
        )
    return Review(
        uid=request["uid"],
        operation=operation,
        resource=_resource(request, "object"),
        before=_resource(request, "oldObject"),
    )


def render(review: Review, answer: AdmissionAnswer) -> bytes:
    """Give the answer to a question, as the API server reads it."""
    response: Json = {"uid": review.uid, "allowed": answer.refusal is None}
    if answer.refusal is not None:
        response["status"] = {
            "code": HTTPStatus.UNPROCESSABLE_ENTITY.value,
            "reason": "Invalid",
            "message": answer.refusal[:REFUSAL_CHARS_MAX],
        }
    if answer.warnings:
        told = (one.replace("\n", " ")[:WARNING_CHARS_MAX] for one in answer.warnings)
        response["warnings"] = list(told)[:WARNINGS_MAX]
    return json.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response}).encode()


def _is_of_definitions(request: Json) -> bool:
    asked = request.get("resource")
    if not isinstance(asked, dict):
        return False
    found = (asked.get("group"), asked.get("resource"))
    return found == ("apiextensions.k8s.io", "customresourcedefinitions")


def _resource(request: Json, part: str) -> Json | None:
    found = request.get(part)
    if found is None:
        return None
    if not isinstance(found, dict) or found.get("kind") != BOOKIE_CLUSTERS.name:
        raise BadReviewError(f"request.{part}: must be a {BOOKIE_CLUSTERS.name}")
    meta = found.get("metadata")
    if not isinstance(meta, dict) or not all(
        isinstance(meta.get(name), str) for name in ("name", "namespace")
    ):
        raise BadReviewError(f"request.{part}.metadata: must have a name and a namespace")
    if not isinstance(found.get("spec"), dict):
        raise BadReviewError(f"request.{part}.spec: is required")
    return found
