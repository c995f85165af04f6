"""The limits of a host: of each stream, of each principal, and of all streams together."""

from dataclasses import dataclass
from typing import Final

#: No answer has many more bytes than this, whatever the request asks for.
REPLY_BYTES_MAX: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimits:
    """The limits of each stream, of each principal, and of all streams together."""

    #: Bytes of openings, frames and LACs without an answer; one more carrier may come on top.
    append_bytes_max: int = 64 << 20
    #: Bytes that the answers to the reads under way may have.
    read_bytes_max: int = 64 << 20
    reads_max: int = 64
    open_ledgers_max: int = 65_536
    #: Answers to appends that have not left. At the limit the stream is not read any further.
    answers_max: int = 65_536
    #: Tails of all connections; each gets an update at every news of its ledger.
    tails_max: int = 10_000
    #: Bytes of answers to reads and tails of all streams, ready or being made, that have not left.
    all_replies_bytes_max: int = 256 << 20
    #: Of one principal, over all its connections and both transports (``shares``). Streams: Append
    #: and Read streams, and connections of the socket lane for calls.
    principal_streams_max: int = 4_096
    principal_tails_max: int = 5_000
    #: Bytes of requests on its Append streams that the bookie has not answered.
    principal_append_bytes_max: int = 128 << 20
    principal_reply_bytes_max: int = 128 << 20
