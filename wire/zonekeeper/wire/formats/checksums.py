"""CRC32C, the checksum of frames, carriers and (by default) entries.

It stands on the ack path, once for each payload and once for each frame, so it must be the
processor's instruction and not Python. ``google_crc32c`` warns and falls back to Python when its C
part cannot be loaded; then everything still works, twenty times slower, and ``IMPLEMENTATION``
says so: processes publish it beside their version.

Both functions take ``bytes`` and refuse a memoryview. That is a property of the C part, and one
that suits us: what is summed cannot change afterwards.
"""

from collections.abc import Callable
from typing import Final

import google_crc32c

#: ``"c"``, or ``"python"`` where the fast one could not be loaded.
IMPLEMENTATION: Final[str] = google_crc32c.implementation

#: The checksum of some bytes.
value: Final[Callable[[bytes], int]] = google_crc32c.value

#: The checksum of what was summed before, followed by some bytes.
extend: Final[Callable[[int, bytes], int]] = google_crc32c.extend
