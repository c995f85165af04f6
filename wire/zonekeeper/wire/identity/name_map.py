"""The map of foreign names: certificates of other schemes become principals. Pure.

It is a text file. Each line has four words; ``#`` begins a comment, and empty lines count nothing::

    # of    pattern                                role          name
    uri     spiffe://prod.example/ns/*/sa/ingest   client        ingest
    dns     *.repair.example.com                   autorecovery  repair
    cn      alice                                  admin         alice

``uri`` and ``dns`` are names of subjectAltName, and ``cn`` is the common name of the subject. ``*``
stands for one or more characters: in a URI not for ``/``, in a DNS name not for a dot, in a common
name for any. DNS names are compared without regard to case, the others exactly. For each name of a
certificate the first line that matches counts. A URI of our own scheme is never mapped: it says by
itself what it is.

The whole file is read, or nothing of it: a line that breaks a rule is refused with its number.
"""

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zonekeeper.wire.identity import principals
from zonekeeper.wire.identity.principals import PeerNames, Principal, Role

LINES_MAX: Final = 10_000
#: A pattern with many stars could take long to be compared.
STARS_MAX: Final = 4
_WORDS: Final = 4


class NameKind(enum.Enum):
    """The kinds of names in a certificate, as the file spells them."""

    URI = "uri"
    DNS = "dns"
    COMMON_NAME = "cn"


#: What a star stands for.
_STARS: Final = {
    NameKind.URI: "[^/]+",
    NameKind.DNS: "[^.]+",
    NameKind.COMMON_NAME: ".+",
}


@dataclass(frozen=True, slots=True)
class MapLine:
    """One line of the file."""

    kind: NameKind
    pattern: re.Pattern[str]
    principal: Principal


@dataclass(frozen=True, slots=True)
class NameMap:
    """The lines of the file, in their order."""

    lines: tuple[MapLine, ...] = ()

    def principals_of(self, names: PeerNames) -> tuple[Principal, ...]:
        """Give the principals of a certificate's foreign names."""
        found: dict[Principal, None] = {}
        for kind, name in _named(names):
            for line in self.lines:
                if line.kind is kind and line.pattern.fullmatch(name) is not None:
                    found[line.principal] = None
                    break
        return tuple(found)


def parse(text: str) -> NameMap:
    """Read the file; raises ValueError with the number of the first line that breaks a rule."""
    lines = text.splitlines()
    if len(lines) > LINES_MAX:
        raise ValueError(f"{len(lines)} lines, and at most {LINES_MAX} are read")
    found = []
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if words:
            try:
                found.append(_line(words))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
    return NameMap(tuple(found))


def _line(words: list[str]) -> MapLine:
    if len(words) != _WORDS:
        raise ValueError(
            f"{len(words)} words; a line has four: uri, dns or cn, a pattern, a role, and a name"
        )
    of, pattern, role, name = words
    kinds = {kind.value: kind for kind in NameKind}
    if of not in kinds:
        raise ValueError(f"{of!r} is no kind of name; there are: {', '.join(kinds)}")
    roles = {each.value: each for each in Role}
    if role not in roles:
        raise ValueError(f"{role!r} is no role; there are: {', '.join(roles)}")
    if not principals.is_name(name):
        raise ValueError(f"{name!r} cannot be a principal's name: letters, digits and . _ - @ :")
    return MapLine(kinds[of], _pattern(kinds[of], pattern), Principal(roles[role], name))


def _pattern(kind: NameKind, text: str) -> re.Pattern[str]:
    if kind is NameKind.URI and principals.is_ours(text):
        raise ValueError(f"{text!r}: a URI of our own scheme is never mapped")
    parts = text.split("*")
    if len(parts) - 1 > STARS_MAX:
        raise ValueError(f"{text!r} has {len(parts) - 1} stars; at most {STARS_MAX} are allowed")
    if not any(parts):
        raise ValueError(f"{text!r} would be every name; name at least a part of it")
    if "" in parts[1:-1]:
        raise ValueError(f"{text!r}: two stars side by side say no more than one")
    flags = re.IGNORECASE if kind is NameKind.DNS else re.NOFLAG
    # Each star but the last is as short as can be, and stays so: what a longer one could match, the
    # next one matches, too. To try all lengths of four stars would take a minute for one name.
    star, (first, *rest) = _STARS[kind], map(re.escape, parts)
    middle = "".join(f"(?>{star}?{part})" for part in rest[:-1])
    end = star + rest[-1] if rest else ""
    return re.compile(first + middle + end, flags | re.ASCII)


def _named(names: PeerNames) -> Iterator[tuple[NameKind, str]]:
    for uri in principals.bounded(names.uris):
        if not principals.is_ours(uri) and len(uri) <= principals.NAME_CHARACTERS_MAX:
            yield NameKind.URI, uri
    for name in principals.bounded(names.dns):
        if len(name) <= principals.NAME_CHARACTERS_MAX:
            yield NameKind.DNS, name
    if names.common_name and len(names.common_name) <= principals.NAME_CHARACTERS_MAX:
        yield NameKind.COMMON_NAME, names.common_name
