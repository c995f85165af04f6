"""``zonekeeper ledger`` against bookies that run as processes; and how bytes become entries."""

import asyncio
import base64
import io
import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shell.ledger_world import TEXT, abandoned, appended, call, done, shown
from zonekeeper.client.base import errors
from zonekeeper.shell.commands.ledger_options import PASSWORD_VARIABLE
from zonekeeper.shell.commands.zones import zones
from zonekeeper.shell.reports import ledger_io
from zonekeeper.wire.formats.entries import PAYLOAD_BYTES_MAX

#: Stands for a ledger with this text, which a test makes.
OF_FOUR = "<four>"


@pytest.mark.processes
def test_text_goes_in_and_comes_out(address: str) -> None:
    number = appended(address, TEXT)

    assert done(address, "read", number) == TEXT + b"\n"
    assert done(address, "tail", number) == TEXT + b"\n"
    assert (
        done(address, "read", number, "--first", "2", "--last", "2") == TEXT.split(b"\n")[2] + b"\n"
    )
    as_json = [
        json.loads(line) for line in done(address, "read", number, "-o", "json").splitlines()
    ]
    assert [each["entry"] for each in as_json] == [0, 1, 2, 3]
    assert [base64.b64decode(each["payload"]) for each in as_json] == TEXT.split(b"\n")


@pytest.mark.processes
def test_bytes_go_in_and_come_out_whatever_they_are(address: str, tmp_path: Path) -> None:
    data = os.urandom(3_000_001)
    file = tmp_path / "data"
    file.write_bytes(data)
    number = appended(address, b"", str(file), "--entry-bytes", "1000")

    assert done(address, "read", number, "--raw") == data
    assert shown(address, number)["lastEntry"] == 3_000


@pytest.mark.processes
def test_the_number_is_said_before_the_input_has_ended(address: str) -> None:
    result = call(address, "append", given=TEXT)

    number = result.stdout.split(":")[0]
    assert result.stderr == f"{number}\n"
    assert result.stdout == f"{number}: 4 entries, closed\n"


@pytest.mark.processes
def test_a_ledger_with_a_password_is_read_by_who_has_it(address: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"secret\n")
    number = appended(address, TEXT, "--password-file", str(file))

    refused = call(address, "read", number)
    assert refused.exit_code == 2
    assert "another password" in refused.stderr
    assert f"none was given: use --password-file, or {PASSWORD_VARIABLE}" in refused.stderr
    wrong = call(address, "tail", number, env={PASSWORD_VARIABLE: "else"})
    assert f"the one in {PASSWORD_VARIABLE} was tried" in wrong.stderr
    assert done(address, "read", number, "--password-file", str(file)) == TEXT + b"\n"
    env = {PASSWORD_VARIABLE: "secret"}
    assert call(address, "read", number, env=env).stdout_bytes == TEXT + b"\n"
    assert shown(address, number)["hasPassword"] is True
    assert "secret" not in done(address, "show", number).decode()


@pytest.mark.processes
@pytest.mark.parametrize("nothing", [b"", b"\n", b"\r\n"])
def test_a_password_file_that_holds_none_is_refused(
    address: str, tmp_path: Path, nothing: bytes
) -> None:
    file = tmp_path / "password"
    file.write_bytes(nothing)
    before = done(address, "list")

    refused = call(address, "append", "--password-file", str(file), given=TEXT)
    assert refused.exit_code == 2
    assert f"{file} is empty" in refused.stderr
    assert done(address, "list") == before


@pytest.mark.processes
def test_what_is_made_is_shown(address: str) -> None:
    words = ("--quorums", "3/3/3", "--digest", "HMAC", "--custom", "who=me=you", "-o", "json")
    number = str(json.loads(done(address, "create", *words))["ledger"])

    found = shown(address, number)
    assert (found["state"], found["lastEntry"], found["length"]) == ("CLOSED", -1, 0)
    assert (found["quorums"], found["digest"]) == ("3/3/3", "HMAC")
    custom = found["custom"]
    assert isinstance(custom, dict)
    assert base64.b64decode(custom["who"]) == b"me=you"
    text = done(address, "show", number).decode()
    assert "CLOSED without entries" in text
    assert "bk-a-0" in text


@pytest.mark.processes
def test_a_custom_value_is_shown_on_one_line_and_moves_no_terminal(address: str) -> None:
    words = ("--custom", "k=\x1b[31mred\nstate: OPEN", "-o", "json")
    number = str(json.loads(done(address, "create", *words))["ledger"])
    text = done(address, "show", number).decode()
    assert "\x1b" not in text
    assert len([line for line in text.splitlines() if line.startswith("state")]) == 1
    assert r"k=\x1b[31mred\nstate: OPEN" in text


@pytest.mark.processes
def test_a_custom_value_may_be_any_bytes(address: str) -> None:
    words = ("--custom", os.fsdecode(b"raw=\xff\x01"), "-o", "json")
    number = str(json.loads(done(address, "create", *words))["ledger"])

    custom = shown(address, number)["custom"]
    assert isinstance(custom, dict)
    assert base64.b64decode(custom["raw"]) == b"\xff\x01"


