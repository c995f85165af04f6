"""The errors of a client: one tree. Every error answers two questions.

``retryable``
    May the same call succeed later, on the same handle or on a new one?
``maybe_applied``
    May the requested change have happened although the call failed? An append whose writer stopped
    is *maybe*: the entry is not acknowledged, and a recovery of the ledger may still find it.

A message names the ledger, the entry and the bookies, and says what to do. Errors of the layers
below (metadata store, placement, bookies) do not reach the caller: the client translates them, and
keeps the original in ``__cause__``. ``boundary`` does it for metadata and placement.
"""

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.base.troubles import Refusal, Trouble


class ClientError(Trouble):
    """Base of all errors of a client."""

    def __init__(self, message: str, *, maybe_applied: bool | None = None) -> None:
        """``maybe_applied``: given where it depends on the call, not on the error's class alone."""
        super().__init__(message)
        if maybe_applied is not None:
            self.maybe_applied = maybe_applied


class ClusterNotReady(ClientError):
    """There is no cluster at the address, or the cluster has no policy yet."""

    retryable = True


class WaitTimedOut(ClientError, TimeoutError):
    """The timeout that the caller gave is over, and what it waited for may still come: call again.

    It is also Python's ``TimeoutError``. An append that may have happened is ``maybe_applied``.
    """

    retryable = True

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the text: a ``TimeoutError`` that is made without its ``__init__`` has none."""
        return type(self), (str(self),), self.__dict__


class BadAddress(ClientError, Refusal, ValueError):
    """The text is not the address of a cluster's metadata; the message says which forms there are.

    Nothing was connected to.
    """


class NoPrincipal(ClientError, Refusal, ValueError):
    """A ledger was to be the client's own, and its certificate names not exactly one principal.

    Nothing was done.
    """


class UnusableCertificate(ClientError):
    """The certificate that stands beside the store of a local cluster cannot be read.

    Nothing was sent to a bookie.
    """


class ClientClosed(ClientError):
    """The client has ended; a call made after that begins nothing."""


class ClientEnded(ClientError):
    """The block that a blocking client was opened in has ended."""


class ForkedAfterUse(ClientError):
    """This process was forked from one that had connected a client, and cannot use one."""

    def __init__(self) -> None:
        super().__init__(
            "this process was forked from one that had connected a client, and cannot reach "
            "bookies: fork before connecting, or start processes by 'spawn' or 'forkserver'; "
            "nothing was done"
        )


class MetadataFailed(ClientError):
    """The metadata store refused, gave no answer, or holds data that cannot be read."""

    def __init__(self, message: str, *, retryable: bool, maybe_applied: bool) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.maybe_applied = maybe_applied


class NoSuchLedger(ClientError):
    """The ledger was deleted, or never created."""


class LedgerOpen(ClientError):
    """The ledger is not closed, and ``open`` was not told whether to recover it.

    Nothing was done: its writer, if there is one, was not disturbed.
    """

    def __init__(self, ledger_id: LedgerId, state: str) -> None:
        super().__init__(
            f"ledger {ledger_id} is {state}, not closed, and open was not told what to do with its "
            f"writer: open({ledger_id}, recover=True) fences the writer, keeps every acknowledged "
            f"entry, and closes the ledger; open({ledger_id}, recover=False) reads along and does "
            "not disturb the writer; nothing was done"
        )
        self.ledger_id = ledger_id
        self.state = state


class Unauthorized(ClientError):
    """The ledger has another password, or a bookie does not allow this client the request."""


class NotPermitted(ClientError):
    """No role of this client's certificate may do this; no bookie did anything.

    A recovery that is refused has begun in the metadata: then it is ``maybe_applied``. The message
    names the role that is needed. It is not ``Unauthorized``: the ledger's password may be right,
    and the same request succeeds with a certificate of that role.
    """


class NotEnoughBookies(ClientError):
    """The bookies that are available make no legal ensemble; others may come back."""

    retryable = True


class IllegalPlacement(ClientError):
    """The quorums and the placement rules contradict each other."""


class TooLarge(ClientError):
    """The entry is larger than the limit; nothing else is affected."""


class BudgetSpent(ClientError):
    """The writer's byte budget for unacknowledged entries is full: await, or try later."""

    retryable = True


class WriterClosed(ClientError):
    """The application has closed or halted the writer.

    A call made after that begins nothing. A call that was waiting for an appended entry gets
    ``maybe_applied``: the entry may be in the ledger.
    """


class WriterStopped(ClientError):
    """The writer cannot go on. An entry that was not acknowledged may or may not be in the ledger.

    A call made after that begins nothing. It raises the same error, without ``maybe_applied``.

    Several subclasses say that the ledger ends at its LAC. There is one exception: a ledger with
    deferred sync that has entries flushed and not forced. It is left to a recovery, which keeps
    those entries unless they were lost with the power of their bookies.
    """

    maybe_applied = True


class Fenced(WriterStopped):
    """Another client recovers or has recovered the ledger: this writer may write no more."""


class ClosedByOther(WriterStopped):
    """Another client closed the ledger, at another end than this writer's, or deleted it."""


class LostQuorum(WriterStopped):
    """Too few bookies took the entries, and there were no others; the ledger ends at its LAC.

    The message says what an ack needs, what was left, and which zones are down.
    """

    def add(self, knowledge: str) -> None:
        """Add to the message what the client knows beside."""
        self.args = (f"{self}; {knowledge}",)


class LacNotTold(ClientError):
    """Too few bookies could be told the LAC; the writer goes on."""

    retryable = True
    maybe_applied = True


class AddTimedOut(WriterStopped):
    """An entry was not acknowledged in time; the ledger ends at its LAC."""


class KeyRefused(WriterStopped):
    """A bookie does not allow this writer to write; the ledger ends at its LAC."""


class RoleRefused(KeyRefused):
    """No role of this client's certificate may write; the ledger ends at its LAC."""


class Misfit(WriterStopped):
    """A bookie holds another entry under the same id: two writers were at work; this one stops."""


class ReadFailed(ClientError):
    """No replica gave the entry, and not every replica denied it: whether it exists is unknown."""

    retryable = True


class EntryLost(ClientError):
    """Every replica says that it never had the entry, although the entry was acknowledged."""


class TailBusy(ClientError):
    """Another call waits on the same tail; this one took no entry."""

    retryable = True


class TailClosed(ClientError):
    """The application has closed the tail; a call made after that takes no entry."""


class BeyondEnd(ClientError):
    """The entry lies beyond the confirmed end; an open ledger may reach it later."""


class RecoveryFailed(ClientError):
    """The ledger's end could not be established; it stays in recovery, and any client may retry."""

    retryable = True
    maybe_applied = True


def describe(bookie: str, error: Exception) -> str:
    """Give the text of one bookie's failure, for a message that lists several."""
    return f"{bookie}: {type(error).__name__}: {error}"
