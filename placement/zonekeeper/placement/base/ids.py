"""Names of things, each with a type of its own, so that one cannot be passed for another.

They are in the lowest layer because the wire, the metadata and the rules all use the same things.
"""

from typing import NewType

#: A bookie's stable identity. It outlives process and address. In Kubernetes it is the pod's name.
BookieId = NewType("BookieId", str)

#: A ledger's number: ``0 <= ledger_id < 2**63``.
LedgerId = NewType("LedgerId", int)

#: An entry's number in its ledger: ``0 <= entry_id``, or ``NO_ENTRY`` where there is no entry yet.
EntryId = NewType("EntryId", int)

#: A failure domain of the cloud: its bookies are lost together in an outage.
ZoneName = NewType("ZoneName", str)

#: Inside a zone, a set of bookies that planned work may take down together. The name has no meaning
#: across zones: ``ud-1`` of zone a and ``ud-1`` of zone b are different things.
UpgradeDomain = NewType("UpgradeDomain", str)

#: The LAC of a ledger without a confirmed entry, and the last entry of an empty closed ledger.
NO_ENTRY = EntryId(-1)
