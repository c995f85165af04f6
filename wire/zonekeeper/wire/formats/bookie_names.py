"""The name by which a client says which bookie it means: ``<id>@<instance of the cluster>``.

An address is not a bookie: once a bookie is gone, another one may listen at its address, even one
with the same id in another cluster. So each request, or each connection, names the bookie that is
meant. A bookie refuses what names another one, or none, before it does anything. For the client
that bookie was then not reached.

Such a refusal never has the name that would have been right, because a peer could repeat it. A peer
that named the right cluster is told the id of the bookie that answers, for the people who look for
the fault: it could have made the name itself.
"""

from collections.abc import Collection

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats import errors


def name_of(bookie_id: BookieId, instance: str) -> str:
    """Give a bookie's name, which no other bookie of any cluster has."""
    return f"{bookie_id}@{instance}"


def bookie_of(name: str) -> BookieId:
    """Give the bookie's id in a name; an id has no ``@`` in it."""
    return BookieId(name.partition("@")[0])


def check_meant(name: str, named: Collection[str]) -> None:
    """Raise NotConnected, at the bookie of this name, unless exactly this bookie is named."""
    if set(named) == {name}:
        return
    answers = "a bookie of another cluster"
    if all(_instance_of(each) == _instance_of(name) for each in named):
        answers = bookie_of(name)
    raise errors.NotConnected(
        f"{', '.join(sorted(named))} was meant, and {answers} answers; nothing was done"
    )


def _instance_of(name: str) -> str:
    return name.partition("@")[2]
