"""``zonekeeper.client`` is where applications import from: all that is promised is there."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

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


def test_what_the_settings_of_a_client_are_made_of_can_be_had_at_the_door() -> None:
    files = client.TlsFiles(authority=Path("ca"), certificate=Path("own"), key=Path("key"))
    config = client.ClientConfig(
        zone="a", links=client.LinkSettings(), store=client.Timeouts(), tls=files
    )
    assert config.zone == "a"


BAD = ["", "nonsense", "http://host/ledgers", "zk:", "zk://host:0/x", "sqlite:relative.db"]


@pytest.mark.parametrize("address", BAD)
async def test_a_bad_address_is_a_wrong_value_and_says_what_would_be_right(address: str) -> None:
    with pytest.raises(client.errors.BadAddress, match=r"zk://host.*sqlite:///.*memory:") as told:
        async with client.connect(address):
            pytest.fail("it cannot be opened")
    assert isinstance(told.value, ValueError)
    assert isinstance(told.value, client.errors.ClientError)
    assert (told.value.retryable, told.value.maybe_applied) == (False, False)
    with pytest.raises(client.errors.BadAddress), client.blocking.connect(address):
        pytest.fail("it cannot be opened")


async def test_a_bad_address_never_shows_its_options() -> None:
    with pytest.raises(client.errors.BadAddress) as told:
        async with client.connect("zk://host:0/x?password=sesame"):
            pytest.fail("it cannot be opened")
    assert "sesame" not in str(told.value)
