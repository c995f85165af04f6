"""What a client's call can end with: one tree, and two questions that every error answers.

``retryable``
    may the same call succeed later, on the same handle or a new one?
``maybe_applied``
    may what was asked for have happened all the same? An append whose writer stopped is *maybe*:
    it is not acknowledged, and whoever recovers the ledger may yet find it there.

Messages name the ledger, the entry and the bookies, and say what to do. Errors of the layers below
(the metadata store, placement, bookies) never pass as they are: ``boundary`` translates them, and
they stand in ``__cause__``.
"""

from zonekeeper.placement.base.troubles import Trouble


class ClientError(Trouble):
    """Base of all that a client raises."""

    def __init__(self, message: str, *, maybe_applied: bool | None = None) -> None:
        """``maybe_applied``: where it hangs on the call, and not on the kind of error alone."""
        super().__init__(message)
        if maybe_applied is not None:
            self.maybe_applied = maybe_applied


class ClusterNotReady(ClientError):
    """There is no cluster at the address, or it has no policy yet."""

    retryable = True


class ClientClosed(ClientError):
    """The client that this belongs to is over; what is asked for after that is not begun."""


class MetadataFailed(ClientError):
    """The metadata store refused, gave no answer, or holds what cannot be read."""

    def __init__(self, message: str, *, retryable: bool, maybe_applied: bool) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.maybe_applied = maybe_applied


class NoSuchLedger(ClientError):
    """The ledger was deleted, or never created."""


class Unauthorized(ClientError):
    """The password is not the ledger's, or a bookie does not let this client do it."""


class NotEnoughBookies(ClientError):
    """No legal ensemble can be had of the bookies that are there; they may come back."""

    retryable = True


class IllegalPlacement(ClientError):
    """The quorums and the placement rules contradict each other."""


class TooLarge(ClientError):
    """The entry is larger than a ledger takes; nothing else is affected."""


class BudgetSpent(ClientError):
    """The writer holds as many bytes without an acknowledgement as it may: await, or try later."""

    retryable = True


class WriterClosed(ClientError):
    """Its owner has closed or halted the writer: what is asked for after that is not begun.

    Who waited then for what was appended hears that it may be there: ``maybe_applied``.
    """


class WriterStopped(ClientError):
    """The writer cannot go on. What was not acknowledged may or may not be in the ledger.

    What is asked for after that is not begun, and hears the same, without ``maybe_applied``.

    Where the ledger is said to end at its LAC: one with deferred sync that has entries which are
    flushed and not forced is left to a recovery, which keeps them where no power was lost.
    """

    maybe_applied = True


class Fenced(WriterStopped):
    """Another client recovers the ledger, or has recovered it: this writer is no longer its own."""


class ClosedByOther(WriterStopped):
    """The ledger was closed at another end than this writer knows."""


class LostQuorum(WriterStopped):
    """Too few bookies took the entries, and no others could be had; the ledger ends at its LAC."""


class LacNotTold(ClientError):
    """Too few bookies could be told how far the ledger is confirmed; the writer goes on."""

    retryable = True
    maybe_applied = True


class AddTimedOut(WriterStopped):
    """An entry was not acknowledged in time; the ledger ends at its LAC."""


class KeyRefused(WriterStopped):
    """A bookie does not let this writer write; the ledger ends at its LAC."""


class Misfit(WriterStopped):
    """A bookie holds another entry under the same id: two writers, and this one cannot go on."""


class ReadFailed(ClientError):
    """No replica gave the entry, and at least one did not say that it has none: unknown."""

    retryable = True


class EntryLost(ClientError):
    """Every replica says that it never had an entry that was acknowledged."""


class BeyondEnd(ClientError):
    """The entry lies beyond what is confirmed; an open ledger may get there."""


class RecoveryFailed(ClientError):
    """The ledger's end could not be established; it stays in recovery, for anybody to try again."""

    retryable = True
    maybe_applied = True


def describe(bookie: str, error: Exception) -> str:
    """Give one bookie's failure, for a message that lists several."""
    return f"{bookie}: {type(error).__name__}: {error}"
