"""kazoo's errors and ACLs in our words, and ours in its.

An answer of the server that certainly means that nothing was done becomes an error without
``maybe_applied``. The end of a connection or of a session leaves a write unknown.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeAlias

from kazoo import exceptions as kazoo_errors
from kazoo.protocol import connection as kazoo_connection
from kazoo.protocol import serialization as kazoo_serialization
from kazoo.security import ACL, Id

from zonekeeper.metadata.access.guard import Acl, AclEntry
from zonekeeper.metadata.access.identities import StoreIdentity
from zonekeeper.metadata.access.node_rights import NodePermission
from zonekeeper.metadata.store import errors

_Table: TypeAlias = tuple[
    tuple[tuple[type[Exception], ...], type[errors.StoreError], str],
    ...,
]

#: Answers of the server that certainly mean that nothing was done.
_REFUSALS: Final[_Table] = (
    ((kazoo_errors.NoNodeError,), errors.NoNodeError, "it, or its parent, is absent"),
    ((kazoo_errors.NodeExistsError,), errors.NodeExistsError, "is there already"),
    ((kazoo_errors.BadVersionError,), errors.VersionConflictError, "is at another version"),
    ((kazoo_errors.NotEmptyError,), errors.NotEmptyError, "it has children"),
    (
        (kazoo_errors.NoChildrenForEphemeralsError,),
        errors.BadPathError,
        "its parent is ephemeral",
    ),
    ((kazoo_errors.BadArgumentsError,), errors.BadPathError, "ZooKeeper does not allow that"),
    (
        (kazoo_errors.InvalidACLError, kazoo_errors.AuthFailedError),
        errors.UnauthorizedError,
        "ZooKeeper does not take this identity: see 'auth-file' and 'tls-cert'",
    ),
)

#: Ends of a connection or session: the last request may have been carried out.
_UNKNOWNS: Final[_Table] = (
    ((kazoo_errors.SessionExpiredError,), errors.SessionLostError, "the session expired"),
    (
        (
            kazoo_errors.ConnectionLoss,
            kazoo_errors.ConnectionClosedError,
            kazoo_errors.OperationTimeoutError,
            kazoo_errors.SessionMovedError,
        ),
        errors.StoreUnavailableError,
        "the connection broke",
    ),
)


def is_forbidden(error: Exception) -> bool:
    """Does an ACL forbid it?"""
    return isinstance(error, kazoo_errors.NoAuthError)


def translate(error: Exception, path: str, *, store: str, maybe_applied: bool) -> errors.StoreError:
    """Give our error for kazoo's; ``maybe_applied`` is for errors that leave it unknown."""
    for theirs, ours, problem in _REFUSALS:
        if isinstance(error, theirs):
            return ours(problem, store=store, path=path)
    for theirs, ours, problem in _UNKNOWNS:
        if isinstance(error, theirs):
            return ours(problem, store=store, path=path, maybe_applied=maybe_applied)
    return errors.StoreUnavailableError(
        f"ZooKeeper answered {type(error).__name__} {error}",
        store=store,
        path=path,
        maybe_applied=maybe_applied,
    )


def to_kazoo(acl: Acl) -> list[ACL]:
    """Write an ACL for kazoo."""
    return [ACL(int(one.permissions), Id(one.identity.scheme, one.identity.name)) for one in acl]


def from_kazoo(acl: Iterable[ACL]) -> Acl:
    """Read an ACL of kazoo's."""
    entries = (
        AclEntry(StoreIdentity(one.id.scheme, one.id.id or ""), NodePermission(one.perms))
        for one in acl
    )
    return tuple(sorted(entries))


class _UnknownCodeError(kazoo_errors.ZookeeperError):  # type: ignore[misc] # kazoo has no types
    """The server answered with a code that kazoo does not know."""


class _Codes(dict[int, Callable[[], Exception]]):
    """Errors by their codes: those that kazoo knows, and one for all others."""

    def __missing__(self, code: int) -> Callable[[], Exception]:
        return partial(_UnknownCodeError, code)


kazoo_connection.EXCEPTIONS = _Codes(kazoo_errors.EXCEPTIONS)
kazoo_serialization.EXCEPTIONS = kazoo_connection.EXCEPTIONS
