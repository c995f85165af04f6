"""``docs/storage.md`` shows the bytes as the code writes them."""

import importlib
import re
import struct
from collections.abc import Iterator
from fractions import Fraction
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.bookie import running
from tests.bookie.segments import keeping
from tests.support.checkout_root import ROOT
from zonekeeper.bookie.disk import whole_files
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats import batch_format, checkpoint_format, log_end, sorted_format
from zonekeeper.bookie.formats.batch_format import Position
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint
from zonekeeper.bookie.life import boots, identity, known_metadata, process
from zonekeeper.bookie.segments import arrivals, checkpoint, directories
from zonekeeper.bookie.tools import indexes
from zonekeeper.metadata.cluster.evidence import Knowledge

PAGE = (ROOT / "docs/storage.md").read_text()
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}


class Field(NamedTuple):
    """A row of a table of bytes."""

    at: int
    size: int
    name: str
    holds: str


class Shown(NamedTuple):
    """A table of bytes, and the structs of modules that it shows."""

    name: str
    structs: tuple[struct.Struct, ...]
    fields: tuple[Field, ...]


def rows_below(marker: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Give what a marker says, and the cells of the table below it, without its head."""
    for match in re.finditer(rf"<!-- {marker}(.*?) -->\n((?:\|.*\n)+)", PAGE):
        lines = match[2].splitlines()[2:]
        cells = [
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines
        ]
        yield match[1].strip(" :"), cells


def layouts() -> list[Shown]:
    found = []
    for said, rows in rows_below("layout"):
        name, _, where = said.partition(" = ")
        structs = [
            one
            for part in where.split(", ")
            for module, _, names in [part.partition(": ")]
            for one in map(vars(module_of(module)).__getitem__, names.split())
        ]
        fields = tuple(Field(int(row[0]), int(row[1]), row[2], row[3]) for row in rows)
        found.append(Shown(name, tuple(structs), fields))
    return found


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"zonekeeper.{name}")


def boundaries(layout: str) -> list[int]:
    """Give where the fields of a big-endian struct begin, and where the last one ends."""
    assert layout.startswith(">")
    codes = re.findall(r"\d*[A-Za-z]", layout)
    sizes = [struct.calcsize(f">{code}") for code in codes]
    return [sum(sizes[:number]) for number in range(len(sizes) + 1)]


@pytest.mark.parametrize("shown", layouts(), ids=lambda shown: shown.name)
def test_a_table_of_bytes_is_that_of_the_structs(shown: Shown) -> None:
    begun: list[int] = []
    at = 0
    for one in shown.structs:
        begun += [at + each for each in boundaries(one.format)[:-1]]
        at += one.size

    ends = [field.at + field.size for field in shown.fields]
    assert [0, *ends[:-1]] == [field.at for field in shown.fields], "no gap, no overlap"
    assert ends[-1] == at
    joined = {
        inside
        for field in shown.fields
        if field.name == "zero"  # some structs have its bytes in several pieces
        for inside in range(field.at + 1, field.at + field.size)
    }
    assert {field.at for field in shown.fields} == set(begun) - joined


@pytest.mark.parametrize("shown", layouts(), ids=lambda shown: shown.name)
def test_signed_numbers_are_called_so(shown: Shown) -> None:
    codes = "".join(
        code for one in shown.structs for code in re.findall(r"\d*[A-Za-z]", one.format.lstrip(">"))
    )
    signed = sum(1 for field in shown.fields if field.holds.startswith("signed"))
    assert signed == len(re.findall("[qli]", codes))


def test_magics_and_versions_are_in_the_bytes() -> None:
    position, before = Position(7, 40), Position(5, 30)
    written = {
        "batch header": batch_format.build(1, position, 38, before, ()).buffers[0],
        "frame header": keeping.frame(3, [23]).head,
        "sorted header": sorted_format.header(1, 8),
        "sorted footer": sorted_format.table_and_footer(1, 8, 28, ()),
        "checkpoint head": checkpoint_format.render(Checkpoint(log_id=1, limbo_generation=6)),
        "boots": boots.render(5),
        "log end": log_end.render(log_end.none_of(1)),
        "known": known_metadata.render(Knowledge(starts=1, ids=2, policy=3)),
    }
    with_magic = {shown.name: shown for shown in layouts() if shown.fields[0].name == "magic"}
    assert set(with_magic) == set(written)
    for name, data in written.items():
        magic, version, zero, *_ = with_magic[name].fields
        assert data[: magic.size] == magic.holds.strip("`").encode()
        assert str(data[version.at]) in re.split(" or |, ", version.holds)
        assert not any(data[zero.at : zero.at + zero.size])


def test_headers_are_as_long_as_the_page_says() -> None:
    sizes = {shown.name: sum(field.size for field in shown.fields) for shown in layouts()}
    assert sizes["batch header"] == batch_format.HEADER_BYTES
    assert sizes["sorted header"] == sorted_format.HEADER_BYTES
    assert sizes["sorted footer"] == sorted_format.FOOTER_BYTES
    assert sizes["table row"] == sorted_format.ROW_BYTES
    assert sizes["boots"] == len(boots.render(1))
    assert sizes["log end"] == log_end.SIZE
    assert sizes["known"] == len(known_metadata.render(Knowledge()))


def test_limits_are_those_of_the_code() -> None:
    ((_, rows),) = rows_below("values")
    for cell, value, *_ in rows:
        module, _, name = cell.strip("`").rpartition(".")
        number, _, unit = value.partition(" ")
        assert getattr(module_of(module), name) == Fraction(number) * UNITS.get(unit, 1), cell


async def test_the_files_are_those_that_a_bookie_makes() -> None:
    ((_, rows),) = rows_below("files")
    named = {name.rstrip("/") for row in rows for name in re.findall(r"`([^`]+)`", row[0])}
    assert named == {
        identity.LOCK_NAME,
        identity.VERSION_NAME,
        boots.NAME,
        known_metadata.NAME,
        checkpoint.NAME,
        log_end.NAME,
        process.INDEX_NAME,
        indexes._NEW,
        indexes._OLD,
        arrivals.name_of(1),
        directories.name_of(1),
    }
    for name in (
        identity.VERSION_NAME,
        boots.NAME,
        known_metadata.NAME,
        checkpoint.NAME,
        log_end.NAME,
    ):
        assert f"`{whole_files.new_name(name)}`" in PAGE

    files = MemoryFileSystem()
    async with running.running(files):
        pass
    assert {re.sub(r"\d{8}$", "00000001", name) for name in files.names()} <= named
