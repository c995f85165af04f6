"""The names of logs, and the nodes that their records are in. Pure.

    <root>.zonekeeper/logs/<hh>/<namespace>/<hh>/<h>/<last part>      a log's record
                                .../<page / 1000>/<page % 1000>       below it: its sealed pages

A name has parts, separated by ``/``. All parts but the last one are the log's *namespace*. In a
path the namespace is one part, with ``:`` for ``/``; a log of one part is in the namespace ``:``.
The digits are those of SHA-256 sums, of the namespace and of the last part. They keep a node from
having more than 1,000 children, up to 200,000 namespaces and 3,000,000 logs in each.
"""

import hashlib
import re
from typing import Final

from zonekeeper.placement.base.troubles import Refusal

LOG_NAME_LENGTH_MAX: Final = 200
#: What lists all logs without a namespace.
NO_NAMESPACE: Final = ""

_PART: Final = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_NAME: Final = re.compile(rf"{_PART}(/{_PART})*")
_SEPARATOR: Final = ":"
_FIRST_DIGITS: Final = 2
_DIGITS: Final = 3
_PAGES_A_FOLDER: Final = 1_000


class BadLogNameError(Refusal, ValueError):
    """The text cannot be the name of a log, or of a namespace."""


def check(name: str) -> None:
    """Refuse a text that cannot be the name of a log."""
    if not _NAME.fullmatch(name) or len(name) > LOG_NAME_LENGTH_MAX:
        raise BadLogNameError(
            f"{name[:LOG_NAME_LENGTH_MAX]!r} cannot be a log's name: it looks like orders/eu-1, "
            "with letters, digits and . _ - in its parts, each of which begins with a letter, a "
            f"digit or _, and at most {LOG_NAME_LENGTH_MAX} characters"
        )


def path(name: str) -> str:
    """Give the path of a log's record below the node of all logs."""
    check(name)
    namespace, _, last = name.rpartition("/")
    digits = _sum(last)[:_DIGITS]
    return f"{namespace_path(namespace)}/{digits[:_FIRST_DIGITS]}/{digits[_FIRST_DIGITS:]}/{last}"


def namespace_path(namespace: str) -> str:
    """Give the path of a namespace below the node of all logs."""
    if namespace != NO_NAMESPACE:
        check(namespace)
    return f"/{_sum(namespace)[:_FIRST_DIGITS]}/{namespace.replace('/', _SEPARATOR) or _SEPARATOR}"


def namespace_of(part: str) -> str:
    """Give the namespace that a part of a path stands for."""
    return part.strip(_SEPARATOR).replace(_SEPARATOR, "/")


def full(namespace: str, last: str) -> str:
    """Give the name of a log."""
    return f"{namespace}/{last}" if namespace else last


def page_folder(page: int) -> str:
    """Give the path of the folder of a page, below the log's record."""
    return f"/{page // _PAGES_A_FOLDER:06d}"


def page_path(page: int) -> str:
    """Give the path of a page, below the log's record."""
    return f"{page_folder(page)}/{page % _PAGES_A_FOLDER:03d}"


def begins_folder(page: int) -> bool:
    """Is this the first page of its folder?"""
    return page % _PAGES_A_FOLDER == 0


def ends_folder(page: int) -> bool:
    """Is this the last page of its folder?"""
    return page % _PAGES_A_FOLDER == _PAGES_A_FOLDER - 1


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
