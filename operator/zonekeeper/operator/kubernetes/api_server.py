"""A real API server, through the official client; the client blocks, so its calls run in threads.

Of the client only the configuration, the renewal of tokens, TLS and the connection pool are used.
Requests and answers are plain JSON. Every request has a time limit. A request without an answer
raises ``KubernetesError`` with status 0.
"""

import asyncio
import http
import json
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

import kubernetes
import urllib3

from zonekeeper.operator.kubernetes.api import (
    FIELD_MANAGER,
    FINALIZER,
    PODS,
    GoneError,
    Json,
    Kubernetes,
    KubernetesError,
    NotPermittedError,
    ObjectChangedError,
    ObjectKind,
)
from zonekeeper.placement.base.troubles import Trouble

REQUEST_SECONDS_MAX: Final = 30
_JSON: Final = "application/json"
_APPLY: Final = "application/apply-patch+yaml"  # JSON is YAML
_EDITS: Final = "application/json-patch+json"
_MERGE: Final = "application/merge-patch+json"
#: Of a log: its lines may be long.
LOG_BYTES_MAX: Final = 1 << 20
#: In the API server's message when an object has another uid by now, or is not there any more. The
#: spaces make it a word: a name has no spaces.
_UID_CONFLICT: Final = " uid "
#: In its message when an apply would change a uid.
_UID_INVALID: Final = "metadata.uid: Invalid value"
#: In its message when an object has another version by now.
_VERSION_CONFLICT: Final = "the object has been modified"


class NoApiServerError(Trouble):
    """Neither a pod's service account nor a kubeconfig says where Kubernetes is."""


