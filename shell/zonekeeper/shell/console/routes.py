"""The pages and answers of the console, by path: each is made from what is known at that moment."""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Final

from zonekeeper.metadata.formats.ledger_paths import LEDGER_ID_MAX
from zonekeeper.shell.console import copied_commands, http_requests, snapshot
from zonekeeper.shell.console.errands import ErrandAnswer
from zonekeeper.shell.console.http_requests import JSON, ConsoleReply, ConsoleRequest
from zonekeeper.shell.console.looker import Looker
from zonekeeper.shell.runbooks import shelf

_FILES: Final[Mapping[str, tuple[str, str]]] = {
    "/": ("console.html", "text/html; charset=utf-8"),
    "/console.css": ("console.css", "text/css; charset=utf-8"),
    "/console.js": ("console.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_DIGITS_MAX: Final = 19


class _UnknownError(Exception):
    """What is asked for does not exist; the message says what does not."""


class Routes:
    """Answers requests from what a looker knows."""

    def __init__(self, looker: Looker, wall_ms: Callable[[], int]) -> None:
        self._looker = looker
        self._wall_ms = wall_ms
        self._version = -1
        self._tag = ""
        self._body = b""
        self._asked: Mapping[str, Callable[[Mapping[str, str]], object]] = {
            "/api/commands": lambda _: copied_commands.plain(),
            "/api/price": self._price,
            "/api/lose": self._lose,
            "/api/unit": self._unit,
            "/api/ledgers": self._ledgers,
            "/api/runbook": _runbook,
        }

    def answer(self, request: ConsoleRequest) -> ConsoleReply:
        """Answer one request."""
        if request.path in _FILES:
            body, content_type = _file(request.path)
            return ConsoleReply(body=body, content_type=content_type)
        if request.path == "/api/snapshot":
            return self._snapshot(request.tag)
        asked = self._asked.get(request.path)
        if asked is None:
            return http_requests.refused(HTTPStatus.NOT_FOUND, "there is no such page")
        self._looker.asked()
        try:
            return _as_json(asked(request.query))
        except _UnknownError as error:
            return http_requests.refused(HTTPStatus.NOT_FOUND, str(error))

    def _snapshot(self, tag: str) -> ConsoleReply:
        """Give the snapshot, or say that it is the one that the browser has; its ages are headers.

        The ages change all the time, and the snapshot does not.
        """
        self._looker.asked()
        if self._looker.version != self._version:
            self._version = self._looker.version
            data = snapshot.plain(self._looker.snapshot())
            self._body = json.dumps(data, separators=(",", ":"), sort_keys=True).encode()
            self._tag = f'"{hashlib.sha256(self._body).hexdigest()[:32]}"'
        headers = (
            ("ETag", self._tag),
            ("Zonekeeper-As-Of", json.dumps(dict(self._looker.as_of))),
            ("Zonekeeper-Now", str(self._wall_ms())),
        )
        if tag == self._tag:
            return ConsoleReply(body=b"", status=HTTPStatus.NOT_MODIFIED, headers=headers)
        return ConsoleReply(body=self._body, content_type=JSON, headers=headers)

    def _price(self, query: Mapping[str, str]) -> object:
        return _plain(self._looker.price(self._known_zone(query.get("zone", ""))))

    def _lose(self, query: Mapping[str, str]) -> object:
        bookie = query.get("bookie", "")
        if not bookie:
            zone = self._known_zone(query.get("zone", ""))
            if not zone:
                raise _UnknownError("give zone=NAME or bookie=ID")
            return _plain(self._looker.loss_of_zone(zone))
        if not self._looker.knows_bookie(bookie):
            raise _UnknownError("there is no such bookie")
        return _plain(self._looker.loss_of_bookie(bookie))

    def _unit(self, query: Mapping[str, str]) -> object:
        found, not_shown = self._looker.unit(query.get("zone", ""), query.get("upgradeDomain", ""))
        return {"bookies": snapshot.plain(found), "notShown": not_shown}

    def _ledgers(self, query: Mapping[str, str]) -> object:
        text = query.get("first", "0")
        fits = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
        if not fits or int(text) > LEDGER_ID_MAX:
            raise _UnknownError(f"a ledger id is a number from 0 to {LEDGER_ID_MAX}")
        return _plain(self._looker.ledgers(int(text)))

    def _known_zone(self, zone: str) -> str:
        """Give a zone of the cluster; empty: the cluster itself."""
        if zone and not self._looker.knows_zone(zone):
            raise _UnknownError("there is no such zone")
        return zone


def _runbook(query: Mapping[str, str]) -> object:
    text = shelf.pages().get(query.get("name", ""))
    if text is None:
        raise _UnknownError("there is no such runbook: `zonekeeper runbook` lists them")
    return {"text": text}


def _plain(answer: ErrandAnswer) -> dict[str, object]:
    return {
        "underWay": answer.under_way,
        "lookedAt": answer.looked_at,
        "result": answer.result,
        "asOfMs": answer.as_of_ms,
        "trouble": answer.trouble,
    }


def _as_json(data: object) -> ConsoleReply:
    return ConsoleReply(body=json.dumps(data).encode(), content_type=JSON)


@cache
def _file(path: str) -> tuple[bytes, str]:
    name, content_type = _FILES[path]
    folder = resources.files("zonekeeper.shell.console")
    return folder.joinpath("page", name).read_bytes(), content_type
