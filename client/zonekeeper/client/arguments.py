"""What a caller hands in, looked at before anything is begun: types are promised, and not kept.

A wrong one would else fail deep inside, where it says nothing to its caller, or be written. Each
check names the argument and says what is wanted: TypeError for another kind of thing, ValueError
for one that is out of bounds.
"""

from collections.abc import Mapping

from zonekeeper.metadata.ledger_paths import LEDGER_ID_MAX
from zonekeeper.placement.digests import Digest
from zonekeeper.placement.quorums import Quorums


def check_ledger_id(value: object) -> None:
    """Check the id of a ledger."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong("ledger_id", "an int", value)
    if not 0 <= value <= LEDGER_ID_MAX:
        raise ValueError(f"ledger_id is between 0 and {LEDGER_ID_MAX}, not {value}")


def check_password(value: object) -> None:
    """Check a ledger's password, which is not repeated."""
    if not isinstance(value, bytes):
        raise _wrong("password", "bytes", value)


def check_quorums(value: object) -> None:
    """Check quorums, or that there are none."""
    if not isinstance(value, Quorums | None):
        raise _wrong("quorums", "a placement.quorums.Quorums, or None for the policy's", value)


def check_digest(value: object) -> None:
    """Check a kind of digest, or that there is none."""
    if not isinstance(value, Digest | None):
        raise _wrong("digest", "a placement.digests.Digest, or None for the policy's", value)


def check_custom(custom: object) -> None:
    """Check custom metadata, or that there is none."""
    if custom is None:
        return
    if not isinstance(custom, Mapping):
        raise _wrong("custom", "a mapping of str to bytes", custom)
    for key, value in custom.items():
        if not isinstance(key, str):
            raise _wrong("a key of custom", "a str", key)
        if not isinstance(value, bytes):
            raise _wrong(f"custom[{key!r}]", "bytes", value)
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"the key {key!r} of custom cannot be written as UTF-8") from error


def _wrong(name: str, wanted: str, value: object) -> TypeError:
    return TypeError(f"{name} is {wanted}, not {type(value).__name__}")