@pytest.mark.processes
def test_a_ledger_that_was_left_open_is_read_and_then_recovered(address: str) -> None:
    number = abandoned(address, 50)

    before = done(address, "read", number, "--unconfirmed")
    assert before == b"".join(b"entry %d\n" % n for n in range(50))
    would = done(address, "recover", number, "--dry-run").decode()
    assert would == f"ledger {number}: OPEN; 3/3/2, 3 bookies; it would be recovered\n"
    unasked = call(address, "recover", number)
    assert unasked.exit_code == 2
    assert "--yes" in unasked.stderr
    assert shown(address, number)["state"] == "OPEN"

    length = len(before) - 50
    closed = f"ledger {number}: CLOSED at entry 49, {length} bytes; 3/3/2, 3 bookies\n"
    assert done(address, "recover", number, "--yes").decode() == closed
    assert done(address, "recover", number).decode() == closed
    assert done(address, "read", number) == before


@pytest.mark.processes
def test_ledgers_are_deleted_all_or_none(address: str) -> None:
    one, two = appended(address, TEXT), appended(address, TEXT)

    assert (
        f"would delete ledger {one}: CLOSED" in done(address, "delete", one, "--dry-run").decode()
    )
    refused = call(address, "delete", one, "999999", "--yes")
    assert refused.exit_code == 2
    assert "no ledger 999999; nothing was deleted" in refused.stderr
    assert call(address, "delete", one).exit_code == 2
    listed = done(address, "list").split()
    assert {one.encode(), two.encode()} <= set(listed)

    assert done(address, "delete", one, "--yes").decode() == f"deleted ledger {one}\n"
    assert one.encode() not in done(address, "list").split()
    assert f"ledger {two}: CLOSED at entry 3, {len(TEXT) - 3} bytes; 3/3/2" in (
        done(address, "list", "--long").decode()
    )
    lines = done(address, "list", "--long", "-o", "json").splitlines()
    assert int(two) in [json.loads(line)["ledger"] for line in lines]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("read", "999999"), "there is no ledger 999999"),
        (("read", OF_FOUR, "--first", "5", "--last", "4"), "--last is before --first"),
        (
            ("read", OF_FOUR, "--last", "1000"),
            "has 4 entries that are confirmed, and --last is 1000",
        ),
        (("recover", "999999", "--yes"), "there is no ledger 999999"),
        (("create", "--custom", "novalue"), "write KEY=VALUE"),
        (("create", "--custom", "a=1", "--custom", "a=2"), "given twice"),
        (("create", "--custom", "zonekeeper.placement=x"), "is taken"),
        (("create", "--quorums", "2/3/2"), "ensemble >= write >= ack"),
        (("create", "--quorums", "many"), "as 3/3/2"),
        (("create", "--quorums", "99999999999999/3/2"), "has 32 bookies at most"),
        (("create", "--quorums", f"{'9' * 9_999}/3/2"), "has 32 bookies at most"),
        (("create", "--quorums", "33/3/2"), "has 32 bookies at most"),
        (("create", "--custom", os.fsdecode(b"\xff=v")), "a key must be UTF-8"),
        (("create", "--quorums", "5/3/2"), "quorums.ensemble: 5"),
        (("show", "first"), "not a valid integer"),
    ],
)
def test_what_cannot_be_meant_is_refused(address: str, words: tuple[str, ...], said: str) -> None:
    made = appended(address, TEXT)

    result = call(address, *(made if word == OF_FOUR else word for word in words))

    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize(
    ("where", "code", "said"),
    [
        ("sqlite:///proc", 2, "cannot be opened"),
        (f"sqlite://{Path(__file__).absolute()}", 2, "is no SQLite file"),
        ("sqlite:///nowhere/at/all.db", 2, "there is no such file"),
        ("http://example.org", 2, "one of zk://"),
    ],
)
def test_a_cluster_that_is_not_there_is_said_so(where: str, code: int, said: str) -> None:
    listing = call(where, "list")
    status = CliRunner().invoke(zones, ["status", "--metadata", where], catch_exceptions=False)
    for result in (listing, status):
        assert result.exit_code == code
        assert said in result.stderr


def cut(data: bytes, sizes: list[int], cutter: ledger_io.Lines | ledger_io.Pieces) -> list[bytes]:
    """Cut what comes in portions of these sizes, then all the rest."""

    class Slow(io.RawIOBase):
        def __init__(self) -> None:
            self.at = 0

        def read(self, size: int = -1, /) -> bytes:
            step = sizes.pop() if sizes else len(data)
            portion = data[self.at : self.at + step]
            self.at += step
            return portion

    async def all_of(portions: AsyncGenerator[list[bytes], None]) -> list[bytes]:
        return [entry async for portion in portions for entry in portion]

    return asyncio.run(all_of(ledger_io.entries_of(Slow(), cutter)))  # type: ignore[arg-type] # it reads, which is all that is asked


@given(st.lists(st.binary(max_size=5)), st.lists(st.integers(1, 7), max_size=20), st.integers(1, 5))
@settings(deadline=None, max_examples=50)
def test_however_it_comes_in_it_is_cut_in_the_same_way(
    parts: list[bytes], sizes: list[int], piece: int
) -> None:
    data = b"\n".join(parts)
    lines = data.split(b"\n")
    assert cut(data, list(sizes), ledger_io.Lines()) == (lines if lines[-1] else lines[:-1])
    pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
    assert cut(data, list(sizes), ledger_io.Pieces(piece)) == pieces


def test_a_line_that_no_entry_takes_is_refused_before_it_is_held() -> None:
    lines = ledger_io.Lines()
    lines.more(bytes(PAYLOAD_BYTES_MAX))
    with pytest.raises(errors.TooLarge, match="--entry-bytes"):
        lines.more(b"x")
