"""The address of a metadata store, as text and as a value.

===================================  ==========================================================
``zk://h1:2181,h2:2181/ledgers``     ZooKeeper; the path is the cluster's root (default /ledgers)
``sqlite:///var/lib/zk/meta.db``     a file on a disk of this machine; ``?root=/ledgers``
``memory:``                          in this process, gone with it; ``?root=/ledgers``
===================================  ==========================================================

ZooKeeper takes options after ``?``: ``auth-file`` (a file with a line ``user:password`` for each
identity, for the digest scheme), ``own-file`` (the same for one bookie's own identity, and made at
random if it is absent), ``acl`` for a root without identities
(``creator``: only the same identity may touch our nodes, the default with
``auth-file``; ``open``: every identity may), ``tls-ca``, ``tls-cert``, ``tls-key`` (files in PEM
form) or ``tls=on`` with the system's authorities. With TLS, certificate and host name are always
verified.

The root is a name, not a prefix: paths in a store are absolute, and our own nodes are beside the
root. An address never contains a password, because addresses are logged.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, assert_never
from urllib.parse import parse_qsl, unquote

from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.layout import OWN_SUFFIX
from zonekeeper.metadata.store.store import check_path

DEFAULT_ROOT: Final = "/ledgers"
DEFAULT_PORT: Final = 2181

_PORT_MAX: Final = 65_535
#: The forms of an address, for messages.
EXAMPLES: Final = "zk://host:2181,host2:2181/ledgers, sqlite:///absolute/path/meta.db or memory:"


class AddressAcl(enum.StrEnum):
    """The clients that may use the nodes that we create in a root without identities."""

    CREATOR = "creator"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files in PEM form; with None, the system's authorities, and no certificate of our own."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperAddress:
    """Servers ``host:port``; a client may use any of them."""

    servers: tuple[str, ...]
    root: str = DEFAULT_ROOT
    auth_file: Path | None = None
    own_file: Path | None = None
    acl: AddressAcl = AddressAcl.OPEN
    tls: Tls | None = None

    def __str__(self) -> str:
        return f"zk://{','.join(self.servers)}{self.root}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteAddress:
    """A SQLite file, by its absolute path."""

    path: Path
    root: str = DEFAULT_ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAddress:
    """A new, empty store in memory."""

    root: str = DEFAULT_ROOT


Address: TypeAlias = ZooKeeperAddress | SqliteAddress | MemoryAddress


class _Scheme(enum.StrEnum):
    ZOOKEEPER = "zk"
    SQLITE = "sqlite"
    MEMORY = "memory"


_OPTIONS: Final[Mapping[_Scheme, frozenset[str]]] = {
    _Scheme.ZOOKEEPER: frozenset(
        {"auth-file", "own-file", "acl", "tls", "tls-ca", "tls-cert", "tls-key"}
    ),
    _Scheme.SQLITE: frozenset({"root"}),
    _Scheme.MEMORY: frozenset({"root"}),
}


def parse(text: str) -> Address:
    """Read an address; ``BadStoreUriError`` says what is wrong, and what would be right."""
    scheme_text, colon, rest = text.partition(":")
    # By hand: urllib takes a list of hosts, of which some have brackets, for one malformed host.
    place, _, query = rest.partition("?")
    netloc, path = "", unquote(place)
    if place.startswith("//"):
        netloc, slash, path = place[2:].partition("/")
        path = unquote(slash + path)
    if "@" in netloc:
        raise errors.BadStoreUriError(
            "a store address holds no user or password: put 'user:password' into a file, and give"
            " it as '?auth-file=/path'"
        )
    if scheme_text.startswith("zk+"):
        raise _bad(text, "the layout is read from the root itself: write 'zk://'")
    try:
        scheme = _Scheme(scheme_text if colon else "")
    except ValueError:
        raise _bad(text, f"one of {EXAMPLES} is needed") from None
    if "#" in rest:
        raise _bad(text, "'#' has no meaning in it")
    options = _options(text, scheme, query)
    match scheme:
        case _Scheme.ZOOKEEPER:
            return _zookeeper(text, netloc, path, options)
        case _Scheme.SQLITE:
            if netloc or not Path(path).is_absolute():
                raise _bad(text, "the path is absolute: 'sqlite:///var/lib/zonekeeper/meta.db'")
            return SqliteAddress(
                path=Path(path), root=_root(text, options.get("root", DEFAULT_ROOT))
            )
        case _Scheme.MEMORY:
            if place:
                raise _bad(text, "a store in memory has no place: write 'memory:'")
            return MemoryAddress(root=_root(text, options.get("root", DEFAULT_ROOT)))
        case _:
            assert_never(scheme)


def _options(text: str, scheme: _Scheme, query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise _bad(text, "options are written '?name=value&name=value'") from None
    options = dict(pairs)
    if len(options) < len(pairs):
        raise _bad(text, "an option is given twice")
    for name, value in pairs:
        if name not in _OPTIONS[scheme]:
            known = ", ".join(sorted(_OPTIONS[scheme]))
            raise _bad(text, f"unknown option {name!r}; known for {scheme}: {known}")
        if not value:
            raise _bad(text, f"option {name!r} has no value")
    return options


def _zookeeper(text: str, netloc: str, path: str, options: Mapping[str, str]) -> ZooKeeperAddress:
    servers = tuple(_server(text, server) for server in netloc.replace(";", ",").split(","))
    auth_file = _file(text, options, "auth-file")
    try:
        acl = AddressAcl(
            options.get("acl", AddressAcl.OPEN if auth_file is None else AddressAcl.CREATOR)
        )
    except ValueError:
        raise _bad(text, "'acl' is 'creator' or 'open'") from None
    return ZooKeeperAddress(
        servers=servers,
        root=_root(text, path if path not in ("", "/") else DEFAULT_ROOT),
        auth_file=auth_file,
        own_file=_file(text, options, "own-file"),
        acl=acl,
        tls=_tls(text, options),
    )


def _tls(text: str, options: Mapping[str, str]) -> Tls | None:
    if not any(name.startswith("tls") for name in options):
        return None
    if options.get("tls", "on") != "on":
        raise _bad(text, "'tls' can only be 'on'; leave it out for none")
    tls = Tls(
        ca=_file(text, options, "tls-ca"),
        certificate=_file(text, options, "tls-cert"),
        key=_file(text, options, "tls-key"),
    )
    if (tls.certificate is None) != (tls.key is None):
        raise _bad(text, "'tls-cert' and 'tls-key' need each other")
    return tls


def _file(text: str, options: Mapping[str, str], name: str) -> Path | None:
    if name not in options:
        return None
    path = Path(options[name])
    if not path.is_absolute():
        raise _bad(text, f"{name!r} is an absolute path")
    return path


def _server(text: str, server: str) -> str:
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):  # no port; an IPv6 address is in brackets
        host, port = server, str(DEFAULT_PORT)
    if not host or host.startswith("[") != host.endswith("]"):
        raise _bad(text, f"{server!r} is no 'host:port'")
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= _PORT_MAX):
        raise _bad(text, f"{server!r} has no port between 1 and {_PORT_MAX}")
    return f"{host}:{port}"


def _root(text: str, root: str) -> str:
    try:
        check_path(root, store=text)
    except errors.BadPathError as error:
        raise _bad(text, f"as a root: {error}") from error
    if root.endswith(OWN_SUFFIX):
        raise _bad(
            text, f"a name with {OWN_SUFFIX!r} at its end stands beside a root: leave it out"
        )
    if root == "/" or root.split("/")[1] == "zookeeper":
        raise _bad(text, "the root is a node of its own, and not under '/zookeeper'")
    return root


def _bad(text: str, problem: str) -> errors.BadStoreUriError:
    # Without the options: a user who misunderstood them may have put a password there.
    return errors.BadStoreUriError(f"store address {text.partition('?')[0]!r}: {problem}")
