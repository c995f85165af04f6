"""The last words of a process: why it does not start, or does not go on, in one line of a file.

Kubernetes reads the file when the container has ended, and shows it in the pod's status, so that
nobody needs the log or a shell in the container. Outside Kubernetes no file is named.
"""

import logging
from pathlib import Path
from typing import Final

#: A kubelet takes no more of the file.
BYTES_MAX: Final = 4_096

_logger = logging.getLogger(__name__)


def leave(file: Path | None, words: str) -> None:
    """Write the words over the file. A file that cannot be written is logged: it ends nothing."""
    if file is None:
        return
    try:
        file.write_bytes(one_line(words))
    except OSError as error:
        _logger.warning("the last words could not be left in %s: %s", file, error)


def one_line(words: str) -> bytes:
    """Give the words on one line, cut to the limit at the end of a character."""
    line = " ".join(words.split())
    return line.encode("utf-8", "replace")[:BYTES_MAX].decode("utf-8", "ignore").encode()
