"""What a person types who follows a runbook: the commands in it, with their placeholders.

A command is a line of a fenced block, perhaps after ``$ ``, or a span of code in a line, which
begins with ``zonekeeper`` or ``kubectl``. A command that is broken over two lines cannot be typed,
so it is an offence, as is a placeholder that no table knows.
"""

import re
from typing import NamedTuple

_PROGRAMS = ("zonekeeper ", "kubectl ")
_FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_PLACEHOLDER = re.compile(r"<([a-z-]+)>")


class Typed(NamedTuple):
    """A command of a runbook."""

    runbook: str
    line: str

    @property
    def placeholders(self) -> frozenset[str]:
        return frozenset(_PLACEHOLDER.findall(self.line))

    def filled(self, table: dict[str, str]) -> str:
        """Fill in the placeholders; one that is not in the table is a fault."""
        unknown = self.placeholders - set(table)
        assert not unknown, f"{self.runbook}: {self.line}: unknown placeholders {sorted(unknown)}"
        return _PLACEHOLDER.sub(lambda match: table[match[1]], self.line)


def commands(runbook: str, text: str) -> list[Typed]:
    """Give the commands of a runbook, in its order."""
    lines = [
        line.strip().removeprefix("$ ").partition("  #")[0].strip()
        for block in _FENCE.findall(text)
        for line in block.splitlines()
    ]
    for span in _SPAN.findall(_FENCE.sub("", text)):
        if span.startswith(_PROGRAMS):
            assert "\n" not in span, f"{runbook}: {span!r} is broken over two lines"
            lines.append(span)
    return [Typed(runbook, line) for line in lines if line.startswith(_PROGRAMS)]
