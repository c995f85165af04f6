"""Pruning: an empty directory is removed after its last child, as Apache does."""

from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import MetadataStore, parent_of


async def prune(store: MetadataStore, path: str, *, below: str) -> None:
    """Remove the empty nodes above a deleted node, up to ``below``, which stays.

    A node that cannot be removed stays too. An empty directory does no harm. A client that creates
    a node in a directory that is being removed makes the directory again.
    """
    parent = parent_of(path)
    while parent != below:
        try:
            await store.delete(parent, version=None)
        except StoreError:
            return  # most often because it is not empty
        parent = parent_of(parent)
