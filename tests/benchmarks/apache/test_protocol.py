"""The lines between the race and its drivers."""

import pytest

from benchmarks.apache import protocol
from benchmarks.apache.protocol import DriverFailedError


def test_a_command_is_read_as_it_was_spelled() -> None:
    verb, given = protocol.parse(protocol.command("append", window=8, by="many") + "\n")
    assert (verb, given.number("window"), given.text("by", "append")) == ("append", 8, "many")
    assert given.number("ledgers", 1) == 1
    assert given.text("way", "grpc") == "grpc"


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="window="):
        protocol.parse("append")[1].number("window")
    with pytest.raises(ValueError, match="name=value"):
        protocol.parse("append window")
    assert protocol.parse("\n")[0] == ""


@pytest.mark.parametrize("word", ["", "a b", "a\nb"])
def test_a_word_that_would_be_two_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="blank"):
        protocol.command("append", by=word) if word else protocol.command("")


def test_words_of_libraries_are_no_answers() -> None:
    assert protocol.answer("WARN something\n") is None
    assert protocol.answer('@@{"entries": 1}\n') == {"entries": 1}


def test_a_failure_is_raised() -> None:
    with pytest.raises(DriverFailedError, match="no room"):
        protocol.answer('@@{"error": "no room"}')
    with pytest.raises(DriverFailedError, match="no object"):
        protocol.answer("@@[]")
