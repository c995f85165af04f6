"""The errors of a log, beside those of the ledgers below it (``zonekeeper.client.errors``).

Each says whether the same call may succeed later (``retryable``), and whether the change may have
happened although the call failed (``maybe_applied``). So do the errors of the record
(``metadata.formats.log_record``, ``metadata.logs.logs``), which reach the caller as they are. What
the metadata store says reaches the caller as ``MetadataFailed`` of the client of ledgers.
"""

from zonekeeper.placement.base.troubles import Refusal, Trouble


class LogEnded(Trouble):
    """This writer has ended: it was closed, or it failed.

    Messages that it had not acknowledged may be in the log or not.
    """

    maybe_applied = True

    def __init__(self, message: str, *, maybe_applied: bool = True) -> None:
        super().__init__(message)
        self.maybe_applied = maybe_applied


class LogDamaged(Trouble):
    """A ledger that the record names is gone, or is not what the record says: a person must look.

    Nothing was skipped. The message names the ledger.
    """


class LogNewer(Trouble):
    """A newer program wrote this entry, and this program does not know what it says.

    Nothing is damaged, and nothing was skipped: use a newer program.
    """


class LogTrimmed(Trouble):
    """The message was trimmed; the error says which is the earliest that is kept."""


class NotInLog(Refusal, ValueError):
    """The log never had this message, or does not have it yet; nothing was read."""


class NotAppended(Refusal, ValueError):
    """The sequence was never given out by this writer."""


class BadLogRules(Refusal, ValueError):
    """The rules cannot be those of a log; nothing was changed."""


class BadBatch(Refusal, ValueError):
    """The parts do not make one batch of a query that can be published; nothing was changed."""


class TurnOver(Trouble):
    """The turn is over: another candidate writes the log, or soon does.

    The block of the turn ends with it, and ``LogStandby.turn`` does not raise it.
    """


class NoCandidateError(Refusal):
    """No such candidate stands for the log, or its zone may not write; nothing was changed."""

    retryable = True


class NoStandbyWriter(Trouble):
    """No candidate writes the log, so none can hand it over; nothing was changed."""

    retryable = True


class WritesAlready(Refusal):
    """The candidate writes the log already; nothing was changed."""


class HandoverFailed(Trouble):
    """The log was not handed over in time; the message says what happened instead."""

    retryable = True
    maybe_applied = True
