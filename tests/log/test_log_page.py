"""Each test that docs/log-streams.md names is there, and each row of its tables names one."""

import ast
import re
from typing import Final

from tests.support.checkout_root import ROOT

PAGE: Final = (ROOT / "docs" / "log-streams.md").read_text("utf-8")
NAMED: Final = re.compile(r"`([\w/]+\.py)::(\w+)`")


def rows(title: str) -> list[str]:
    """Give the rows of the tables of a section, without their heads."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rules = [at for at, line in enumerate(lines) if set(line) <= set("|-")]
    heads = {at - 1 for at in rules} | {*rules}
    return [line for at, line in enumerate(lines) if at not in heads]


def written_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    return {
        one.name
        for one in tree.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_")
    }


def test_each_test_that_is_named_is_there() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) > 15
    assert not [f"{file}::{test}" for file, test in named if test not in written_in(file)]
    assert PAGE.count("::") == len(named), "a test is named in another way"


def test_each_row_names_a_test() -> None:
    groups = rows("RocketMQ 5's replica groups: their idea, ours, or why not")
    table = rows("What goes on without a bookie, and without the writer")
    assert (len(groups), len(table)) == (10, 16)
    for row in groups + table:
        assert NAMED.search(row), row


def test_the_ideas_are_those_of_replica_groups() -> None:
    groups = rows("RocketMQ 5's replica groups: their idea, ours, or why not")
    for row, word in zip(
        groups,
        ("in-sync set", "priority", "epochs", "after the switch", "confirm offset", "n of m",
         "minInSync", "Beats", "by choice", "directed"),
        strict=True,
    ):  # fmt: skip
        assert word in row
