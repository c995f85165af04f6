"""Apache BookKeeper's jars: fetched through Maven, and used only if they are the pinned ones.

They are kept outside the checkout, in ``$ZONEKEEPER_CACHE`` or ``~/.cache``. A version has a file
of pins here, as ``sha256sum`` writes it: every jar of the class path, and no other. ``pin`` makes
the file of another version; what it fetched is then trusted on that day's word.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PINS: Final = HERE / "pins"


class ArtifactError(Exception):
    """The jars of a version cannot be had, or are not those that are pinned."""


def versions() -> list[str]:
    """Name the pinned versions, the newest first."""
    found = [path.stem for path in PINS.glob("*.sha256")]
    return sorted(found, key=lambda text: [int(part) for part in text.split(".")], reverse=True)


def parse(text: str) -> Mapping[str, str]:
    """Read pins: by the name of a jar its checksum."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        checksum, blanks, name = line.partition("  ")
        if not blanks or len(checksum) != 64 or "/" in name:
            raise ArtifactError(f"line {number} of the pins is no line of `sha256sum`: {line!r}")
        found[name] = checksum
    return found


def offences(pinned: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Say what is wrong with jars: missing, not pinned, or with another checksum."""
    return (
        [f"{name} is missing" for name in sorted(pinned.keys() - found.keys())]
        + [f"{name} is not pinned" for name in sorted(found.keys() - pinned.keys())]
        + [
            f"{name} has the checksum {found[name]}, and {pinned[name]} is pinned"
            for name in sorted(pinned.keys() & found.keys())
            if pinned[name] != found[name]
        ]
    )


def jars(version: str) -> Path:
    """Give the folder of a version's jars; fetch them if they are not there as pinned."""
    pins = PINS / f"{version}.sha256"
    if not pins.exists():
        raise ArtifactError(
            f"Apache BookKeeper {version} is not pinned, but {', '.join(versions())}: take one of "
            f"these, or pin it with `python -m benchmarks.apache --pin {version}`"
        )
    pinned, folder = parse(pins.read_text()), _folder(version)
    if offences(pinned, _checksums(folder)):
        _fetch(version, folder)
    if wrong := offences(pinned, _checksums(folder)):
        raise ArtifactError(f"{folder}: {'; '.join(wrong)}. Nothing was started from it")
    return folder


def pin(version: str) -> Path:
    """Fetch a version, and write its pins."""
    folder = _folder(version)
    _fetch(version, folder)
    lines = [f"{checksum}  {name}\n" for name, checksum in sorted(_checksums(folder).items())]
    (PINS / f"{version}.sha256").write_text("".join(lines))
    return PINS / f"{version}.sha256"


def _folder(version: str) -> Path:
    base = Path(os.environ.get("ZONEKEEPER_CACHE", Path.home() / ".cache"))
    return base / "zonekeeper" / "race" / version


def _fetch(version: str, folder: Path) -> None:
    maven = shutil.which("mvn")
    if not maven:
        raise ArtifactError("no `mvn` on the PATH: install Maven to run `make race`")
    shutil.rmtree(folder, ignore_errors=True)
    done = subprocess.run(  # noqa: S603 words of this module and a version
        [
            maven,
            *("-B", "-q", "-f", HERE / "pom.xml", f"-Dbookkeeper.version={version}"),
            *("dependency:copy-dependencies", "-DincludeScope=runtime"),
            f"-DoutputDirectory={folder}",
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise ArtifactError(
            f"Maven does not resolve Apache BookKeeper {version} whole: {done.stdout[-1500:]}"
        )


def _checksums(folder: Path) -> Mapping[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob("*"))
    }
