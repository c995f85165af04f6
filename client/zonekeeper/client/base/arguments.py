"""Checks of a caller's arguments, made before anything is begun.

Python does not enforce type hints. Without a check, a wrong argument would fail deep inside, where
the error does not help the caller, or it would be written. Each check names the argument and says
what is wanted. It raises TypeError for a value of another type, and ValueError for a value that is
out of bounds.
"""

from collections.abc import Mapping
from types import NoneType
from typing import Final

from zonekeeper.metadata.formats.ledger_paths import LEDGER_ID_MAX
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules_data import ENSEMBLE_MAX

#: The longest timeout, about 30 years. A larger number may be beyond what an event loop can count.
TIMEOUT_S_MAX: Final = 1_000_000_000


def check_address(value: object) -> None:
    """Check that the address of a metadata store is a str; its content is not checked here."""
    if not isinstance(value, str):
        raise _wrong("uri", "a str, such as zk://host:2181/ledgers", value)


def check_whole(name: str, value: object, least: int, most: int | None) -> None:
    """Check a whole number: ``least <= value <= most``; ``most`` None: no upper bound."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(name, "an int", value)
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"between {least} and {most}"
        raise ValueError(f"{name} is {bounds}, not {value}")


def check_kind(name: str, value: object, *kinds: type) -> None:
    """Check that a value is of one of these types."""
    if not isinstance(value, kinds):
        names = ("None" if kind is NoneType else kind.__name__ for kind in kinds)
        raise _wrong(name, " or ".join(names), value)


def ledger_id(value: object) -> LedgerId:
    """Check the id of a ledger, which callers give as a plain int, and give it its type."""
    check_whole("ledger_id", value, 0, LEDGER_ID_MAX)
    assert isinstance(value, int), "it was checked"
    return LedgerId(value)


def check_password(value: object) -> None:
    """Check a ledger's password; the error does not repeat it."""
    if not isinstance(value, bytes):
        raise _wrong("password", "bytes", value)


def check_quorums(value: object) -> None:
    """Check quorums; None is allowed."""
    if value is None:
        return
    if not isinstance(value, Quorums):
        raise _wrong("quorums", "a zonekeeper.client.Quorums, or None for the policy's", value)
    check_whole("quorums.ensemble", value.ensemble, 1, ENSEMBLE_MAX)
    check_whole("quorums.write", value.write, 1, value.ensemble)
    check_whole("quorums.ack", value.ack, 1, value.write)
    check_whole("quorums.ack_zones", value.ack_zones, 1, value.ack)


def check_digest(value: object) -> None:
    """Check a kind of digest; None is allowed."""
    if not isinstance(value, Digest | None):
        raise _wrong("digest", "a zonekeeper.client.Digest, or None for the policy's", value)


def check_flag(name: str, value: object) -> None:
    """Check a bool. Without this check Python would take ``"no"`` for true."""
    check_kind(name, value, bool)


def check_timeout(value: object) -> None:
    """Check the timeout of a call, in seconds; None is allowed."""
    if value is None:
        return
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong("timeout", "a number of seconds, or None for no limit", value)
    if not 0 <= value <= TIMEOUT_S_MAX:  # so written, because NaN is neither more nor less
        raise ValueError(
            f"timeout is between 0 and {TIMEOUT_S_MAX} seconds, or None for no limit, not {value}"
        )


def check_custom(custom: object) -> None:
    """Check custom metadata; None is allowed."""
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
