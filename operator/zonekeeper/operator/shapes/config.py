"""``spec.config``: the settings of bookies that a person chooses, by their names. Pure.

The names and kinds are those of ``wire.running.bookie_config``. The schema refuses a name that is
not there. The operator refuses it with the nearest name, and refuses wrong values, too: a bookie
would not start with them.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Final

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes.schemas import RULES, described
from zonekeeper.placement.base import fields, settings
from zonekeeper.placement.base.fields import Problem
from zonekeeper.wire.running.bookie_config import CHOSEN, FULL_MARK, MARK_DEFAULTS, MARKS, RESERVED

_CUTOFF: Final = 0.6


def read(given: object, path: str, problems: list[Problem]) -> Mapping[str, str]:
    """Read the settings, as texts by name; what is wrong is left out."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        rule, hint = "must be settings by name", "write for example {gc-interval: 10m}"
        problems.append(Problem(path, fields.shown(given), rule, hint))
        return {}
    wrong = [one for name, value in given.items() for one in _problems(path, str(name), value)]
    problems += wrong or _marks(given, path)
    return {str(name): str(value) for name, value in given.items() if name in CHOSEN}


def variables(config: Mapping[str, str]) -> dict[str, str]:
    """Give the environment that says these settings to a bookie, in the order of the table."""
    return {settings.variable_of(name): config[name] for name in CHOSEN if name in config}


def chosen(variables: Mapping[str, str]) -> dict[str, str]:
    """Give the settings that an environment says to a bookie."""
    named = {settings.variable_of(name): name for name in CHOSEN}
    return {name: variables[known] for known, name in named.items() if known in variables}


def schema() -> Json:
    """Give the schema."""
    legal = sorted(CHOSEN)
    about = (
        "Of bookies: settings by name, as docs/bookie.md describes them. A setting that is left "
        f"out has the bookie's default. There are: {', '.join(legal)}."
    )
    return {
        "description": described(about, "empty"),
        "type": "object",
        "maxProperties": len(CHOSEN),
        "additionalProperties": {"x-kubernetes-int-or-string": True},
        RULES: [
            {
                "rule": f"self.all(key, !(key in {list(RESERVED)}))",
                "message": f"must not have {', '.join(RESERVED)}: {_RESERVED_RULE}; leave it out",
            },
            {
                "rule": f"self.all(key, key in {[*legal, *RESERVED]})",
                "message": f"has an unknown setting; known here: {', '.join(legal)}",
            },
        ],
    }


_RESERVED_RULE: Final = "the operator sets it, because pods and volumes follow from it"


def _problems(path: str, name: str, value: object) -> Iterator[Problem]:
    where = fields.below(path, name)
    if name in RESERVED:
        yield Problem(where, fields.shown(value), _RESERVED_RULE, "leave it out")
    elif name not in CHOSEN:
        near = difflib.get_close_matches(name, CHOSEN, 1, _CUTOFF)
        fix = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(CHOSEN))}"
        yield Problem(where, fields.shown(value), "unknown setting", fix)
    else:
        try:
            CHOSEN[name].read(where, value)
        except fields.InvalidFieldsError as refused:
            yield from refused.problems


def _marks(given: Json, path: str) -> Iterator[Problem]:
    """Find marks above the full mark; a bookie would not start with them."""
    marks = {**MARK_DEFAULTS, **given}
    full = settings.share(marks[FULL_MARK])
    for name in MARKS:
        if settings.share(marks[name]) > full:
            rule = f"must not exceed {FULL_MARK} ({marks[FULL_MARK]})"
            hint = f"lower it or raise {FULL_MARK}"
            yield Problem(fields.below(path, name), fields.shown(marks[name]), rule, hint)
