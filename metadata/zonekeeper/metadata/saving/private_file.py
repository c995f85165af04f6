"""A file with secrets: nobody but its owner may read it, and it has its name only when it is whole.

It is written beside its place, as ``<name>.part``, readable by its owner from the first byte on,
and moved there when it is on the disk. A file that stood there until then, whoever may read it, is
replaced and never written into.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

_OWNER_ONLY: Final = 0o600


@contextlib.contextmanager
def written(target: Path) -> Iterator[TextIO]:
    """Give what to write into; if that ends with an error, everything is as it was before."""
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
