"""Names of logs, and where their records stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.metadata.formats import log_names
from zonekeeper.metadata.formats.log_names import LOG_NAME_LENGTH_MAX, BadLogNameError

PARTS = st.from_regex(r"\A[a-c_][a-c._-]{0,3}\Z")
NAMES = st.lists(PARTS, min_size=1, max_size=4).map("/".join)


def test_a_log_stands_where_the_page_says() -> None:
    assert log_names.path("orders/eu-1") == "/1c/orders/a8/d/eu-1"
    assert log_names.path("eu/west/orders") == "/64/eu:west/1c/1/orders"
    assert log_names.path("single") == "/e3/:/94/7/single"
    assert log_names.page_path(41_007) == "/000041/007"


@given(NAMES, NAMES)
def test_two_names_never_have_one_path_nor_one_below_the_other(one: str, other: str) -> None:
    if one != other:
        paths = sorted([log_names.path(one), log_names.path(other)])
        assert not f"{paths[1]}/".startswith(f"{paths[0]}/")


@given(NAMES)
def test_a_namespace_is_known_again(name: str) -> None:
    namespace, _, last = name.rpartition("/")
    part = log_names.namespace_path(namespace).rpartition("/")[2]

    assert log_names.namespace_of(part) == namespace
    assert log_names.full(namespace, last) == name
    assert log_names.path(name).startswith(f"{log_names.namespace_path(namespace)}/")


@pytest.mark.parametrize(
    "name",
    ["", "/", "a/", "/a", "a//b", ".", "..", "a/..", "a/.b", "-a", "a b", "a:b", "a\n", "a/\u00fc",
     "a" * (LOG_NAME_LENGTH_MAX + 1), "a" * 100_000],
)  # fmt: skip
def test_another_text_is_refused_in_words(name: str) -> None:
    with pytest.raises(BadLogNameError, match="it looks like orders/eu-1") as caught:
        log_names.path(name)

    assert len(str(caught.value)) < 1_000


def test_folders_of_pages_begin_and_end_where_their_paths_change() -> None:
    for page in (*range(3), *range(998, 1_003), *range(1_998, 2_002)):
        folder = log_names.page_folder(page)
        assert log_names.begins_folder(page) == (
            page == 0 or log_names.page_folder(page - 1) != folder
        )
        assert log_names.ends_folder(page) == (log_names.page_folder(page + 1) != folder)
