"""What an environment and a wheel say of themselves, as materials of a bill."""

import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from email.message import Message
from email.parser import BytesParser
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from tests.supply import bills, licences
from tests.supply.bills import Material


def in_environment(home: Path) -> list[Material]:
    """Give every distribution of an environment, by the folders that its Python looks in."""
    folders = sorted(home.glob("lib/python3*/site-packages"))
    found = metadata.distributions(path=[str(folder) for folder in folders])
    return [_material(one.metadata) for one in found]


def in_wheel(wheel: Path, versions: Mapping[str, str]) -> tuple[Material, list[Material]]:
    """Give a wheel itself, and what it asks for, in the versions that are pinned.

    ``versions`` are those of the lock. Their licences are those of what is installed here.
    """
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [one for one in packed.namelist() if one.endswith(".dist-info/METADATA")]
        said = BytesParser().parsebytes(packed.read(name))
    asked = {bills.plain(one.name) for one in _asked(said)}
    return _material(said), [
        Material(
            name=one,
            version=versions[one],
            licence=_material(metadata.distribution(one).metadata).licence,
            is_optional=True,
        )
        for one in sorted(asked - {bills.OURS})
    ]


def digest(file: Path) -> str:
    """Give the SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _asked(said: Message) -> Iterator[Requirement]:
    for line in said.get_all("Requires-Dist") or []:
        found = Requirement(line)
        assert found.marker is not None, f"{line}: what placement alone needs is nothing"
        yield found


def _material(said: "metadata.PackageMetadata | Message") -> Material:
    # Both have the words of an e-mail's head; only one of them is typed so.
    classifiers = said.get_all("Classifier") or []
    texts = {
        name: str(said[name]) if name in said else "" for name in ("License-Expression", "License")
    }
    return Material(
        name=str(said["Name"]),
        version=str(said["Version"]),
        licence=licences.expression(
            texts["License-Expression"], texts["License"], map(str, classifiers)
        ),
    )
