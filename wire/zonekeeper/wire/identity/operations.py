"""The operation that a message asks for, by its kind and flags. Pure.

``of_item`` knows every item of a carrier that a client may send. The calls say theirs in the table
``host.methods``.
"""

from typing import Final

from zonekeeper.wire.formats import carriers
from zonekeeper.wire.formats.frames import Flags
from zonekeeper.wire.identity.rights import Operation

#: A plain number: the check is made for each frame.
_RECOVERY: Final = int(Flags.RECOVERY)


def of_item(item: carriers.Request | carriers.Read) -> Operation:
    """Give the operation of an item on an Append or Read stream."""
    match item:
        case carriers.Append(frame=frame):
            plain = frame.flags is Flags.PLAIN or not int(frame.flags) & _RECOVERY
            return Operation.APPEND if plain else Operation.RECOVERY_APPEND
        case carriers.WriteLac():
            return Operation.WRITE_LAC
        case carriers.Open():
            return Operation.OPEN
        case carriers.Read(fence_key=fence_key):
            return Operation.READ if fence_key is None else Operation.FENCING_READ
