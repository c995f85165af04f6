"""Times as the API server writes them. Pure."""

import calendar
import re
from typing import Final

_TIME: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d+)?Z", re.ASCII)


def read_s(text: object) -> int | None:
    """Read a time, in seconds; None: it is none."""
    found = _TIME.fullmatch(str(text))
    return None if found is None else calendar.timegm(tuple(map(int, found.groups()[:6])))


def read_ms(text: object) -> int | None:
    """Read a time, in milliseconds; None: it is none."""
    found = read_s(text)
    return None if found is None else found * 1_000
