"""Writes the bills of materials of the wheel and of the image: ``make sbom``.

The image's environment is made as the Dockerfile makes it (``tests/support/image_root``).
Exit code 1: something in it has a licence that may not be shipped, or was in no lock.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.supply import bills, installed
from tests.supply.bills import Bill, Material
from tests.support import image_root
from tests.support.checkout_root import ROOT

IMAGE_LOCK = ROOT / "requirements.image.lock"


def of_image(home: Path) -> tuple[Bill, list[str]]:
    """Give the bill of an environment that was made as the image's, and what is wrong with it."""
    hashes = bills.locked(IMAGE_LOCK.read_text("utf-8"))
    found = installed.in_environment(home)
    (ours,) = [one for one in found if one.key == bills.OURS]
    parts = [one for one in found if one.key != bills.OURS]
    return bills.bill(ours, parts, hashes), _wrong([ours, *parts], hashes)


def of_wheel(wheel: Path) -> tuple[Bill, list[str]]:
    """Give the bill of a wheel, and what is wrong with it."""
    hashes = bills.locked(IMAGE_LOCK.with_name("requirements.lock").read_text("utf-8"))
    ours, parts = installed.in_wheel(wheel, dict(list(hashes)))
    own = {(ours.key, ours.version): (installed.digest(wheel),)}
    return bills.bill(ours, parts, hashes | own), _wrong([ours, *parts], hashes)


def built_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into an empty folder."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _wrong(materials: list[Material], hashes: bills.Hashes) -> list[str]:
    loose = [
        f"{one.name} {one.version}: in no lock"
        for one in materials
        if one.key != bills.OURS and not hashes.get((one.key, one.version))
    ]
    return bills.refused(materials) + loose


def main(target: Path) -> int:
    """Make both, and write them into a folder."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    wheel = built_wheel(target)
    with tempfile.TemporaryDirectory() as folder:
        image = of_image(image_root.made(Path(folder)))
    wrong = []
    for name, (found, offences) in (("image", image), ("wheel", of_wheel(wheel))):
        file = target / f"{name}.cdx.json"
        file.write_text(bills.spelled(found), "utf-8")
        sys.stdout.write(f"{file}\n")
        wrong += [f"{name}: {offence}" for offence in offences]
    sys.stderr.writelines(f"{each}\n" for each in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")))
