"""Whatever name a person gives, the path of it is below the root, or it is refused."""

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zonekeeper.metadata.formats import ledger_paths, log_names
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.formats.ledger_paths import LEDGER_ID_MAX
from zonekeeper.metadata.logs import log_candidate, log_cursor
from zonekeeper.metadata.store import store as stores
from zonekeeper.metadata.store.errors import BadPathError
from zonekeeper.metadata.store.layout import Root
from zonekeeper.metadata.stores import uri
from zonekeeper.metadata.stores.uri import ZooKeeperAddress
from zonekeeper.placement.base import locations
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.base.troubles import Trouble

ROOT: Final = Root("/ledgers")
#: Pieces of which a name is made that wants to be elsewhere.
PIECES: Final = st.sampled_from(
    [
        "..",
        ".",
        "/",
        "\\",
        "\x00",
        "\n",
        "a",
        "%2e%2e",
        "\uff0e\uff0e",
        "\u2215",
        ":",
        " ",
        "-",
        "\u202e",
    ]
)
HOSTILE: Final = st.lists(PIECES, min_size=1, max_size=8).map("".join) | st.text(max_size=30)


def bookie(name: str) -> str:
    Cookie(bookie=BookieId(name), journal_dirs=("/j",), ledger_dirs=("/l",))
    return ROOT.cookie(BookieId(name))


def zone(name: str) -> str:
    return ROOT.gate(locations.zone_name(name))


BUILDERS: Final[dict[str, Callable[[str], str]]] = {
    "bookie": bookie,
    "zone": zone,
    "log": lambda name: ROOT.beside(f"logs{log_names.path(name)}"),
    "cursor": lambda name: ROOT.beside(f"logs/x{log_cursor.node(name)}"),
    "candidate": lambda name: ROOT.beside(f"logs/x/{log_candidate.node(name)}"),
}


@pytest.mark.parametrize("kind", BUILDERS)
@given(name=HOSTILE)
@example(name="..")
@example(name="../../zookeeper/config")
@example(name="a/../../b")
@example(name="a\x00")
@example(name="")
def test_a_path_of_a_name_is_below_the_root_or_the_name_is_refused(kind: str, name: str) -> None:
    try:
        path = BUILDERS[kind](name)
    except (Trouble, ValueError):
        return
    stores.check_path(path, store="test")
    assert path.startswith((f"{ROOT.path}/", f"{ROOT.own}/"))
    assert ".." not in path.split("/")
    assert path.count("/") <= 20


@given(st.integers(0, LEDGER_ID_MAX))
def test_a_ledger_s_path_is_digits_below_the_root(number: int) -> None:
    path = ROOT.below(ledger_paths.path(LedgerId(number))[1:])
    stores.check_path(path, store="test")
    assert set(path.removeprefix("/ledgers/")) <= set("0123456789L/")


@given(HOSTILE)
@example("/a/../b")
@example("/a/./b")
def test_a_root_that_a_person_names_is_plain_or_refused(name: str) -> None:
    try:
        found = uri.parse(f"zk://host:2181/{name}")
    except Trouble:
        return
    assert isinstance(found, ZooKeeperAddress)
    stores.check_path(found.root, store="test")


@given(HOSTILE)
def test_the_store_itself_takes_no_path_with_a_second_spelling(name: str) -> None:
    path = f"/ledgers/{name}"
    try:
        stores.check_path(path, store="test")
    except BadPathError:
        return
    parts = path[1:].split("/")
    assert not {"", ".", ".."} & set(parts)
    assert path.isprintable()
