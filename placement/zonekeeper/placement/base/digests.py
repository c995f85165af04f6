"""The kinds of checksum that an entry can carry: Apache BookKeeper's four."""

import enum


class Digest(enum.StrEnum):
    """The names that the policy record and the shell use; each format has its own numbers."""

    CRC32C = "CRC32C"
    CRC32 = "CRC32"
    HMAC = "HMAC"
    DUMMY = "DUMMY"
