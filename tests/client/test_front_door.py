"""``zonekeeper.client`` is where applications import from: all that is promised is there."""

import ast
import inspect
import subprocess
import sys

import pytest

from zonekeeper import client


def test_every_promised_name_is_there_and_comes_from_where_a_type_checker_sees_it() -> None:
    seen: dict[str, object] = {}
    for node in ast.walk(ast.parse(inspect.getsource(client))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zonekeeper."):
            for alias in node.names:
                home = __import__(f"{node.module}", fromlist=[alias.name])
                seen[alias.name] = getattr(home, alias.name)

    assert {name: getattr(client, name) for name in client.__all__} == seen
    assert dir(client) == sorted(seen)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'zonekeeper\.client' has no attribute 'conect'"):
        client.conect  # type: ignore[attr-defined]  # noqa: B018 the misspelling is the test


def test_who_needs_only_the_errors_does_not_load_grpc() -> None:
    asked = "import sys; from zonekeeper.client import errors; sys.exit('grpc' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0
