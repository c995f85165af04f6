"""YAML files that people write, as plain data.

The reader is stricter than YAML. A name may stand only once in a mapping: YAML readers silently
take the last value. A date is read as text. A file holds one document, of at most
``FILE_BYTES_MAX`` bytes.
"""

import os
import sys
from collections.abc import Hashable
from pathlib import Path
from typing import Final

import yaml

from zonekeeper.placement.base.troubles import Refusal

FILE_BYTES_MAX: Final = 1 << 20
STDIN: Final = Path("-")


class UnreadableFileError(Refusal, ValueError):
    """The file is missing, too large or not YAML; the message says where and what to do."""


class _Loader(yaml.SafeLoader):
    """A loader that accepts plain data only, and each name once in a mapping."""

    yaml_implicit_resolvers = {  # noqa: RUF012 the base class declares it so
        first: [(tag, form) for tag, form in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen: set[object] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else id(key)
            if name in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{name} stands here a second time; remove one of them",
                    problem_mark=key.start_mark,
                )
            seen.add(name)
        return super().construct_mapping(node, deep)


def load(path: Path) -> object:
    """Read one YAML document from a file, or from standard input for ``-``."""
    name = "standard input" if path == STDIN else str(path)
    try:
        if path == STDIN:
            raw = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with path.open("rb") as file:
                raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UnreadableFileError(f"{name}: {os.strerror(error.errno or 0)}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise UnreadableFileError(f"{name}: larger than {FILE_BYTES_MAX >> 20} MiB: not for this")
    try:
        data: object = yaml.load(raw, _Loader)  # noqa: S506 a SafeLoader, made stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise UnreadableFileError(f"{where}: not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise UnreadableFileError(f"{name}: not YAML: {error}") from None
    return data
