"""What came of the rounds of one tree: each test's runs and failures. Pure: text in, text out.

A *turn* is one run of one lane; a round is one turn of each. A turn counts whole or not at all: one
that was interrupted is played again. A turn without a single test, or one that pytest did not bring
to its end, is a failure, and never a round that went well.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final
from xml.etree import ElementTree

FORMAT: Final = 1

#: Pytest's exit codes after which its report is whole: all passed, some failed.
_WHOLE: Final = (0, 1)
#: How a traceback shows an exception of a group: behind one bar, without further indentation.
_OF_A_GROUP: Final = re.compile(r"^\s*\| ([A-Za-z_][\w.]*(?:: .*)?)$", re.MULTILINE)


@dataclass(slots=True, kw_only=True)
class Count:
    """How a test has fared; ``0 <= failures <= runs``."""

    runs: int = 0
    failures: int = 0
    #: The first line of its last failure.
    last: str = ""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What there is of one tree, beside one load."""

    tree: str
    load: int
    #: How many turns of each lane are done.
    turns: dict[str, int] = field(default_factory=dict)
    #: By lane, then by test.
    counts: dict[str, dict[str, Count]] = field(default_factory=dict)

    def next_lane(self, lanes: Sequence[str], rounds: int) -> str | None:
        """Give the lane whose turn it is, of those furthest behind the first; None: all is done."""
        behind = min(lanes, key=lambda lane: self.turns.get(lane, 0))
        return behind if self.turns.get(behind, 0) < rounds else None

    def take(self, lane: str, failures: Mapping[str, str | None]) -> None:
        """Count a turn: what each test failed with, or None."""
        self.turns[lane] = self.turns.get(lane, 0) + 1
        counts = self.counts.setdefault(lane, {})
        for test, why in failures.items():
            count = counts.setdefault(test, Count())
            count.runs += 1
            if why is not None:
                count.failures += 1
                count.last = why

    def is_clean(self, lanes: Sequence[str], rounds: int) -> bool:
        """Were all rounds of these lanes done, and none of their tests red in any?"""
        red = any(count.failures for lane in lanes for count in self.counts.get(lane, {}).values())
        return self.next_lane(lanes, rounds) is None and not red

    def lines(self, lanes: Iterable[str]) -> Iterator[str]:
        """Tell of some lanes: each test's runs and failures, those that fail most often first."""
        for lane in lanes:
            counts = self.counts.get(lane, {})
            failures = sum(count.failures for count in counts.values())
            yield f"{lane}: {_many(self.turns.get(lane, 0), 'round')}, {_many(failures, 'failure')}"
            yield "    runs  failures  test"
            for test, count in sorted(counts.items(), key=lambda one: (-one[1].failures, one[0])):
                yield f"  {count.runs:6}  {count.failures:8}  {test}"
                if count.failures:
                    yield f"{'':20}{count.last}"


def turn(lane: str, code: int, report: str) -> dict[str, str | None]:
    """Say what each test of a turn failed with, or None, by pytest's exit code and JUnit report.

    A test that was skipped has not run. What is wrong with the turn itself counts as a test of its
    own, named after the lane.
    """
    if code not in _WHOLE or not report:  # what ends pytest for a hanging test gives 1, too
        return {f"({lane})": f"pytest ended with {code}"}
    found: dict[str, str | None] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        test = f"{case.get('file')}::{case.get('name')}"
        broken = [*case.iter("failure"), *case.iter("error")]
        if broken or test not in found:  # a test and its teardown may each have an element
            found[test] = _first_line(broken[0]) if broken else None
    return found or {f"({lane})": "no test ran"}


def failed(turn_: Mapping[str, str | None]) -> dict[str, str]:
    """Give what failed in a turn, and with what."""
    return {test: why for test, why in turn_.items() if why is not None}


def dump(tally: Tally) -> str:
    """Write a tally."""
    return json.dumps({"format": FORMAT, **asdict(tally)}, indent=1, sort_keys=True)


def load(text: str) -> Tally:
    """Read a tally; raises ValueError for one of another format."""
    found = json.loads(text)
    if found.pop("format") != FORMAT:
        raise ValueError("a tally of another format")
    counts = {
        lane: {test: Count(**count) for test, count in tests.items()}
        for lane, tests in found.pop("counts").items()
    }
    return Tally(counts=counts, **found)


def _first_line(broken: ElementTree.Element) -> str:
    """Give what a failure says first; of a group, what its last exception says."""
    said = (broken.get("message") or broken.text or "").strip().partition("\n")[0]
    if "ExceptionGroup" in said:
        inside = _OF_A_GROUP.findall(broken.text or "")
        return next((one for one in reversed(inside) if "ExceptionGroup" not in one), said)
    return said


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
