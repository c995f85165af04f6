"""The results of a race as JSON: what was run, on what, and every lap with its faults."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.apache import laps
from benchmarks.apache.laps import Lap

FORMAT: Final = 1


class ResultsError(Exception):
    """A file is no results of a race, or of a newer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a race found."""

    date: str
    #: The sides of ours among all.
    ours: Sequence[str]
    laps: Sequence[Lap]
    #: How busy the machine was, and what it is, by names.
    conditions: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


def text(results: Results) -> str:
    """Spell results."""
    return json.dumps(
        {
            "format": FORMAT,
            "date": results.date,
            "ours": list(results.ours),
            "conditions": dict(results.conditions),
            "options": dict(results.options),
            "laps": [laps.as_json(lap) for lap in results.laps],
        },
        indent=1,
    )


def parse(written: str) -> Results:
    """Read results; the faults are judged again."""
    try:
        found = json.loads(written)
    except ValueError as error:
        raise ResultsError(f"this is no JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise ResultsError("this is no file of a race's results")
    if found["format"] > FORMAT:
        raise ResultsError(
            f"the results have format {found['format']}, and this program reads {FORMAT}: "
            "use the one that wrote them"
        )
    return Results(
        date=found["date"],
        ours=found["ours"],
        conditions=found["conditions"],
        options=found["options"],
        laps=[laps.of_json(lap) for lap in found["laps"]],
    )
