"""Bookies that are not asked for are stopped only if they hold nothing. Pure.

A bookie without a cookie never served. A bookie with one holds nothing if no ledger names it, which
only a listing proves (``holdings``). While the root is not read, neither is known, and the bookies
stay. A scale-down empties bookies for that (``scaling``). A slip is taken back without it: volumes
and cookies stay then, and if a ledger came to name a bookie at that very moment, the bookie is lost
like one that has ended, and comes back with its volume when it is asked for.
"""

from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.plan.scaling import leaving
from zonekeeper.operator.sight import holdings
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import BookieId


def held(wanted: Desired, observed: Observed) -> dict[str, tuple[BookieId, ...]]:
    """Give the bookies that run, are not asked for and must stay, by StatefulSet."""
    found = {
        name: tuple(one for one in bookies if not leaving.may_stop(wanted, observed, one))
        for name, bookies in holdings.run_beyond(wanted, observed.replicas).items()
    }
    return {name: bookies for name, bookies in found.items() if bookies}


def going(wanted: Desired, observed: Observed) -> dict[str, int]:
    """Give the replicas of each StatefulSet that stands and whose zone leaves."""
    must_stay = held(wanted, observed)
    names = leaving.places(wanted, observed).keys() - holdings.places(wanted).keys()
    return {
        name: max((leaving.ordinal_of(one) for one in must_stay.get(name, ())), default=-1) + 1
        for name in sorted(names & observed.sets.keys())
    }


def replicas(wanted: Desired, observed: Observed) -> dict[str, int]:
    """Give the replicas of each StatefulSet that is asked for: those that must stay do.

    A bookie that was removed comes back only once its old claims are settled.
    """
    standing, must_stay = observed.replicas, held(wanted, observed)
    counts = holdings.places(wanted)
    for name, count in counts.items():
        highest = max((leaving.ordinal_of(one) for one in must_stay.get(name, ())), default=-1)
        counts[name] = max(count, highest + 1)
    for bookie in leaving.unsettled(observed):
        name, ordinal = leaving.set_of(bookie), leaving.ordinal_of(bookie)
        if name in counts and standing.get(name, 0) <= ordinal:
            counts[name] = min(counts[name], ordinal)
    return counts
