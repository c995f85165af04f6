"""Bookies that are not asked for are taken back only if they hold nothing. Pure.

A bookie without a cookie never served. A bookie with one holds nothing if no ledger names it, which
only a listing proves (``holdings``). While the root is not read, neither is known, and the bookies
stay. Volumes and cookies stay in any case: if a ledger came to name a bookie at that very moment,
the bookie is lost like one that has ended, and comes back with its volume when it is asked for.
"""

from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.plan import ownership
from zonekeeper.operator.sight import holdings
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import BookieId


def held(wanted: Desired, observed: Observed) -> dict[str, tuple[BookieId, ...]]:
    """Give the bookies that run, are not asked for and must stay, by StatefulSet."""
    found = {
        name: tuple(one for one in bookies if not _is_free(one, observed))
        for name, bookies in holdings.run_beyond(wanted, observed.replicas).items()
    }
    return {name: bookies for name, bookies in found.items() if bookies}


def replicas(wanted: Desired, observed: Observed) -> dict[str, int]:
    """Give the replicas of each StatefulSet that is asked for: those that must stay do."""
    standing, must_stay = observed.replicas, held(wanted, observed)
    return {
        name: standing[name] if name in must_stay else count
        for name, count in holdings.places(wanted).items()
    }


def _is_free(bookie: BookieId, observed: Observed) -> bool:
    ours = ownership.own_root(observed)
    if ours is None or ours.instance != (observed.instance or ours.instance):
        return False
    return bookie not in ours.locations or bookie in observed.holdings.empty
