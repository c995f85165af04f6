"""What a bookie keeps of the metadata on its disk: it shows a store that was set back.

::

    0        4     5       8        16      24       32
    | magic  | ver | zero  | starts | ids   | policy | crc32c |
    | "ZKKM" | 1   | 0 0 0 |        |       |        |        |

Numbers are big-endian; ``metadata.cluster.evidence`` says what they are. The file is in the data
folder. It is replaced as a whole or not at all, and only after the bookie read the numbers behind a
write of its own. A folder of an older version has no such file: nothing is known, and nothing is
proven. A damaged file is read as none: it costs sight and no data, and the next look replaces it.
"""

import logging
import struct
from typing import Final

from zonekeeper.bookie.disk import whole_files
from zonekeeper.bookie.disk.files import FileSystem
from zonekeeper.metadata.cluster.evidence import Knowledge
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.wire.formats import checksums
from zonekeeper.wire.formats.errors import Fault, FormatError

NAME: Final = "known"

VERSION: Final = 1
_MAGIC: Final = b"ZKKM"
_HEAD: Final = struct.Struct(">4sB3sQQQ")
_CRC: Final = struct.Struct(">I")
_SIZE: Final = _HEAD.size + _CRC.size

_logger = logging.getLogger(__name__)


class NewerFileError(Refusal):
    """A newer zonekeeper wrote the file: what it knows must not be written over."""


def load(files: FileSystem) -> Knowledge:
    """Read what is kept; nothing is known if there is no file that can be read. Blocks.

    Raises ``NewerFileError``.
    """
    try:
        file = files.open(NAME)
    except FileNotFoundError:
        return Knowledge()
    try:
        return parse(file.read(0, _SIZE + 1))
    except FormatError as fault:
        if fault.fault is Fault.VERSION:
            raise NewerFileError(
                f"the file {NAME!r} was written by a newer zonekeeper ({fault}): start that "
                "version; nothing is lost"
            ) from fault
        _logger.warning("the file %r is damaged, and is made anew: %s", NAME, fault)
        return Knowledge()
    finally:
        file.close()


def save(files: FileSystem, known: Knowledge) -> None:
    """Replace what is kept, as a whole or not at all. Blocks."""
    whole_files.replace(files, NAME, render(known))


def render(known: Knowledge) -> bytes:
    """Give the bytes of the file."""
    head = _HEAD.pack(_MAGIC, VERSION, bytes(3), known.starts, known.ids, known.policy)
    return head + _CRC.pack(checksums.value(head))


def parse(data: bytes) -> Knowledge:
    """Give what a file holds; raises ``FormatError``."""
    what = "what is known of the metadata"
    if len(data) != _SIZE:
        raise FormatError(what, Fault.LENGTH, f"{len(data)} bytes, not {_SIZE}")
    magic, version, zero, starts, ids, policy = _HEAD.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _HEAD.size)
    if magic != _MAGIC:
        raise FormatError(what, Fault.MAGIC, magic.hex())
    if version != VERSION:
        raise FormatError(what, Fault.VERSION, f"{version}, this side reads {VERSION}")
    if (found := checksums.value(data[: _HEAD.size])) != crc:
        raise FormatError(what, Fault.CHECKSUM, f"{found:08x}, the end says {crc:08x}")
    if any(zero):
        raise FormatError(what, Fault.RESERVED, "bytes 5 to 7")
    return Knowledge(starts=int(starts), ids=int(ids), policy=int(policy))
