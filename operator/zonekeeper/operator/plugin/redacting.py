"""Secrets are left out of a report. Pure.

Secrets are never read for a report. What may hold one all the same is left out: the values of
environment variables that a person has set, the copy of a manifest that kubectl keeps in an
annotation, fields that are named like a secret, and in texts everything that looks like a key, a
token or a password. A value that was left out in one place is left out in all texts, too.

Not promised: a secret in a log that looks like any other word, and that stands nowhere else.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from zonekeeper.operator.kubernetes.api import Json

LEFT_OUT: Final = "(left out)"
#: A shorter value is not looked for in texts: it may be a part of any word.
VALUE_MIN: Final = 6
#: The variables of ours hold addresses, folders and sizes.
_OURS: Final = "ZONEKEEPER_"
_DROPPED: Final = frozenset({"managedFields", "kubectl.kubernetes.io/last-applied-configuration"})
_SECRET_NAME: Final = re.compile(
    r"(password|passwd|passphrase|pwd|secret|token|credentials?|api[-_]?key|private[-_]?key)$",
    re.IGNORECASE,
)
#: Names of ours, which are numbers and not secrets.
_NO_SECRETS: Final = frozenset({"automountServiceAccountToken", "optional"})
_LOOKS_SECRET: Final = (
    re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
    ),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"),
    re.compile(r"(?<=bearer )\S+", re.IGNORECASE),
    re.compile(r"(?<=basic )[A-Za-z0-9+/=]{8,}", re.IGNORECASE),
    re.compile(r"(?<=://)[^/\s@:]+:[^/\s@]+(?=@)"),
    re.compile(
        r"""(?<![A-Za-z])(?:[A-Za-z0-9]+[-_])*
        (?:password|passwd|passphrase|pwd|secret|token|credentials?|api[-_]?key|private[-_]?key)
        ["']?\s*[=:]\s*["']?(?P<value>(?<=")[^"]+|(?<=')[^']+|[^\s"',;}&]+)""",
        re.IGNORECASE | re.VERBOSE,
    ),
)


def secrets_in(items: Iterable[Json]) -> frozenset[str]:
    """Give the values that are left out of these objects, to be left out of texts, too."""
    return frozenset(value for item in items for value in _values(item) if len(value) >= VALUE_MIN)


def item(found: Json, secrets: frozenset[str]) -> Json:
    """Give an object without its secrets."""
    cleaned = _cleaned(found, secrets)
    assert isinstance(cleaned, dict), "an object stays one"
    return cleaned


def text(found: str, secrets: frozenset[str]) -> str:
    """Give a text without its secrets."""
    for looks in _LOOKS_SECRET:
        found = looks.sub(_replaced, found)
    for value in sorted(secrets, key=lambda one: (-len(one), one)):
        found = found.replace(value, LEFT_OUT)
    return found


def _replaced(match: re.Match[str]) -> str:
    if "value" not in match.re.groupindex:
        return LEFT_OUT
    whole, start = match.group(0), match.start()
    return whole[: match.start("value") - start] + LEFT_OUT + whole[match.end("value") - start :]


def _values(found: object) -> Iterator[str]:
    if isinstance(found, list):
        for one in found:
            yield from _values(one)
    if not isinstance(found, dict):
        return
    for name, value in found.items():
        if name == "env" and isinstance(value, list):
            yield from (str(one["value"]) for one in value if _is_theirs(one))
        elif _is_secret(name) and (texts := _texts(value)):
            yield from texts
        else:
            yield from _values(value)


def _texts(value: object) -> list[str]:
    """Give a text, or the texts of a list that has nothing else; of another value none."""
    found = value if isinstance(value, list) else [value]
    return [str(one) for one in found] if all(isinstance(one, str) for one in found) else []


def _cleaned(found: object, secrets: frozenset[str]) -> object:
    if isinstance(found, str):
        return text(found, secrets)
    if isinstance(found, list):
        return [_cleaned(one, secrets) for one in found]
    if not isinstance(found, dict):
        return found
    cleaned: Json = {}
    for name, value in found.items():
        if name in _DROPPED:
            continue
        if _is_secret(name) and _texts(value):
            cleaned[name] = LEFT_OUT
        elif name == "env" and isinstance(value, list):
            cleaned[name] = [
                one | {"value": LEFT_OUT} if _is_theirs(one) else _cleaned(one, secrets)
                for one in value
            ]
        else:
            cleaned[name] = _cleaned(value, secrets)
    return cleaned


def _is_theirs(variable: object) -> bool:
    """Did a person set the value of this variable?"""
    return (
        isinstance(variable, dict)
        and "value" in variable
        and not str(variable.get("name", "")).startswith(_OURS)
    )


def _is_secret(name: str) -> bool:
    return name not in _NO_SECRETS and _SECRET_NAME.search(name) is not None
