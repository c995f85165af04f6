"""Questions of an API server about edits of a resource."""

import json

from zonekeeper.operator.kubernetes.api import Json


def body(after: Json | None, before: Json | None = None, operation: str = "") -> bytes:
    """Give an ``AdmissionReview`` as the API server sends it."""
    request = {
        "uid": "question-1",
        "operation": operation or ("CREATE" if before is None else "UPDATE"),
        "object": after,
        "oldObject": before,
    }
    said = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(said).encode()


def response(answered: bytes) -> Json:
    """Read the answer."""
    found = json.loads(answered)
    assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert found["response"]["uid"] == "question-1"
    told: Json = found["response"]
    return told


def end_of_definition(
    name: str = "bookieclusters.zonekeeper.io", operation: str = "DELETE"
) -> bytes:
    """Give the question before a definition is deleted."""
    request = {
        "uid": "question-1",
        "operation": operation,
        "name": name,
        "resource": {
            "group": "apiextensions.k8s.io",
            "version": "v1",
            "resource": "customresourcedefinitions",
        },
        "object": None,
        "oldObject": {"kind": "CustomResourceDefinition", "metadata": {"name": name}},
    }
    said = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(said).encode()
