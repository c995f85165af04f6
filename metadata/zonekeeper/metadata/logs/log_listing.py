"""All logs by their names, without holding all names in memory.

The tree is read node by node, and no node has more than 1,000 children by design. Names come in the
order of their sums, which is always the same, and not in the order of the alphabet. A log that
exists during the whole listing is listed. A log that is created or deleted meanwhile may be listed
or not. A log that is being deleted is listed.
"""

from collections.abc import AsyncGenerator
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import log_names
from zonekeeper.metadata.logs import logs

_LEVELS: Final = 2


async def namespaces(cluster: Cluster) -> AsyncGenerator[str, None]:
    """Give every namespace that has logs, or had some a moment ago; ``""``: no namespace."""
    top = logs.top(cluster)
    for digits in await cluster.store.children(top) or ():
        for part in await cluster.store.children(f"{top}/{digits}") or ():
            yield log_names.namespace_of(part)


async def names(cluster: Cluster, namespace: str) -> AsyncGenerator[str, None]:
    """Give the names of the logs of one namespace; raises ``BadLogNameError``."""
    todo = [(logs.top(cluster) + log_names.namespace_path(namespace), 0)]
    while todo:
        folder, depth = todo.pop()
        found = await cluster.store.children(folder) or ()
        if depth < _LEVELS:
            todo += [(f"{folder}/{name}", depth + 1) for name in reversed(found)]
            continue
        for last in found:
            yield log_names.full(namespace, last)
