"""The rules for the lanes of the tests, as far as settings can break them.

Like those of ``guards``: each is a function from a checkout to its offences.
"""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support import limits

#: The lane whose tests may take hours; ``make test-long`` sets ``faulthandler_timeout`` off for it.
LONG: Final = "long"

Guard = Callable[[Path], list[str]]


def lanes_have_limits(root: Path) -> list[str]:
    """Each lane limits its tests, and by less than what would end the whole process."""
    options = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    lanes = {limits.FAST, *(marker.partition(":")[0] for marker in options["markers"])}
    limited = limits.limits_of(options.get("limits", []))
    told = [f"the lane {lane} has no limit" for lane in sorted(lanes - limited.keys())]
    told += [f"a limit names {lane}, which is no lane" for lane in sorted(limited.keys() - lanes)]
    told += [
        f"the limit of {lane} is above faulthandler_timeout, less the time to end"
        for lane, limit_s in sorted(limited.items())
        if lane != LONG and limit_s + limits.AGAIN_S > options["faulthandler_timeout"]
    ]
    if limits.__name__ not in options["addopts"]:
        told.append(f"addopts does not load {limits.__name__}")
    return [f"pyproject.toml: {each}" for each in told]


GUARDS: tuple[Guard, ...] = (lanes_have_limits,)