class ApiServer(Kubernetes):
    """One API server, with the rights of the account that the configuration names."""

    def __init__(
        self, client: "kubernetes.client.ApiClient", *, manager: str = FIELD_MANAGER
    ) -> None:
        self._client = client
        self._manager = manager

    @classmethod
    def from_surroundings(cls) -> "ApiServer":
        """Use the pod's service account, or else the kubeconfig that the process finds."""
        configuration = kubernetes.client.Configuration()
        try:
            kubernetes.config.load_incluster_config(  # type: ignore[no-untyped-call] # has none
                configuration
            )
        except kubernetes.config.ConfigException:
            try:
                kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call] # has none
                    client_configuration=configuration
                )
            except kubernetes.config.ConfigException as error:
                raise NoApiServerError(
                    f"no Kubernetes API server is known ({error}): run in a pod with a service "
                    "account, or set KUBECONFIG"
                ) from error
        configuration.retries = False
        return cls(kubernetes.client.ApiClient(configuration))

    @property
    def host(self) -> str:
        """The address of the API server."""
        return str(self._client.configuration.host)

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> Json | None:
        """Read one object."""
        try:
            return await self._call("GET", kind.path(namespace, name))
        except GoneError:
            return None

    async def list(self, kind: ObjectKind, namespace: str, *, labels: str = "") -> list[Json]:
        """Read objects by labels."""
        query = {"labelSelector": labels} if labels else {}
        found = await self._call("GET", kind.path(namespace), query=query)
        items: list[Json] = found.get("items", [])
        return sorted(items, key=lambda item: str(item["metadata"]["name"]))

    async def create(self, kind: ObjectKind, body: Json) -> None:
        """Create an object."""
        path = kind.path(body["metadata"].get("namespace", ""))
        await self._call("POST", path, body=body, query={"fieldManager": self._manager})

    async def apply(self, kind: ObjectKind, body: Json, *, subresource: str = "") -> None:
        """Apply an object server-side."""
        meta = body["metadata"]
        path = kind.path(meta.get("namespace", ""), meta["name"], subresource)
        query = {"fieldManager": self._manager, "force": "true"}
        whole = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        await self._call("PATCH", path, body=whole, query=query, content=_APPLY)

    async def edit(self, kind: ObjectKind, seen: Json, changes: Json) -> None:
        """Change fields of an object, if it still is what was seen."""
        meta = seen["metadata"]
        same = {name: meta[name] for name in ("uid", "resourceVersion")}
        body = {**changes, "metadata": {**changes.get("metadata", {}), **same}}
        path = kind.path(meta.get("namespace", ""), meta["name"])
        query = {"fieldManager": self._manager}
        await self._call("PATCH", path, body=body, query=query, content=_MERGE)

    async def release(self, kind: ObjectKind, seen: Json) -> None:
        """Remove the finalizer, if object and finalizer still are what was seen."""
        meta = seen["metadata"]
        place = f"/metadata/finalizers/{meta['finalizers'].index(FINALIZER)}"
        edits = [
            {"op": "test", "path": "/metadata/uid", "value": meta["uid"]},
            {"op": "test", "path": place, "value": FINALIZER},
            {"op": "remove", "path": place},
        ]
        path = kind.path(meta.get("namespace", ""), meta["name"])
        query = {"fieldManager": self._manager}
        await self._call("PATCH", path, body=edits, query=query, content=_EDITS)

    async def delete(
        self, kind: ObjectKind, namespace: str, name: str, *, uid: str, orphans: bool = False
    ) -> None:
        """Delete an object by name and uid."""
        policy = "Orphan" if orphans else "Background"
        body: Json = {"preconditions": {"uid": uid}, "propagationPolicy": policy}
        try:
            await self._call("DELETE", kind.path(namespace, name), body=body)
        except GoneError:
            return

    async def log(self, namespace: str, pod: str, *, lines: int) -> str | None:
        """Read the end of the log of a pod's first container."""
        query = {"tailLines": str(lines), "limitBytes": str(LOG_BYTES_MAX)}
        path = f"{PODS.path(namespace, pod)}/log"
        try:
            text = await asyncio.to_thread(self._answer, "GET", path, None, query, _JSON)
        except KubernetesError as error:
            # The container has not been started, or the pod is gone.
            if error.status in (http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.NOT_FOUND):
                return None
            raise
        return text.decode(errors="replace")

    async def close(self) -> None:
        """Close the connection pool."""
        await asyncio.to_thread(self._client.rest_client.close)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Json | Sequence[Json] | None = None,
        query: Mapping[str, str] | None = None,
        content: str = _JSON,
    ) -> Json:
        return await asyncio.to_thread(self._blocking, method, path, body, query or {}, content)

    def _blocking(
        self,
        method: str,
        path: str,
        body: Json | Sequence[Json] | None,
        query: Mapping[str, str],
        content: str,
    ) -> Json:
        found: Json = json.loads(self._answer(method, path, body, query, content))
        return found

    def _answer(
        self,
        method: str,
        path: str,
        body: Json | Sequence[Json] | None,
        query: Mapping[str, str],
        content: str,
    ) -> bytes:
        headers = {"Accept": f"{_JSON}, */*", "Content-Type": content}
        self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        data = json.dumps(body) if content == _APPLY else body  # the client itself writes JSON
        url = f"{self._client.configuration.host}{path}"
        if query:
            url = f"{url}?{urlencode(query)}"
        try:
            answer = self._client.call_api(
                method, url, headers, data, _request_timeout=REQUEST_SECONDS_MAX
            )
            text: bytes = answer.read()  # type: ignore[no-untyped-call] # has none
        except (urllib3.exceptions.HTTPError, kubernetes.client.ApiException) as error:
            raise KubernetesError(
                0, f"{method} {path}: no answer: {error}", maybe_applied=method != "GET"
            ) from error
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise _refusal(answer.status, f"{method} {path}", text)
        return text


def _refusal(status: int, what: str, text: bytes) -> KubernetesError:
    try:
        message = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        message = text[:500].decode(errors="replace")
    message = f"{what}: {message}"
    if status == http.HTTPStatus.NOT_FOUND:
        return GoneError(status, message)
    if status == http.HTTPStatus.CONFLICT and _VERSION_CONFLICT in message:
        return ObjectChangedError(status, message)
    if status == http.HTTPStatus.CONFLICT and _UID_CONFLICT in message.lower():
        return GoneError(status, message)
    if status == http.HTTPStatus.UNPROCESSABLE_ENTITY and _UID_INVALID in message:
        return GoneError(status, message)
    if status == http.HTTPStatus.FORBIDDEN:
        return NotPermittedError(status, message)
    return KubernetesError(status, message)
