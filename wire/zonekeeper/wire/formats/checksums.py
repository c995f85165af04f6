"""CRC32C, the checksum of frames, carriers and (by default) entries.

It is computed on the ack path, once for each payload and once for each frame. So it must be the
processor's instruction and not Python. If the C part of ``google_crc32c`` cannot be loaded, the
library warns and falls back to Python. Then everything still works, twenty times slower, and
``IMPLEMENTATION`` says so. A test holds that the installed one is C; benchmarks print it.

Both functions take ``bytes`` and refuse a memoryview. The C part requires that. It is also an
advantage for us: bytes cannot change after their checksum was computed.
"""

from collections.abc import Callable
from typing import Final

import google_crc32c

#: ``"c"``, or ``"python"`` if the C part could not be loaded.
IMPLEMENTATION: Final[str] = google_crc32c.implementation

#: The checksum of some bytes.
value: Final[Callable[[bytes], int]] = google_crc32c.value

#: The checksum of the bytes of an earlier checksum, followed by some more bytes.
extend: Final[Callable[[int, bytes], int]] = google_crc32c.extend
