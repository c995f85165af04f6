"""The runbooks of the house, read from the package, so that an installed wheel has them.

A runbook is ``<name>.md`` beside this module. Its name is the predicate or the alert that it is
about; an alert without a page of its own names another page (``zone_alerts.runbook``). Each page
says what the word means, what to look at and what to do. Each command in a page can be typed as it
stands, once its ``<placeholders>`` are filled in.
"""

import inspect
from functools import cache
from importlib import resources
from typing import Final

from zonekeeper.placement.base import misnamed

_SUFFIX: Final = ".md"
_MEANING: Final = "## What it means"
#: Two words that are less alike are no misspelling of one another.
_ALIKE: Final = 0.5


@cache
def pages() -> dict[str, str]:
    """Give the text of each runbook, by its name, sorted."""
    found = resources.files(__package__ or "").iterdir()
    return {
        page.name.removesuffix(_SUFFIX): page.read_text("utf-8")
        for page in sorted(found, key=lambda page: page.name.lower())
        if page.name.endswith(_SUFFIX)
    }


def summary(text: str) -> str:
    """Give the first sentence of what the word means."""
    _, _, meaning = text.partition(_MEANING)
    paragraph = " ".join(inspect.cleandoc(meaning).partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".") + "."


def alike(name: str) -> list[str]:
    """Give the names that may be meant by a wrong one, the likeliest first."""
    return misnamed.alike(name, pages(), at_least=_ALIKE)
