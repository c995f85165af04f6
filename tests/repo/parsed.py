"""What modules hold. Each text is parsed once a process, however many copies of it there are."""

import ast
import functools
from typing import NamedTuple


class Function(NamedTuple):
    """A function of a module, and the lines of the imports inside it."""

    name: str
    line: int
    lines: int
    imports: tuple[int, ...]


@functools.cache
def functions(text: str) -> tuple[Function, ...]:
    """List the functions of a module."""
    return tuple(
        Function(
            name=node.name,
            line=node.lineno,
            lines=(node.end_lineno or node.lineno) - node.lineno + 1,
            imports=tuple(
                inside.lineno
                for inside in ast.walk(node)
                if isinstance(inside, ast.Import | ast.ImportFrom)
            ),
        )
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


class PublicClass(NamedTuple):
    """A class at the top of a module, and its bases as they are spelled."""

    name: str
    line: int
    bases: frozenset[str]


@functools.cache
def docstring(text: str) -> str:
    """Give what a module says of itself."""
    return ast.get_docstring(ast.parse(text)) or ""


@functools.cache
def public_classes(text: str) -> tuple[PublicClass, ...]:
    """List the classes at the top of a module that have a public name."""
    return tuple(
        PublicClass(node.name, node.lineno, frozenset(map(ast.unparse, node.bases)))
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


@functools.cache
def imports(text: str) -> tuple[str, ...]:
    """List what a module imports, anywhere in it."""
    return tuple(each for node in ast.walk(ast.parse(text)) for each in _imported(node))


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
