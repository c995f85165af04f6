"""A folder with the three files of one side of TLS: they have the same names everywhere.

Each file is replaced whole, so that a process which reads them again never sees a part. Only the
owner of the process that wrote them reads the key.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zonekeeper.placement.base.hidden import Secret

#: The names are those of the keys of a Secret of the type ``kubernetes.io/tls``, and of the trusted
#: authorities beside them.
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
AUTHORITIES: Final = "ca.crt"

_KEY_MODE: Final = 0o600
_MODE: Final = 0o644


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class IssuedFiles:
    """The contents of the three files; there is no text of it, because it has a key."""

    certificate: bytes
    key: Secret
    authorities: bytes
    not_after_ms: int


def write(files: IssuedFiles, folder: Path) -> tuple[Path, ...]:
    """Write the files into a folder, which is made if it is not there; give their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = (
        (AUTHORITIES, files.authorities, _MODE),
        (CERTIFICATE, files.certificate, _MODE),
        (KEY, files.key, _KEY_MODE),
    )
    fresh = [
        (_written(folder / f".{name}.new", data, mode), folder / name)
        for name, data, mode in contents
    ]
    for new, path in fresh:
        new.replace(path)
    return tuple(path for _, path in fresh)


def _written(path: Path, data: bytes, mode: int) -> Path:
    path.unlink(missing_ok=True)  # one that was left may have another mode
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path
