"""A file with secrets: only its owner may read it, and it gets its name only when it is complete.

It is written as ``<name>.part`` in the same folder, readable only by its owner from the first byte.
When it is on the disk it is renamed. A file that had the name before is replaced, and never written
into, because others may be able to read it.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

_OWNER_ONLY: Final = 0o600


@contextlib.contextmanager
def written(target: Path) -> Iterator[TextIO]:
    """Give a file to write into; if the block fails, everything stays as it was before."""
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(
            os.open(part, flags, _OWNER_ONLY), "w", encoding="utf-8", newline="\n"
        ) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
