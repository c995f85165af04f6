"""The file of an export: every node comes back, and no damage goes unseen."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.metadata.saving import export_format, importing
from zonekeeper.metadata.saving.export_format import (
    ExportFooter,
    ExportHeader,
    ExportNode,
    ExportWriter,
)

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"


def written(nodes: list[ExportNode]) -> list[str]:
    writer = ExportWriter()
    lines = [writer.header(ExportHeader(INSTANCE, "/ledgers"))]
    return [*lines, *(writer.node(node) for node in nodes), writer.footer()]


NODES = [
    ExportNode("", b""),
    ExportNode("/00", b""),
    ExportNode("/00/0000/L0001", b"\x00\xff"),
    ExportNode("/LAYOUT", b"2\nfactory:1"),
    ExportNode(".zonekeeper", b""),
    ExportNode(".zonekeeper/policy", '{"a":"ü"}'.encode()),
]


def test_the_golden_export_stays_as_it_is() -> None:
    assert "".join(written(NODES)) == (
        "zonekeeper-metadata\t1\td58c3de9-d9c6-429e-be20-474dcad4d089\t/ledgers\n"
        '""\tempty\n'
        '"/00"\tempty\n'
        '"/00/0000/L0001"\tbase64\tAP8=\n'
        '"/LAYOUT"\ttext\t"2\\nfactory:1"\n'
        '".zonekeeper"\tempty\n'
        '".zonekeeper/policy"\ttext\t"{\\"a\\":\\"ü\\"}"\n'
        "end\t6\t58e6ca5a8d0a98535aecb46ddcd8153c98d73bc8e3f98558cb5e77740a343b2f\n"
    )


names = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1)
suffixes = st.lists(names, max_size=4).map(lambda parts: "".join("/" + part for part in parts))


@given(st.dictionaries(suffixes, st.binary(max_size=30) | st.text().map(str.encode), max_size=8))
def test_every_node_comes_back_as_it_was_written(values: dict[str, bytes]) -> None:
    nodes = sorted((ExportNode(*item) for item in values.items()), key=lambda node: node.order)
    lines = written(nodes)
    assert all(line.count("\n") == 1 for line in lines)
    header, *read, footer = export_format.read(lines)
    assert header == ExportHeader(INSTANCE, "/ledgers")
    assert read == nodes
    assert isinstance(footer, ExportFooter)


@pytest.mark.parametrize("cut", range(9))
def test_a_file_that_was_cut_short_is_refused(cut: int) -> None:
    text = "".join(written(NODES))
    lines = text[: len(text) * cut // 9].splitlines(keepends=True)
    with pytest.raises(MalformedError) as caught:
        importing.check(lines)
    assert caught.value.flaw is Flaw.TRUNCATED


def test_a_file_that_was_changed_is_refused() -> None:
    lines = written(NODES)
    lines[4] = lines[4].replace("factory", "Factory")
    with pytest.raises(MalformedError) as caught:
        importing.check(lines)
    assert caught.value.flaw is Flaw.BAD_CHECKSUM


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        (lambda lines: [*lines, "more\n"], Flaw.TRAILING),
        (lambda lines: [lines[0], *lines[2:]], Flaw.INCONSISTENT),  # a node is missing
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], Flaw.INCONSISTENT),  # order
        (lambda lines: [lines[0], lines[1], *lines[1:]], Flaw.INCONSISTENT),  # twice
        (lambda lines: [lines[0], "what\n", *lines[1:]], Flaw.BAD_TEXT),
        (lambda lines: [lines[0], '"/x/"\tempty\n', *lines[1:]], Flaw.OUT_OF_RANGE),
        (lambda lines: [lines[0], '"/x"\tbase64\t!\n', *lines[1:]], Flaw.BAD_TEXT),
        (lambda lines: [lines[0], '"/x"\tbase64\t\n', *lines[1:]], Flaw.INCONSISTENT),
        (lambda lines: [lines[0], '"/x"\ttext\t7\n', *lines[1:]], Flaw.WRONG_TYPE),
        (lambda lines: [lines[0], '"/x"\ttext\t"\\ud800"\n', *lines[1:]], Flaw.BAD_TEXT),
        (lambda lines: lines[1:], Flaw.BAD_HEADER),
        (lambda lines: ["x" * (3 << 20) + "\n", *lines[1:]], Flaw.TOO_LARGE),
        (lambda lines: [], Flaw.TRUNCATED),
    ],
)
def test_each_damage_to_a_file_is_named(
    change: Callable[[list[str]], list[str]], flaw: Flaw
) -> None:
    with pytest.raises(MalformedError) as caught:
        importing.check(change(written(NODES)))
    assert caught.value.flaw is flaw


def test_a_file_of_other_bytes_is_no_export(tmp_path: Path) -> None:
    file = tmp_path / "other.bin"
    file.write_bytes(b"\xff\xfe\x00")
    with file.open(encoding="utf-8", newline="\n") as text, pytest.raises(MalformedError) as caught:
        importing.check(export_format.lines_of(text))
    assert caught.value.flaw is Flaw.BAD_TEXT


def test_a_file_of_a_later_version_is_unsupported() -> None:
    lines = written(NODES)
    with pytest.raises(UnsupportedError, match="version 2"):
        importing.check([lines[0].replace("\t1\t", "\t2\t"), *lines[1:]])
