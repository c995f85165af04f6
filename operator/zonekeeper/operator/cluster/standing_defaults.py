"""What a field that is left out means: that depends on the release which built the resource. Pure.

A default that a later release changes must not change clusters that run. So the operator notes in
the status under which defaults a resource was first seen, and the note stays. Without a note, a
resource that was built is of before the note, and keeps what was so then.

The note is in the status, which only the operator writes. It cannot stand in the schema: the API
server would give its default to resources that are stored already, too.
"""

import enum

from zonekeeper.operator.kubernetes.api import Json


class StandingDefaults(enum.StrEnum):
    """The generations of defaults, as the status names them."""

    #: Without a word in the resource: no TLS, and no NetworkPolicy.
    OPEN = "Open"
    #: Without a word in the resource: TLS of the operator's authority, and NetworkPolicies.
    SECURE = "Secure"


def of(resource: Json) -> StandingDefaults:
    """Give the defaults of a resource."""
    status = resource.get("status") or {}
    said = status.get("defaults")
    if said in list(StandingDefaults):
        return StandingDefaults(said)
    return StandingDefaults.OPEN if status.get("instance") else StandingDefaults.SECURE
