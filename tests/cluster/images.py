"""The images of the lab: names that stand for installations of zonekeeper.

An image is a folder with ``bin/`` in it, such as a virtual environment into which a wheel was
installed. The lab says which name is which folder, in a file that every kubelet reads before it
starts a container. A name that the file does not have is the checkout's own installation if its
repository is one of ``OF_THE_CHECKOUT``; else nobody has it, and its pull fails.
"""

import json
import re
import sys
from pathlib import Path
from typing import Final

#: Repositories whose every tag is the checkout, unless the lab says otherwise.
OF_THE_CHECKOUT: Final = frozenset({"none", "zonekeeper"})
#: The installation that runs the tests.
CHECKOUT: Final = Path(sys.prefix)

_TAG_OR_DIGEST: Final = re.compile(r"(:[^:/@]+)?(@.+)?$")


class Images:
    """The lab's side: says what names stand for, to kubelets that run already, too."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._folders: dict[str, str | None] = {}
        self._write()

    def put(self, name: str, folder: Path) -> None:
        """From now on a container of this image runs what is installed in the folder."""
        assert (folder / "bin").is_dir(), folder
        self._folders[name] = str(folder)
        self._write()

    def take_away(self, name: str) -> None:
        """From now on no registry has this image."""
        self._folders[name] = None
        self._write()

    def _write(self) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self._folders))
        new.replace(self.file)


def found(file: Path, name: str) -> Path | None:
    """Give the folder of an image, as a kubelet pulls it; None: there is no such image."""
    said: dict[str, str | None] = json.loads(file.read_text())
    if name in said:
        folder = said[name]
        return None if folder is None else Path(folder)
    return CHECKOUT if _TAG_OR_DIGEST.sub("", name) in OF_THE_CHECKOUT else None
