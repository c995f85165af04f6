"""``zonekeeper ledger create`` and ``append`` with ``--owner``, on a cluster in one loop."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.client.lab import INSTANCE, Lab, played
from tests.support.certificates import Authority, of_role
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.formats.ledger_metadata import OWNER_KEY
from zonekeeper.shell.commands import ledger, ledger_options
from zonekeeper.shell.reports import ledger_text
from zonekeeper.wire.identity.principals import Role


def options(*words: str) -> dict[str, object]:
    """Give the options of a new ledger as a command gets them."""
    got: dict[str, object] = {}

    @click.command()
    @ledger_options.creation
    def wanted(**found: object) -> None:
        got.update(found)

    assert CliRunner().invoke(wanted, words, catch_exceptions=False).exit_code == 0
    return got


@played()
async def test_a_command_makes_a_ledger_of_the_owner_that_it_names(
    lab: Lab, tmp_path: Path
) -> None:
    files = of_role(Authority(tmp_path / "ca"), Role.ADMIN, instance=INSTANCE)
    async with lab.client(config=ClientConfig(tls=files)) as client:
        for words, owner in (
            (["--owner", "client/ingest"], "client/ingest"),
            (["--owner", "me"], "admin/admin-1"),
            ([], ""),
        ):
            writer = await ledger._created(client, options(*words))
            await writer.close()
            found = await client.metadata(writer.ledger_id)
            assert found.owner == owner
            told = ledger_text.line(writer.ledger_id, found)
            assert told.endswith(f"3 bookies; of {owner}" if owner else "3 bookies")
            assert dict(ledger_text.rows(writer.ledger_id, found))["owner"] == (owner or "none")
            assert ledger_text.plain(writer.ledger_id, found)["owner"] == (owner or None)


@played()
async def test_without_a_certificate_no_ledger_is_the_commands_own(lab: Lab) -> None:
    async with lab.client() as client:
        with pytest.raises(errors.NoPrincipal, match="has no certificate"):
            await ledger._created(client, options("--owner", "me"))
    assert errors.NoPrincipal in ledger._WRONG, "then the exit code is 2"


@pytest.mark.parametrize("given", ["", "Me", "ingest", "king/a", "client/", "client/a b"])
def test_what_is_no_owner_is_refused(given: str) -> None:
    with pytest.raises(RefusedCommand, match=r"--owner: .*is no principal.*me is your own"):
        ledger_options.owner(given)


def test_an_owner_is_not_custom_metadata() -> None:
    with pytest.raises(RefusedCommand, match="is taken: give --owner"):
        ledger_options.custom((f"{OWNER_KEY}=client/a",))
