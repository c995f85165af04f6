"""Which words fit what is typed, without a command and without a cluster."""

import pytest

from zonekeeper.shell.completing import word_tree
from zonekeeper.shell.completing.word_tree import Words

STATUS = Words(
    options={"--output": ("text", "json"), "-o": ("text", "json"), "--no-wait": "none"},
    arguments=("zone",),
    many=True,
)
SHOW = Words(options={"--metadata": "text", "--zone": "zone"}, arguments=("bookie", "file"))
TREE = Words(
    commands={
        "zones": Words(commands={"status": STATUS, "stop": Words()}),
        "bookies": Words(commands={"show": SHOW}),
    },
    options={"--version": "none", "--help": "none"},
)
NAMES = {"zone": ["b", "a", "a"], "bookie": ["bk-a-0"]}


@pytest.mark.parametrize(
    ("typed", "begun", "found"),
    [
        ("", "", ["bookies", "zones"]),
        ("", "z", ["zones"]),
        ("", "--v", ["--version"]),
        ("zones", "st", ["status", "stop"]),
        ("zones status", "", ["a", "b"]),
        ("zones status a", "", ["a", "b"]),
        ("zones status", "--", ["--no-wait", "--output"]),
        ("zones status --output", "", ["text", "json"]),
        ("zones status -o", "j", ["json"]),
        ("zones status -o json", "", ["a", "b"]),
        ("zones status --output=json", "", ["a", "b"]),
        ("zones status --no-wait", "", ["a", "b"]),
        ("bookies show", "bk", ["bk-a-0"]),
        ("bookies show --zone", "", ["a", "b"]),
        ("bookies show --metadata zk://x/y", "", ["bk-a-0"]),
        ("bookies show bk-a-0 file more", "", []),
        ("zones stop", "", []),
        ("nonsense", "z", ["zones"]),
        ("zones --nonsense", "", ["status", "stop"]),
    ],
)
def test_s180_words_fit_what_is_typed(typed: str, begun: str, found: list[str]) -> None:
    place = word_tree.find(TREE, typed.split())
    names = NAMES.get(place.kind, []) if isinstance(place.kind, str) else []

    assert list(word_tree.fitting(place, begun, names)) == found


def test_the_place_knows_the_options_that_were_given() -> None:
    place = word_tree.find(TREE, ["bookies", "show", "--metadata", "zk://x/y", "--zone=a"])

    assert place.path == ("bookies", "show")
    assert place.given == {"--metadata": "zk://x/y", "--zone": "a"}
    assert word_tree.find(TREE, ["bookies", "show", "bk-a-0"]).kind == word_tree.FILE


LOG = Words(options={"--cursor": "log cursor", "--max": "text"}, arguments=("log", "log cursor"))


@pytest.mark.parametrize(
    ("typed", "kind", "log"),
    [
        ("", "log", None),
        ("a/b", "log cursor", "a/b"),
        ("a/b c", "text", "a/b"),
        ("--cursor", "log cursor", None),
        ("a/b --cursor", "log cursor", "a/b"),
        ("--max 3 a/b --cursor =", "log cursor", "a/b"),
        ("--max=3 a/b --cursor", "log cursor", "a/b"),
    ],
)
def test_the_place_knows_the_arguments_that_were_given(
    typed: str, kind: str, log: str | None
) -> None:
    place = word_tree.find(LOG, typed.split())
    assert (place.kind, place.argument("log")) == (kind, log)


def test_a_command_below_another_has_arguments_of_its_own() -> None:
    place = word_tree.find(Words(commands={"read": LOG}), ["nonsense", "read", "a/b"])
    assert place.arguments == ("a/b",)


@pytest.mark.parametrize(
    ("begun", "found"),
    [
        ("", ["a/", "b/", "c"]),
        ("a", ["a/x/1", "a/x/2", "a/y"]),
        ("a/x", ["a/x/1", "a/x/2"]),
        ("b", ["b/p/1", "b/p/2", "b/p/3", "b/p/4"]),
        ("b/p/3", ["b/p/3"]),
        ("n", []),
    ],
)
def test_many_names_are_given_by_their_parts(begun: str, found: list[str]) -> None:
    names = ["a/x/1", "a/x/2", "a/y", "b/p/1", "b/p/2", "b/p/3", "b/p/4", "c"]
    assert word_tree.by_parts(names, begun, 3) == found


def test_parts_stand_for_what_is_below_them() -> None:
    names = ["a/x/1", "a/x/2", "a/y/1", "a/y/2"]
    assert word_tree.by_parts(names, "", 3) == ["a/x/", "a/y/"], "alone, a/ would be the whole word"
    assert word_tree.by_parts(names, "", 4) == names


def test_words_are_written_and_read_again() -> None:
    plain = word_tree.plain(TREE)

    assert word_tree.parse(_as_json(plain)) == TREE


def _as_json(data: object) -> object:
    if isinstance(data, dict):
        return {name: _as_json(one) for name, one in data.items()}
    if isinstance(data, list | tuple):
        return [_as_json(one) for one in data]
    return data


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"commands": {}, "options": {"--x": "colour"}, "arguments": [], "many": False},
        {"commands": {}, "options": {"--x": [1]}, "arguments": [], "many": False},
        {"commands": {"x": 7}, "options": {}, "arguments": [], "many": False},
    ],
)
def test_what_are_no_words_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match=r"no words|no kind"):
        word_tree.parse(data)
