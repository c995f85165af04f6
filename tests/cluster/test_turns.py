"""The lab's long tests take turns: none is left out of all of them, and a commit keeps its turn."""

import subprocess

from tests.cluster import turns
from tests.support.checkout_root import ROOT

NAMES = [f"tests/cluster/test_{number}.py::test_it" for number in range(7)]


def test_each_test_has_exactly_one_turn() -> None:
    played = [set(NAMES) - set(turns.left_out(NAMES, turn)) for turn in range(turns.TURNS)]
    assert all(played)
    assert sorted(name for names in played for name in names) == sorted(NAMES)


def test_the_turn_does_not_depend_on_the_order_of_collection() -> None:
    assert turns.left_out(NAMES, 0) == turns.left_out(NAMES[::-1], 0)


def test_trees_share_the_turns_and_a_tree_keeps_its_own() -> None:
    assert {turns.turn_of(f"{number:040x}") for number in range(32)} == set(range(turns.TURNS))
    assert turns.turn_of(turns.tree()) in range(turns.TURNS)
    assert turns.tree() == turns.tree()


def test_there_are_tests_for_each_turn() -> None:
    marked = subprocess.run(
        ["grep", "-l", f"pytest.mark.{turns.MARKER}", "-r", "tests/cluster", "--include=test_*.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert len(set(marked) - {"tests/cluster/test_turns.py"}) >= turns.TURNS
