"""A content in memory is what the same writes make of an array, and its zeros take no memory."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.support.allocations import peak_below
from zonekeeper.bookie.disk.memory_content import PAGE_BYTES, Content
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem

MIB = 1 << 20

#: Near the boundaries of pages, where a cut may be wrong.
OFFSETS = st.builds(
    lambda page, step: max(0, page * PAGE_BYTES + step), st.integers(0, 3), st.integers(-2, 2)
)


def everything(content: Content) -> bytes:
    return content.read(0, len(content))


@given(st.data())
def test_a_content_is_what_the_same_changes_make_of_an_array(data: st.DataObject) -> None:
    content, model = Content(), bytearray()
    for _ in range(data.draw(st.integers(1, 8))):
        offset = data.draw(OFFSETS)
        if data.draw(st.booleans()):
            content.resize(offset)
            del model[offset:]
            model.extend(bytes(offset - len(model)))
        else:
            written = data.draw(st.sampled_from([b"x", b"y", b"\0"])) * data.draw(OFFSETS)
            content.write(offset, written)
            model.extend(bytes(max(0, offset - len(model))))
            model[offset : offset + len(written)] = written
        begin, size = data.draw(OFFSETS), data.draw(OFFSETS)
        assert len(content) == len(model)
        assert content.read(begin, size) == model[begin : begin + size]
        assert everything(content) == model


def test_a_copy_and_its_original_do_not_see_each_others_changes() -> None:
    content = Content()
    content.write(0, b"x" * 2 * PAGE_BYTES)

    copy = content.copied()
    content.write(1, b"y")
    copy.resize(PAGE_BYTES)

    assert everything(content) == b"xy" + b"x" * (2 * PAGE_BYTES - 2)
    assert everything(copy) == b"x" * PAGE_BYTES


def test_what_was_cut_off_is_zeros_when_the_file_grows_again() -> None:
    content = Content()
    content.write(0, b"x" * 2 * PAGE_BYTES)

    content.resize(3)
    content.resize(2 * PAGE_BYTES)

    assert everything(content) == b"xxx" + bytes(2 * PAGE_BYTES - 3)


def test_files_that_are_filled_with_zeros_take_no_memory_whatever_their_length() -> None:
    with peak_below(4 * MIB):
        files = MemoryFileSystem()
        file = files.create("a")
        files.sync_names()
        for at in range(0, 64 * MIB, MIB):
            file.write(at, [bytes(MIB)])
            file.sync()
        after = files.crashed(random.Random(1))

    assert file.size() == after.open("a").size() == 64 * MIB
    assert after.open("a").read(64 * MIB - 1, 2) == b"\0"
    assert files.space().total_bytes - files.space().free_bytes == 64 * MIB
