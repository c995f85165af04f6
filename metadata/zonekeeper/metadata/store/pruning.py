"""Directories that have become empty are removed after their last child, as Apache does."""

from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import MetadataStore, parent_of


async def prune(store: MetadataStore, path: str, *, below: str) -> None:
    """Remove the empty nodes above one that was deleted, up to ``below``, which stays.

    What cannot be removed stays too: an empty directory harms nobody, and whoever creates in one
    that is being removed makes it again.
    """
    parent = parent_of(path)
    while parent != below:
        try:
            await store.delete(parent, version=None)
        except StoreError:
            return  # most often: it is not empty
        parent = parent_of(parent)
