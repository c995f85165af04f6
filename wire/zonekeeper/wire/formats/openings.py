"""The opening of a fragment, which a writer sends before its first frame, and its bytes. Pure.

::

    | ledger 8 | first entry 8 | master key 20 | ensemble 2 | write 2 | ack 2 | ack zones 2 |
    | digest 1 | bookie ids: length 2, UTF-8, ... | create token 8, if it is known          |

All numbers are unsigned and big-endian. Digests: 1 CRC32, 2 HMAC, 3 CRC32C, 4 DUMMY. An opening is
part of carriers and of the logs of bookies. Both have a checksum and say how long the opening is.
Each opening has one spelling: a create token that is not known (0) is left out. These constants
never change.
"""

import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import entries
from zonekeeper.wire.formats.digests import MASTER_KEY_BYTES, MasterKey
from zonekeeper.wire.formats.errors import Fault, FormatError

#: Enough for any ensemble that a policy allows, with names as long as those of domains.
BYTES_MAX: Final = (1 << 16) - 1
#: No peer may name more bookies, eight times as many as a policy allows. Names of a few bytes are
#: many objects, which take milliseconds to make. What is on a disk may name more of them.
BOOKIES_MAX: Final = 256

_FIXED: Final = struct.Struct(f">QQ{MASTER_KEY_BYTES}sHHHHB")
_NAME: Final = struct.Struct(">H")
_TOKEN: Final = struct.Struct(">Q")
TOKEN_BYTES: Final = _TOKEN.size
BYTES_MIN: Final = _FIXED.size + _NAME.size
#: The memory of an opening's objects without its names, and of the object of each name without its
#: characters.
_OBJECT_BYTES: Final = 512
_NAME_OBJECT_BYTES: Final = 96
#: The most memory of a character, in a name that is not ASCII.
_CHARACTER_BYTES_MAX: Final = 4
_DIGEST_NUMBERS: Final = {Digest.CRC32: 1, Digest.HMAC: 2, Digest.CRC32C: 3, Digest.DUMMY: 4}
_DIGESTS: Final = {number: digest for digest, number in _DIGEST_NUMBERS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentOpening:
    """The opening of a fragment; it is enough to rebuild the ledger's lost metadata."""

    ledger_id: LedgerId
    #: The proof of the right to write; a bookie that has another key for the ledger refuses.
    master_key: MasterKey = field(repr=False)
    quorums: Quorums
    digest: Digest
    first_entry_id: EntryId
    ensemble: tuple[BookieId, ...]
    #: The token that the ledger was created with. It tells the ledger from one that had the same id
    #: before. 0: not known.
    create_token: int = 0


class CheckedOpening(NamedTuple):
    """What the bytes of an opening say, without quorums and names."""

    ledger_id: LedgerId
    first_entry_id: EntryId
    master_key: MasterKey
    digest: Digest
    create_token: int
    #: Where the names end, and the create token begins, if there is one.
    names_end: int

    def __repr__(self) -> str:
        return f"{type(self).__name__}(ledger_id={self.ledger_id}, first={self.first_entry_id})"


def spell(opening: FragmentOpening) -> bytes:
    """Give the bytes of an opening."""
    quorums = opening.quorums
    assert quorums.ensemble == len(opening.ensemble)
    fixed = _FIXED.pack(
        opening.ledger_id,
        opening.first_entry_id,
        opening.master_key,
        quorums.ensemble,
        quorums.write,
        quorums.ack,
        quorums.ack_zones,
        _DIGEST_NUMBERS[opening.digest],
    )
    names = [bookie.encode() for bookie in opening.ensemble]
    spelled = fixed + b"".join(_NAME.pack(len(name)) + name for name in names)
    spelled += spell_token(opening.create_token)
    assert len(spelled) <= BYTES_MAX
    return spelled


def size_of(opening: FragmentOpening) -> int:
    """Give the number of bytes of an opening, without spelling it."""
    names = len("".join(opening.ensemble).encode()) + _NAME.size * len(opening.ensemble)
    return _FIXED.size + names + (TOKEN_BYTES if opening.create_token else 0)


def memory_of(opening: FragmentOpening) -> int:
    """Give the bytes of memory that an opening takes at the most, beside its sender's request.

    A name of a few bytes is an object of many. One character beyond U+FFFF makes a name take four
    bytes for each of its characters.
    """
    characters = sum(
        len(name) if name.isascii() else _CHARACTER_BYTES_MAX * len(name)
        for name in opening.ensemble
    )
    return _FIXED.size + _OBJECT_BYTES + characters + _NAME_OBJECT_BYTES * len(opening.ensemble)


def spell_token(create_token: int) -> bytes:
    """Give the bytes of a create token; none if it is not known."""
    assert 0 <= create_token < entries.ID_END
    return _TOKEN.pack(create_token) if create_token else b""


def parse_token(spelled: bytes) -> int:
    """Give the create token that these bytes spell, 0 for none; raises ``FormatError``."""
    if not spelled:
        return 0
    if len(spelled) != TOKEN_BYTES:
        raise _bad(Fault.TRAILING, f"{len(spelled)} bytes, and a create token has {TOKEN_BYTES}")
    (token,) = _TOKEN.unpack(spelled)
    if not 0 < token < entries.ID_END:
        raise _bad(Fault.RANGE, f"create token {token}")
    return int(token)


def parse_peers(data: bytes) -> FragmentOpening:
    """Parse an opening that a peer has sent; raises ``FormatError``, also for too many bookies."""
    if len(data) >= _FIXED.size and (named := _FIXED.unpack_from(data)[3]) > BOOKIES_MAX:
        raise _bad(Fault.COUNT, f"{named} bookies, at most {BOOKIES_MAX} may be named")
    return parse(data)


def parse(data: bytes) -> FragmentOpening:
    """Give the opening that these bytes spell; raises ``FormatError``."""
    checked = check(data)
    _, _, _, size, write, ack, zones, _ = _FIXED.unpack_from(data)
    names, at = list[BookieId](), _FIXED.size
    for _ in range(size):
        start = at + _NAME.size
        at = start + _NAME.unpack_from(data, at)[0]
        names.append(BookieId(data[start:at].decode("utf-8")))
    return FragmentOpening(
        ledger_id=checked.ledger_id,
        master_key=checked.master_key,
        quorums=Quorums(ensemble=size, write=write, ack=ack, ack_zones=zones),
        digest=checked.digest,
        first_entry_id=checked.first_entry_id,
        ensemble=tuple(names),
        create_token=checked.create_token,
    )


def check(data: bytes) -> CheckedOpening:
    """Check that bytes spell an opening, without making its objects; raises ``FormatError``."""
    if len(data) < _FIXED.size:
        raise _bad(Fault.TRUNCATED, f"{len(data)} of at least {_FIXED.size} bytes")
    ledger, first, key, size, write, ack, zones, number = _FIXED.unpack_from(data)
    if not (1 <= ack <= write <= size and 1 <= zones <= ack):
        raise _bad(Fault.RANGE, f"quorums {size}/{write}/{ack} in {zones} zones")
    if (digest := _DIGESTS.get(number)) is None:
        raise _bad(Fault.RANGE, f"digest {number} is not known")
    ledger_id, first_entry_id = LedgerId(_id(ledger)), EntryId(_id(first))
    at = _check_names(data, size)
    token = parse_token(data[at:]) if at < len(data) else 0
    return CheckedOpening(ledger_id, first_entry_id, MasterKey(key), digest, token, at)


def _check_names(data: bytes, count: int) -> int:
    """Check the names, and say where they end."""
    at, end, is_ascii = _FIXED.size, len(data), data[_FIXED.size :].isascii()
    for number in range(count):
        start = at + _NAME.size
        if start > end:
            raise _bad(Fault.TRUNCATED, f"{number} of {count} bookies")
        at = start + (data[at] << 8 | data[at + 1])
        if at > end:
            raise _bad(Fault.TRUNCATED, f"{number} of {count} bookies")
        if not is_ascii:
            try:
                data[start:at].decode("utf-8")
            except UnicodeDecodeError as error:
                raise _bad(Fault.TEXT, str(error)) from error
    return at


def _id(number: int) -> int:
    if number >= entries.ID_END:
        raise _bad(Fault.RANGE, f"{number} is not a ledger or entry id")
    return number


def _bad(fault: Fault, detail: str) -> FormatError:
    return FormatError("fragment opening", fault, detail)
