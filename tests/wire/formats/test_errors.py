"""The errors between client and bookie are a closed set; numbers and answers never change."""

import inspect

import pytest

from zonekeeper.wire.formats import errors

#: Number, name, may it be retried, may it have happened. A new error is a new line at the end.
TABLE = """
 1 NotOpened          retryable -
 2 Fenced             -         -
 3 UnauthorizedAccess -         -
 4 NoSuchLedger       -         -
 5 NoSuchEntry        -         -
 6 LimboLedger        -         -
 7 IoFailed           -         maybe_applied
 8 ReadOnly           -         -
 9 TooManyRequests    retryable -
10 EntryMismatch      -         -
11 UnsupportedVersion -         -
12 BadRequest         -         -
13 InsufficientSpace  -         -
14 Timeout            retryable maybe_applied
15 ConnectionLost     retryable maybe_applied
16 NotConnected       retryable -
17 ShuttingDown       retryable -
18 StartedAgain       -         -
19 LedgerDeleted      -         -
20 NotVouched         retryable -
21 MetadataAway       retryable -
22 NotProven          retryable -
23 NotPermitted       -         -
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize(("number", "name", "retryable", "maybe_applied"), ROWS)
def test_every_number_keeps_its_meaning(
    number: str, name: str, retryable: str, maybe_applied: str
) -> None:
    error = errors.from_number(int(number), "disk 3 is full")

    assert type(error).__name__ == name
    assert error.code == int(number)
    assert error.detail == str(error) == "disk 3 is full"
    assert error.retryable is (retryable == "retryable")
    assert error.maybe_applied is (maybe_applied == "maybe_applied")


def test_the_table_and_the_module_name_the_same_errors() -> None:
    named = {
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.ProtocolError) and "code" in vars(kind)
    }

    assert set(errors.BY_NUMBER.values()) == named
    assert [str(number) for number in errors.BY_NUMBER] == [row[0] for row in ROWS]


def test_the_docstring_lists_every_number() -> None:
    assert errors.__doc__ is not None
    words = errors.__doc__.split()
    for number, name, *_ in ROWS:
        assert words[words.index(name) - 1] == number


@pytest.mark.parametrize("number", [0, int(ROWS[-1][0]) + 1, (1 << 32) - 1])
def test_a_number_from_a_newer_peer_is_an_error_that_assumes_the_worst(number: int) -> None:
    error = errors.from_number(number, "what the newer peer said")

    assert isinstance(error, errors.UnknownError)
    assert error.code == number
    assert error.detail == "what the newer peer said"
    assert not error.retryable
    assert error.maybe_applied


def test_only_the_two_certain_answers_are_negative() -> None:
    """Recovery counts negatives; an unknown taken for one truncates a ledger."""
    negative = [kind for kind in errors.BY_NUMBER.values() if issubclass(kind, errors.Negative)]

    assert negative == [errors.NoSuchLedger, errors.NoSuchEntry]
    assert not isinstance(errors.from_number(99, ""), errors.Negative)


def test_what_was_not_understood_was_not_applied() -> None:
    error = errors.FormatError("frame", errors.Fault.TRUNCATED, "3 of 40 bytes")

    assert str(error) == "frame ends too early: 3 of 40 bytes"
    assert not error.retryable
    assert not error.maybe_applied
    assert not error.as_protocol_error().maybe_applied
