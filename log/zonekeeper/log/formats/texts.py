"""A text in an entry of a log: UTF-8, neither empty nor long. Pure."""

from typing import Final

from zonekeeper.metadata.formats.malformed import Flaw, MalformedError

TEXT_BYTES_MAX: Final = 1_000


def parse(raw: bytes, where: str) -> str:
    """Read a text; raises ``MalformedError``, which begins with ``where`` it stands."""
    if not 0 < len(raw) <= TEXT_BYTES_MAX:
        raise MalformedError(
            Flaw.OUT_OF_RANGE,
            f"{where}: a text of {len(raw)} bytes; the limit is {TEXT_BYTES_MAX}",
        )
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(Flaw.BAD_TEXT, f"{where}: a text is not UTF-8: {error}") from error
