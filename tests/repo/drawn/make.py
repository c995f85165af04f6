"""Draw the map of the house: ``python -m tests.repo.drawn.make`` writes what is not fresh."""

from collections.abc import Mapping
from pathlib import Path

from tests.repo.drawn import drawing, page, rooms
from tests.support.checkout_root import ROOT


def pages(root: Path) -> Mapping[str, str]:
    """Give what the files of the map should hold, by their names in the checkout."""
    plan = rooms.read(root)
    return {"docs/map.md": page.render(plan), "docs/map.svg": drawing.render(plan)}


def stale(root: Path) -> list[str]:
    """Give the files of the map that are not what the code says."""
    return [
        name
        for name, text in pages(root).items()
        if not (root / name).is_file() or (root / name).read_text() != text
    ]


def main() -> None:
    """Write the map."""
    for name, text in pages(ROOT).items():
        (ROOT / name).write_text(text)


if __name__ == "__main__":
    main()
