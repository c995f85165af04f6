"""The errors of a metadata store: what it refuses, and what it cannot know.

Every error answers two questions. ``retryable``: may the same call succeed later, once the cause in
the message is gone? ``maybe_applied``: may the write have been applied all the same? An error with
``maybe_applied`` is the third answer, *unknown*: only another read can decide it, and ``update``
does that. An error without it promises that nothing was written.
"""

from zonekeeper.placement.base.troubles import Refusal, Trouble


class StoreError(Trouble):
    """Base of all that a metadata store raises; the message names the path and the store."""

    def __init__(
        self, problem: str, *, store: str, path: str = "", maybe_applied: bool = False
    ) -> None:
        where = f"{path} in {store}" if path else store
        unknown = "; the write may have been applied: read again to know" if maybe_applied else ""
        super().__init__(f"{where}: {problem}{unknown}")
        self.problem = problem
        self.path = path
        self.store = store
        self.maybe_applied = maybe_applied


class NoNodeError(StoreError):
    """There is no such node, or no parent to create it under."""


class NodeExistsError(StoreError):
    """There is such a node already; another client, or this one, created it."""


class VersionConflictError(StoreError):
    """The node is not at the version that the caller read: read again, decide again."""

    retryable = True


class NotEmptyError(StoreError):
    """The node has children, so it cannot be deleted."""


class BadPathError(StoreError):
    """No node can have this path: wrong syntax, or the parent is ephemeral."""


class TooLargeError(StoreError):
    """More bytes than a node, or a transaction, may have."""


class UnauthorizedError(StoreError):
    """The store does not allow this to our identity, or does not accept our credentials."""


class StoreUnavailableError(StoreError):
    """No answer in time: the store is not reached, has no quorum, or is locked for too long."""

    retryable = True


class SessionLostError(StoreError):
    """The session that the call belongs to has ended, and its ephemeral nodes with it.

    Retryable in a new session only: a lock or a vote that was an ephemeral node is lost.
    """

    retryable = True


class StoreClosedError(StoreError):
    """The store was closed by its owner."""


class BadStoreError(StoreError):
    """The store there is not a store of ours, cannot be one, or is damaged."""


class UnusableStoreError(BadStoreError, Refusal):
    """The store at the address cannot be opened: the address is wrong. Later it would be damage."""


class NoStoreError(UnusableStoreError):
    """There is nothing at the address, and the caller did not want anything made there."""


class BadStoreUriError(Refusal, ValueError):
    """The text is not the address of a metadata store; the message says what is wrong with it."""
