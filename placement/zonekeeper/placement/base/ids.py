"""Names of things, each a type of its own, so that one cannot be passed for another.

They stand at the bottom because the wire, the metadata and the rules all speak of the same things.
"""

from typing import NewType

#: A bookie's stable identity. It outlives process and address; in Kubernetes the pod's name.
BookieId = NewType("BookieId", str)

#: A ledger's number: 0 to 2**63 - 1.
LedgerId = NewType("LedgerId", int)

#: An entry's number in its ledger, from 0. ``NO_ENTRY`` where there is none yet.
EntryId = NewType("EntryId", int)

#: A failure domain of the cloud: what is lost together in an outage.
ZoneName = NewType("ZoneName", str)

#: Inside a zone, the bookies that planned work may take down together. Its name means nothing
#: across zones: ``ud-1`` of zone a and ``ud-1`` of zone b are different things.
UpgradeDomain = NewType("UpgradeDomain", str)

#: The last-add-confirmed of a ledger without a confirmed entry, and the end of an empty ledger.
NO_ENTRY = EntryId(-1)
