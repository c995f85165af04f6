"""Small texts that would become large, deep or endless: each reader refuses them as a trouble.

A bomb costs its reader no more than a few times its bytes, and is never a ``RecursionError``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support import allocations
from zonekeeper.metadata.commands import yaml_files
from zonekeeper.metadata.formats import records, release_formats
from zonekeeper.metadata.saving import rebuilding_format
from zonekeeper.operator.admission import reviews
from zonekeeper.pipeline.reports import export_manifest
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.wire.formats import socket_messages
from zonekeeper.wire.formats.errors import ProtocolError

DEEP: Final = 100_000
BOMBS: Final = {
    "lists": "[" * DEEP + "]" * DEEP,
    "objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "open lists": "[" * DEEP,
    "inside": '{"kind": ' + "[" * DEEP + "]" * DEEP + "}",
    "a number": '{"version": ' + "9" * 1_000_000 + "}",
    "an exponent": '{"version": 1e999999999}',
    "not a number": '{"version": NaN}',
    "endless": '{"version": -Infinity}',
    "half a character": '{"version": "\\ud800"}',
}
READERS: Final[dict[str, Callable[[bytes], object]]] = {
    "records": records.parse_object,
    "formats": lambda raw: release_formats.parse(raw.decode()),
    "reviews": reviews.parse,
    "hints": lambda raw: list(rebuilding_format.read([raw.decode() + "\n"])),
    "manifest": export_manifest.parse,
    "greeting": socket_messages.parse_client_greeting,
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_bomb_is_a_trouble_and_nothing_else(reader: Callable[[bytes], object], bomb: str) -> None:
    with pytest.raises((Trouble, ProtocolError)) as told:
        reader(bomb.encode())
    assert len(str(told.value)) < 1_000


YAML_BOMBS: Final = {
    "laughs": "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)),
    "itself": "a: &a [*a]\n",
    "deep": "[" * DEEP + "]" * DEEP,
    "python": "!!python/object/apply:os.system ['true']",
    "a number": "a: " + "9" * 100_000,
    "twice": "a: 1\na: 2\n",
    "two": "a: 1\n---\nb: 2\n",
    "large": "a: " + "x" * (yaml_files.FILE_BYTES_MAX + 1),
}


@pytest.mark.parametrize("name", YAML_BOMBS)
def test_a_file_of_yaml_is_refused_or_small(name: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(YAML_BOMBS[name])
    if name in ("laughs", "itself"):  # an alias is one object, however often it is named
        with allocations.peak_below(16 << 20):
            yaml_files.load(file)
        return
    with pytest.raises(yaml_files.UnreadableFileError) as told:
        yaml_files.load(file)
    assert len(str(told.value)) < 1_000
