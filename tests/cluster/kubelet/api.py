"""As much of the Kubernetes API as a kubelet speaks: read, watch, create, patch, delete."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

#: A Kubernetes object. Its shape is the API server's to check, not ours.
Json = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
RECONNECT_SECONDS = 0.2
#: An event of a watch is a line: an object may have more than a mebibyte.
LINE_BYTES_MAX = 8 << 20
NOT_FOUND = 404
CONFLICT = 409
#: In place of a status, where no answer came.
NO_ANSWER = 0


class ApiError(Exception):
    """The API server refused, or did not answer; ``status`` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """A client with the identity of a kubeconfig (client certificates, JSON spelling)."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.server: str = cluster["server"]
        self.authority = Path(cluster["certificate-authority"])
        self._tls = ssl.create_default_context(cafile=self.authority)
        self._tls.load_cert_chain(user["client-certificate"], user["client-key"])
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "Api":
        timeout = aiohttp.ClientTimeout(total=None, connect=5)
        self._session = aiohttp.ClientSession(
            self.server, timeout=timeout, read_bufsize=LINE_BYTES_MAX
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open().close()

    def _open(self) -> aiohttp.ClientSession:
        assert self._session is not None, "used outside its `async with`"
        return self._session

    async def call(
        self, method: str, path: str, body: Json | None = None, *, content: str = "application/json"
    ) -> Json:
        """Send one request; whatever is not a success is an ``ApiError``."""
        data = None if body is None else json.dumps(body)
        try:
            async with self._open().request(
                method, path, data=data, headers={"Content-Type": content}, ssl=self._tls
            ) as answer:
                status, text = answer.status, await answer.text()
        except (aiohttp.ClientError, OSError) as error:
            raise ApiError(NO_ANSWER, f"{method} {path}: {error!r}") from error
        if status >= 400:
            raise ApiError(status, f"{method} {path}: {text[:500]}")
        found: Json = json.loads(text) if text.startswith("{") else {}
        return found

    async def get(self, path: str) -> Json | None:
        """Read one object; None if it is not there."""
        try:
            return await self.call("GET", path)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def create(self, path: str, body: Json) -> Json | None:
        """Create an object; None if it is there already."""
        try:
            return await self.call("POST", path, body)
        except ApiError as error:
            if error.status == CONFLICT:
                return None
            raise

    async def patch(self, path: str, body: Json) -> Json | None:
        """Merge a patch into an object; None if it is gone."""
        try:
            return await self.call("PATCH", path, body, content=MERGE_PATCH)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def delete(self, path: str, *, uid: str | None = None) -> None:
        """Remove an object now; if it is gone, or another of the same name, so be it."""
        body: Json = {"gracePeriodSeconds": 0}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            await self.call("DELETE", path, body)
        except ApiError as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise

    async def states(self, path: str, selector: str = "") -> AsyncIterator[dict[str, Json]]:
        """Give all objects of a kind by uid: the state now, and again after each change.

        A lost watch is a new list, so nothing is missed for longer than a reconnection.
        """
        while True:
            try:
                listed = await self.call("GET", f"{path}?{selector}")
                known = {item["metadata"]["uid"]: item for item in listed["items"]}
                yield dict(known)
                version = listed["metadata"]["resourceVersion"]
                async for event in self._watch(f"{path}?{selector}", version):
                    uid = event["object"].get("metadata", {}).get("uid")
                    if event["type"] in ("ADDED", "MODIFIED"):
                        known[uid] = event["object"]
                    elif event["type"] == "DELETED":
                        known.pop(uid, None)
                    else:
                        break
                    yield dict(known)
            except (aiohttp.ClientError, OSError, ApiError):
                pass
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _watch(self, path: str, version: str) -> AsyncIterator[Json]:
        url = f"{path}&watch=true&allowWatchBookmarks=false&resourceVersion={version}"
        async with self._open().get(url, ssl=self._tls) as answer:
            if answer.status >= 400:
                raise ApiError(answer.status, f"watch {path}")
            async for line in answer.content:
                yield json.loads(line)
