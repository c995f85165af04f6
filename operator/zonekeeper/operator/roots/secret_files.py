"""Secrets as files that are on no disk.

ZooKeeper's client wants files, and the operator's pod has no folder to write in. So each value is a
file in memory without a name, and its path is that of its descriptor. It is gone with the process.
"""

import os
from collections.abc import Mapping


class SecretFiles:
    """The values of one Secret; ``close`` forgets them, and they may be held again."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._files: dict[str, int] = {}
        #: Counts the changes of the values.
        self.turn = 0

    def hold(self, values: Mapping[str, bytes]) -> dict[str, str]:
        """Hold these values and no others; give their paths."""
        if values != self._values:
            self.close()
            for key, value in values.items():
                held = os.memfd_create(key, os.MFD_CLOEXEC)
                self._files[key] = held
                with os.fdopen(held, "wb", closefd=False) as file:
                    file.write(value)
            self._values = dict(values)
            self.turn += 1
        return {key: f"/proc/self/fd/{held}" for key, held in self._files.items()}

    def close(self) -> None:
        """Forget the values."""
        for held in self._files.values():
            os.close(held)
        self._files, self._values = {}, {}
