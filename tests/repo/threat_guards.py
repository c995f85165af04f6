"""The rule for the page of threats: each row is there, and says what shows it, or why nothing does.

A row's last cell names files of ``tests/``, and behind a file parts of its tests' names; or it
begins with ``no:`` and gives a reason. The page tells how many rows there are of each kind.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

THREATS = "docs/threats.md"
COUNT = 36
#: A reason has more than this: "not yet" is none.
REASON_CHARS_MIN = 40

_ROW = re.compile(r"^\| (T\d+) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", re.M)
_TOLD = re.compile(r"Of the (\d+) threats (\d+) have tests, and (\d+) a reasoned no\.")

Guard = Callable[[Path], list[str]]


def every_threat_has_a_test_or_a_reason(root: Path) -> list[str]:
    """All rows are there, once and in order; each names tests that are there, or a reason."""
    text = (root / THREATS).read_text()
    rows = _ROW.findall(text)
    found = [number for number, *_ in rows]
    wanted = [f"T{number:02}" for number in range(1, COUNT + 1)]
    offences = (
        [] if found == wanted else [f"{THREATS}: the rows are not {wanted[0]} to {wanted[-1]}"]
    )
    refused = [shown for *_, shown in rows if shown.startswith("no: ")]
    counts = tuple(map(str, (COUNT, COUNT - len(refused), len(refused))))
    if (told := _TOLD.findall(text)) != [counts]:
        offences.append(f"{THREATS}: tells {told}, and the rows are {counts}")
    for number, threat, done, shown in rows:
        if not (threat.strip() and done.strip()):
            offences.append(f"{THREATS}: {number} has an empty cell")
        offences += [f"{THREATS}: {number} {said}" for said in _wrong(root, shown)]
    return offences


def _wrong(root: Path, shown: str) -> Iterator[str]:
    """Say what is wrong with the last cell of a row."""
    if shown.startswith("no: "):
        if len(shown) < REASON_CHARS_MIN:
            yield "has no reason"
        return
    words = re.findall(r"`([^`]+)`", shown)
    if not any("/" in word for word in words):
        yield "names no test"
    text = None
    for word in words:
        if "/" in word:
            path = root / "tests" / word
            there = path.is_file() and path.name.startswith("test_")
            text = path.read_text() if there else None
            if text is None:
                yield f"names {word}, which is no file of tests"
        elif text is not None and not re.search(
            rf"^(?:async )?def test_\w*{re.escape(word.strip('…'))}", text, re.M
        ):
            yield f"names {word}, which is no test there"


GUARDS: tuple[Guard, ...] = (every_threat_has_a_test_or_a_reason,)
