"""Options of ``zonekeeper ledger``: quorums, passwords, custom metadata, input."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final, Literal

import click

from zonekeeper.log.sessions.chain import STAMP_KEY
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import OWNER_KEY
from zonekeeper.metadata.formats.ledger_paths import LEDGER_ID_MAX
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.hidden import Secret
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules_data import ENSEMBLE_MAX
from zonekeeper.wire.identity import principals

#: The password, if no file is given. No option takes it: all users of a machine see command lines.
PASSWORD_VARIABLE: Final = "ZONEKEEPER_LEDGER_PASSWORD"  # noqa: S105 the name of a variable

_ENTRY_ID_MAX: Final = (1 << 63) - 1
NUMBER: Final = click.IntRange(0, LEDGER_ID_MAX)
ENTRY: Final = click.IntRange(0, _ENTRY_ID_MAX)
LEDGER: Final = click.argument("ledger_id", metavar="LEDGER", type=NUMBER)
PASSWORD: Final = click.option(
    "--password-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help=f"The ledger's password, in a file. Without it {PASSWORD_VARIABLE} is used, if it is set.",
)
FORCE: Final = click.option("--force", is_flag=True, help="Also a ledger of a log.")
#: Stands for the principal of the command itself; it is no principal, as it has no role.
OWN: Final = "me"
_QUORUMS_PARTS: Final = 3
#: A number with more digits is a mistake, and takes long to read.
_DIGITS_MAX: Final = 9


def password(file: Path | None) -> Secret:
    """Give a ledger's password: from a file, without its last newline, or from the environment."""
    if file is None:
        return Secret(os.environb.get(PASSWORD_VARIABLE.encode(), b""))
    found = file.read_bytes().removesuffix(b"\n").removesuffix(b"\r")
    if not found:
        raise RefusedCommand(
            f"{file} is empty: for a ledger without a password give no --password-file"
        )
    return Secret(found)


def password_tried(file: Path | None) -> str:
    """Say where the wrong password came from, and how to give another."""
    if file is not None:
        return f"the one in {file} was tried"
    if os.environb.get(PASSWORD_VARIABLE.encode()):
        return f"the one in {PASSWORD_VARIABLE} was tried; --password-file goes before it"
    return f"none was given: use --password-file, or {PASSWORD_VARIABLE}"


class QuorumsParameter(click.ParamType[tuple[int, ...]]):
    """Quorums as ``3/3/2``: ensemble, write, ack."""

    name = "E/W/A"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Read three sizes; refuse any but ``ENSEMBLE_MAX >= ensemble >= write >= ack >= 1``."""
        parts = str(value).split("/")
        if len(parts) != _QUORUMS_PARTS or not all(p.isascii() and p.isdecimal() for p in parts):
            self.fail(f"{value!r}: write ensemble, write and ack quorum, as 3/3/2", param, ctx)
        if any(len(part) > _DIGITS_MAX for part in parts) or int(parts[0]) > ENSEMBLE_MAX:
            self.fail(f"{value!r}: an ensemble has {ENSEMBLE_MAX} bookies at most", param, ctx)
        sizes = tuple(map(int, parts))
        if not sizes[0] >= sizes[1] >= sizes[2] >= 1:
            self.fail(f"{value!r}: it must be ensemble >= write >= ack >= 1", param, ctx)
        return sizes


class InputParameter(click.File):
    """A file of bytes, or standard input, if there is one."""

    def __init__(self) -> None:
        super().__init__("rb")

    def convert(
        self,
        value: "str | os.PathLike[str] | IO[bytes]",
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> IO[bytes]:
        """Open the file."""
        if value == "-" and sys.stdin is None:
            self.fail("standard input is closed: name a file", param, ctx)
        return super().convert(value, param, ctx)


def creation(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a new ledger."""
    for option in (
        click.option(
            "--custom",
            multiple=True,
            metavar="KEY=VALUE",
            help="Keep this with the ledger's metadata; may be given several times.",
        ),
        click.option(
            "--digest",
            type=click.Choice([digest.value for digest in Digest]),
            help="How entries are checked.  [default: as the policy says]",
        ),
        click.option(
            "--quorums",
            type=QuorumsParameter(),
            metavar="E/W/A",
            help="Ensemble, write and ack quorum.  [default: as the policy says]",
        ),
        click.option(
            "--owner",
            metavar="ROLE/NAME",
            help=f"The principal that the ledger belongs to, for good, as client/ingest; {OWN} for "
            "the one that --tls-certificate names.  [default: none]",
        ),
        PASSWORD,
    ):
        command = option(command)
    return command


def quorums(sizes: tuple[int, int, int] | None, policy: Quorums) -> Quorums | None:
    """Give the quorums, with ``ack_zones = min(policy.ack_zones, ack)``; None: none were given."""
    if sizes is None:
        return None
    ensemble, write, ack = sizes
    return Quorums(ensemble=ensemble, write=write, ack=ack, ack_zones=min(policy.ack_zones, ack))


def custom(pairs: tuple[str, ...]) -> Mapping[str, bytes]:
    """Read custom metadata from ``KEY=VALUE`` pairs."""
    found: dict[str, bytes] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not key or not sign:
            raise RefusedCommand(f"--custom {pair}: write KEY=VALUE")
        if not _is_text(key):
            raise RefusedCommand(
                f"--custom {pair!r}: a key must be UTF-8; a value may be any bytes"
            )
        if key == placement_stamp.KEY:
            raise RefusedCommand(
                f"--custom {key}: this key says how entries are placed, and is taken"
            )
        if key == STAMP_KEY:
            raise RefusedCommand(
                f"--custom {key}: this key names the log of a ledger, and is taken"
            )
        if key == OWNER_KEY:
            raise RefusedCommand(
                f"--custom {key}: this key says whose the ledger is, and is taken: give --owner"
            )
        if key in found:
            raise RefusedCommand(f"--custom {key} is given twice")
        found[key] = os.fsencode(value)
    return found


def owner(given: str | None) -> str | Literal[True] | None:
    """Read the owner of a new ledger; True: the principal of the command itself."""
    if given is None:
        return None
    if given == OWN:
        return True
    try:
        return str(principals.principal_of(given))
    except ValueError as error:
        raise RefusedCommand(f"--owner: {error}; {OWN} is your own") from None


def _is_text(word: str) -> bool:
    """Is a word valid text? Bytes of a command line that are not UTF-8 come as surrogates."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
