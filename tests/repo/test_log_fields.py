"""The facts that a line of the log carries: their names stand in one table, and on its page."""

import ast
import logging
from collections.abc import Iterator

from tests.repo import guards
from tests.support.checkout_root import ROOT
from zonekeeper.wire.running import log_lines

#: What stands in every line; no fact may have such a name.
TAKEN = {"time", "level", "process", "component", "logger", "event", "error"}


def named() -> Iterator[tuple[str, str]]:
    """Give the names of all facts that the product's code gives to its log, with their places."""
    for path, file in guards.sources(ROOT, guards.COMPONENTS):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "extra":
                yield from ((path, name) for name in names_in(node.value, tree))


def names_in(given: ast.AST, tree: ast.AST) -> Iterator[str]:
    """Give the keys of the dictionaries in an expression, and in what its names stand for."""
    yield from names_in_dicts(given)
    for node in ast.walk(given):
        if isinstance(node, ast.Name):
            for assigned in ast.walk(tree):
                if isinstance(assigned, ast.Assign) and any(
                    isinstance(target, ast.Name) and target.id == node.id
                    for target in assigned.targets
                ):
                    yield from names_in_dicts(assigned.value)


def names_in_dicts(given: ast.AST) -> Iterator[str]:
    for node in ast.walk(given):
        if isinstance(node, ast.Dict):
            yield from (str(key.value) for key in node.keys if isinstance(key, ast.Constant))


def test_each_fact_stands_in_the_table() -> None:
    """A name that is not there would be left out of the line, without an error."""
    found = list(named())
    assert found
    assert [one for one in found if one[1] not in log_lines.FIELDS] == []


def test_no_name_is_one_that_a_record_has_or_a_line_has() -> None:
    taken = vars(logging.LogRecord("", 0, "", 0, "", (), None)).keys() | TAKEN | {"message"}
    assert sorted(taken & log_lines.FIELDS.keys()) == []


def test_the_page_has_the_table() -> None:
    lines = (ROOT / "docs" / "logs.md").read_text().splitlines()
    rows = [f"| `{log_lines.shown(name)}` | {text} |" for name, text in log_lines.FIELDS.items()]
    assert [line for line in lines if line in rows] == rows
