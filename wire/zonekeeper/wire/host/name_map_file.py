"""The file of the map of foreign names (``identity.name_map``), read again when it changes."""

import logging
from pathlib import Path
from typing import Final

from zonekeeper.wire.identity import name_map
from zonekeeper.wire.identity.name_map import NameMap

BYTES_MAX: Final = 1 << 20

_logger = logging.getLogger(__name__)


class NameMapFile:
    """The map as the file is now. A file that cannot be used changes nothing."""

    def __init__(self, path: Path) -> None:
        """Raises OSError or ValueError for an unusable file."""
        self._path = path
        self._state = _state(path)
        self.current: NameMap = _read(path)
        self._trouble = ""

    def renew(self) -> bool:
        """Look at the file again, and say whether the map is another one now."""
        try:
            state = _state(self._path)  # taken before reading: a later change is seen next time
            if state == self._state:
                return False
            try:
                renewed = _read(self._path)
            except ValueError:
                self._state = state  # each call looks: a file with a mistake is not read each time
                raise
        except (OSError, ValueError) as error:
            if str(error) != self._trouble:
                _logger.warning("the map of names stays as it was read before: %s", error)
            self._trouble = str(error)
            return False
        self._state, self._trouble = state, ""
        is_another = renewed.lines != self.current.lines
        self.current = renewed
        return is_another


def of_flag(path: Path | None) -> NameMapFile | None:
    """Give the map that ``--access-names`` names; None: none. Raises ``OSError``, with the flag."""
    if path is None:
        return None
    try:
        return NameMapFile(path)
    except (OSError, ValueError) as error:
        raise OSError(f"--access-names: {error}") from error


def _state(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _read(path: Path) -> NameMap:
    with path.open("rb") as file:
        data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise ValueError(f"{path}: larger than {BYTES_MAX} bytes; is it a map of names?")
    try:
        return name_map.parse(data.decode("utf-8"))
    except ValueError as error:  # text that is not UTF-8 is one, too
        raise ValueError(f"{path}: {error}") from error
