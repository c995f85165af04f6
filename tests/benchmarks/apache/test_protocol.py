"""The lines between the race and its drivers."""

import sys
from pathlib import Path

import pytest

from benchmarks.apache import protocol
from benchmarks.apache.load_drivers import LoadDriver
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


def test_a_driver_that_ends_says_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(DriverFailedError, match="no such file"):
        LoadDriver([sys.executable, "-c", "raise SystemExit('no such file')"], tmp_path / "log")


def test_a_driver_answers_between_words_and_is_killed_with_answers_unheard(tmp_path: Path) -> None:
    text = """import sys
print('a word'); print('@@{"ready": true}', flush=True)
for line in sys.stdin:
    print('a word'); print('@@{"entries": %d}' % len(line), flush=True)
"""
    driver = LoadDriver([sys.executable, "-c", text], tmp_path / "log")
    assert driver.ask("append", window=8) == {"entries": len("append window=8\n")}
    driver.tell("a")
    assert driver.hear(60) == {"entries": 2}
    assert driver.kill() == []
    with pytest.raises(DriverFailedError, match="has ended"):
        driver.ask("append")
