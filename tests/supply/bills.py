"""Bills of materials: what an environment or a wheel is made of, as CycloneDX 1.5 in JSON.

Why it is not made by a tool: it needs two texts, the metadata of what is installed and the lock. A
tool would bring a dozen packages into the place where the release is made, and each of them would
have to be trusted there.

The same input gives the same bytes: there is no time in a bill, and its serial number is made of
its contents. A package has the hashes of every file that the lock allows for it; the installer took
one of those. A package without a hash was in no lock.
"""

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tests.supply import licences

Bill: TypeAlias = dict[str, object]

SPEC_VERSION: Final = "1.5"
OURS: Final = "zonekeeper"
#: The name of a licence that nobody knows.
UNKNOWN: Final = "unknown"
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """One package: what its metadata says of it."""

    name: str
    version: str
    #: An SPDX expression; None: unknown.
    licence: str | None
    #: Only of a wheel: the package is needed by an extra alone.
    is_optional: bool = False

    @property
    def key(self) -> str:
        """The name in its one spelling."""
        return plain(self.name)

    @property
    def purl(self) -> str:
        """The name of the package among all packages of the world."""
        return f"pkg:pypi/{self.key}@{self.version}"


Hashes: TypeAlias = Mapping[tuple[str, str], tuple[str, ...]]


def plain(name: str) -> str:
    """Give the one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """Read a lock: the hashes of each package and version that it allows."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for block in re.split(r"\n(?=\S)", text):
        if match := _PIN.match(block):
            found[plain(match[1]), match[2]] = tuple(sorted(set(_HASH.findall(block))))
    return found


def bill(subject: Material, materials: Iterable[Material], hashes: Hashes) -> Bill:
    """Give the bill of a thing that is made of these materials."""
    parts = sorted(materials, key=lambda one: (one.key, one.version))
    body: Bill = {
        "metadata": {"component": _component(subject, hashes, "application")},
        "components": [_component(one, hashes, "library") for one in parts],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(body, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        **body,
    }


def spelled(found: Bill) -> str:
    """Spell a bill."""
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def refused(materials: Iterable[Material]) -> list[str]:
    """Say what may not be shipped by its licence."""
    return [
        f"{one.name} {one.version}: {one.licence or UNKNOWN}"
        for one in sorted(materials, key=lambda each: each.key)
        if not licences.is_allowed(one.licence)
    ]


def _component(one: Material, hashes: Hashes, kind: str) -> Bill:
    found: Bill = {
        "type": kind,
        "bom-ref": one.purl,
        "name": one.name,
        "version": one.version,
        "purl": one.purl,
        "licenses": [_licence(one.licence)],
    }
    if one.is_optional:
        found["scope"] = "optional"
    if digests := hashes.get((one.key, one.version)):
        found["hashes"] = [{"alg": "SHA-256", "content": each} for each in digests]
    return found


def _licence(found: str | None) -> Bill:
    if found is None:
        return {"license": {"name": UNKNOWN}}
    return {"expression": found} if " " in found else {"license": {"id": found}}
