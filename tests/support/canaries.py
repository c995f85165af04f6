"""Sees that no secret leaves a test: in a log, an output, a metric, an error or a command line.

Each ``Secret`` that is made while somebody watches is a canary. What comes out of the test is kept,
and searched for all canaries in each form in which bytes become text. ``ZONEKEEPER_CANARIES=1`` (or
``make canaries``) watches over every test, with all levels of the log; without it the fixture
``canaries`` of ``tests/hostile`` watches over a few.

A secret of fewer than ``CANARY_BYTES_MIN`` bytes is no canary, because words such as ``secret`` are
in honest texts. The key that is made of such a password is one.
"""

import base64
import logging
import os
import re
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from zonekeeper.placement.base.hidden import Secret
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.wire.formats import exposition
from zonekeeper.wire.formats.proofs import KEY_WITHOUT_PASSWORD

SWITCH: Final = "ZONEKEEPER_CANARIES"
CANARY_BYTES_MIN: Final = 8
#: A test that makes more canaries is watched for the first of them.
_CANARIES_MAX: Final = 2_000
#: A test that says more is watched for the end of it.
_TEXT_CHARS_MAX: Final = 8 << 20
#: Keys that everybody knows: that of a ledger without a password.
_PUBLIC: Final = frozenset({bytes(KEY_WITHOUT_PASSWORD)})
_STARTS: Final = frozenset({"subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"})


def forms(secret: bytes) -> frozenset[str]:
    """Give the texts by which the bytes could be read."""
    encoded = base64.b64encode(secret).decode().rstrip("=")
    return frozenset(
        {
            secret.decode("latin-1"),
            secret.decode("utf-8", errors="backslashreplace"),
            repr(bytes(secret))[2:-1],
            secret.hex(),
            secret.hex().upper(),
            encoded,
            encoded.translate(str.maketrans("+/", "-_")),
            urllib.parse.quote(secret),
        }
    )


class Watch(logging.Handler):
    """What came out of a test, and the canaries that must not be in it."""

    def __init__(self) -> None:
        super().__init__(level=1)
        self._canaries: dict[bytes, None] = {}
        self._said: list[tuple[str, str]] = []
        self._chars = 0

    def note(self, secret: bytes) -> None:
        """Take a secret for a canary."""
        plain = bytes(secret)
        is_one = len(plain) >= CANARY_BYTES_MIN and plain not in _PUBLIC
        if is_one and len(self._canaries) < _CANARIES_MAX:
            self._canaries[plain] = None

    def hear(self, where: str, text: str) -> None:
        """Keep a text that came out."""
        self._said.append((where, text))
        self._chars += len(text)
        while self._chars > _TEXT_CHARS_MAX:
            self._chars -= len(self._said.pop(0)[1])

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line of the log, with all its facts and its error."""
        facts = {name: value for name, value in vars(record).items() if name != "args"}
        self.hear(f"log of {record.name}", f"{self.format(record)} {facts!r}")

    def hits(self) -> list[str]:
        """Say where a canary is, without saying it."""
        texts = sorted({form for canary in self._canaries for form in forms(canary)})
        if not texts:
            return []
        anyone = re.compile("|".join(map(re.escape, texts)))
        return [
            f"{where}: ...{anyone.sub('***', text)[:300]}"
            for where, text in self._said
            if anyone.search(text)
        ]


_watching: Watch | None = None
_hooks: Final[list[Callable[..., None]]] = []


def _started(event: str, arguments: tuple[Any, ...]) -> None:  # as sys.addaudithook gives them
    if _watching is not None and event in _STARTS:
        _watching.hear("command line", repr(arguments[:2]))


def _noted(kind: type[Secret], *given: bytes) -> Secret:
    secret = bytes.__new__(kind, *given)
    if _watching is not None:
        _watching.note(secret)
    return secret


def _raised(trouble: Trouble, *arguments: object) -> None:
    Exception.__init__(trouble, *arguments)
    if _watching is not None:
        _watching.hear(type(trouble).__name__, " ".join(map(str, arguments)))


def _rendering(plain: Callable[..., str]) -> Callable[..., str]:
    def rendered(*given: Any, **named: Any) -> str:  # whatever the function takes
        text = plain(*given, **named)
        if _watching is not None:
            _watching.hear("metrics", text)
        return text

    return rendered


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch during the block; its end does not judge: ask ``hits``."""
    global _watching  # noqa: PLW0603 an audit hook cannot be taken off
    if not _hooks:
        _hooks.append(_started)
        sys.addaudithook(_started)
    before, ours = _watching, logging.getLogger("zonekeeper")
    watch, root, level = Watch(), logging.getLogger(), ours.level
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Secret, "__new__", staticmethod(_noted), raising=False)
        patch.setattr(Trouble, "__init__", _raised, raising=False)
        patch.setattr(exposition, "render", _rendering(exposition.render))
        root.addHandler(watch)
        ours.setLevel(logging.DEBUG)
        _watching = watch
        try:
            yield watch
        finally:
            _watching = before
            ours.setLevel(level)
            root.removeHandler(watch)


# ── the run over all tests ──

_WATCH: Final = pytest.StashKey[Watch]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Watch over a test with its fixtures, if the switch is on."""
    if not os.environ.get(SWITCH):
        return (yield)
    with watched() as watch:
        item.stash[_WATCH] = watch
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """At the end of a test search what it said, and what pytest captured of it."""
    report: Any = yield  # the type is pytest's own, a report
    watch = item.stash.get(_WATCH, None)
    if watch is not None and report.when == "teardown":
        for where, text in report.sections:
            watch.hear(where, text)
        if found := watch.hits():
            report.outcome = "failed"
            report.longrepr = "a secret came out:\n" + "\n".join(found[:20])
    return report  # type: ignore[no-any-return] # as above
