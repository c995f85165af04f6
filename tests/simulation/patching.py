"""Replaces parts of the product while a block runs: for planted bugs, and for smaller sizes."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

#: Its owner, its name, and what stands there meanwhile.
Patch = tuple[object, str, object]


@contextmanager
def patched(patches: Sequence[Patch]) -> Iterator[None]:
    """Put replacements in, and take them out again."""
    with ExitStack() as stack:
        for owner, name, replacement in patches:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield
