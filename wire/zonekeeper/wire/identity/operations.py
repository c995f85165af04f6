"""The operation that a message asks for, by its kind and flags. Pure.

``of_item`` knows every item of a carrier that a client may send. The calls say theirs in the table
``host.methods``.
"""

from typing import Final

from zonekeeper.wire.formats import carriers
from zonekeeper.wire.formats.frames import Flags
from zonekeeper.wire.identity.rights import Operation

# Plain names: to look a member up in its enum costs more than all else here, and each frame asks.
_RECOVERY: Final = int(Flags.RECOVERY)
_PLAIN: Final = Flags.PLAIN
_APPEND: Final = Operation.APPEND


def of_item(item: carriers.Request | carriers.Read) -> Operation:
    """Give the operation of an item on an Append or Read stream."""
    match item:
        case carriers.Append():
            flags = item.frame.flags
            if flags is _PLAIN or not int(flags) & _RECOVERY:
                return _APPEND
            return Operation.RECOVERY_APPEND
        case carriers.WriteLac():
            return Operation.WRITE_LAC
        case carriers.Open():
            return Operation.OPEN
        case carriers.Read():
            fences = item.fences or item.fence_key is not None
            return Operation.FENCING_READ if fences else Operation.READ
