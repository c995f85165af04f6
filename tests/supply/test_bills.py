"""A bill of materials names what is installed: all of it, nothing more, as its metadata says."""

import json
import re
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest

from tests.supply import bills, installed, licences, make
from tests.supply.bills import Material
from tests.support.checkout_root import ROOT

HERE = Path(sysconfig.get_path("purelib"))
HOME = HERE.parents[2]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
IMAGE_LOCK = (ROOT / "requirements.image.lock").read_text("utf-8")
OURS = Material(name="zonekeeper", version="0.1.0", licence="Apache-2.0")


def named(found: bills.Bill) -> dict[str, str]:
    parts = json.loads(json.dumps(found))["components"]
    return {part["name"]: part["version"] for part in parts}


def test_the_bill_of_this_environment_is_what_is_installed_and_nothing_more() -> None:
    really = {one.metadata["Name"]: one.version for one in metadata.distributions(path=[str(HERE)])}
    found = bills.bill(OURS, installed.in_environment(HOME), bills.locked(LOCK))
    assert named(found) == really
    assert len(really) > 40


def test_every_component_has_what_a_reader_asks_for() -> None:
    hashes = bills.locked(LOCK)
    found = json.loads(bills.spelled(bills.bill(OURS, installed.in_environment(HOME), hashes)))
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.5", 1)
    assert re.fullmatch(
        r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", found["serialNumber"]
    )
    assert found["metadata"]["component"]["purl"] == "pkg:pypi/zonekeeper@0.1.0"
    for part in found["components"]:
        key = (bills.plain(part["name"]), part["version"])
        assert part["purl"] == part["bom-ref"] == f"pkg:pypi/{key[0]}@{key[1]}"
        (licence,) = part["licenses"]
        assert licence.keys() <= {"license", "expression"}
        told = {one["content"] for one in part.get("hashes", [])}
        assert told == set(hashes.get(key, ())), part["name"]
    refs = [part["bom-ref"] for part in found["components"]]
    assert len(refs) == len(set(refs))


def test_the_same_materials_make_the_same_bytes_and_others_another_serial_number() -> None:
    parts = [Material(name=name, version="1", licence="MIT") for name in ("b", "a", "c")]
    one = bills.bill(OURS, parts, {})
    assert bills.spelled(one) == bills.spelled(bills.bill(OURS, reversed(parts), {}))
    assert one["serialNumber"] != bills.bill(OURS, parts[1:], {})["serialNumber"]


def test_all_hashes_of_a_lock_are_read_and_each_belongs_to_its_version() -> None:
    hashes = bills.locked(LOCK)
    assert sum(map(len, hashes.values())) == len(re.findall("--hash=sha256:", LOCK))
    assert {key for key, each in hashes.items() if not each} == set()
    lines = [
        "a.B==1 \\",
        f"    --hash=sha256:{'0' * 64}",
        f"a_b==2 ; x \\\n --hash=sha256:{'1' * 64}",
    ]
    assert bills.locked("\n".join(lines)) == {
        ("a-b", "1"): ("0" * 64,),
        ("a-b", "2"): ("1" * 64,),
    }


@pytest.mark.parametrize(
    ("said", "text", "classifiers", "found"),
    [
        ("MIT", "Apache 2.0", [], "MIT"),
        ("", "Apache 2.0", [], "Apache-2.0"),
        ("", "psf-2.0", [], "PSF-2.0"),
        ("", "", ["License :: OSI Approved :: MIT License"], "MIT"),
        ("", "ISC", ["License :: OSI Approved :: BSD License"], "ISC"),
        ("", "", ["License :: OSI Approved :: BSD License"], None),
        (
            "",
            "",
            ["License :: OSI Approved :: MIT License", "License :: OSI Approved :: BSD License"],
            None,
        ),
        ("", "as you like", ["Programming Language :: Python"], None),
    ],
)
def test_a_licence_is_what_the_first_place_with_a_known_meaning_says(
    said: str, text: str, classifiers: list[str], found: str | None
) -> None:
    assert licences.expression(said, text, classifiers) == found


@pytest.mark.parametrize(
    ("licence", "is_allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 AND MIT", True),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only AND MIT", False),
        ("MIT AND GPL-3.0-only OR GPL-2.0-only", False),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
        ("(MIT OR GPL-3.0-only) AND GPL-3.0-only", False),
        ("AGPL-3.0-only", False),
        ("", False),
        (None, False),
    ],
)
def test_what_may_be_shipped(licence: str | None, is_allowed: bool) -> None:
    assert licences.is_allowed(licence) is is_allowed
    one = Material(name="it", version="1", licence=licence)
    assert bills.refused([one]) == ([] if is_allowed else [f"it 1: {licence or 'unknown'}"])


def test_an_unknown_licence_is_told_as_unknown() -> None:
    (part,) = json.loads(
        bills.spelled(bills.bill(OURS, [Material(name="it", version="1", licence=None)], {}))
    )["components"]
    assert part["licenses"] == [{"license": {"name": "unknown"}}]


def test_all_that_the_image_has_may_be_shipped() -> None:
    pinned = {name for name, _ in bills.locked(IMAGE_LOCK)}
    there = [one for one in installed.in_environment(HOME) if one.key in pinned]
    assert {one.key for one in there} == pinned
    assert bills.refused(there) == []


def test_the_image_has_few_packages_and_no_tool_that_installs_or_builds() -> None:
    pinned = {name for name, _ in bills.locked(IMAGE_LOCK)}
    assert len(pinned) <= 48
    assert pinned & {"pip", "setuptools", "wheel", "hatchling", "uv", "pytest"} == set()


@pytest.mark.processes
def test_the_bill_of_the_wheel_is_what_the_wheel_asks_for(tmp_path: Path) -> None:
    wheel = make.built_wheel(tmp_path)
    found, wrong = make.of_wheel(wheel)
    assert wrong == []
    said = json.loads(bills.spelled(found))
    (digest,) = said["metadata"]["component"]["hashes"]
    assert digest == {"alg": "SHA-256", "content": installed.digest(wheel)}
    asked = re.findall(r'"([a-z0-9-]+)[^"]*"', re.sub(r"zonekeeper\[\w+\]", "", _extras()))
    assert {part["name"] for part in said["components"]} == {one for one in asked if one}
    assert {part["scope"] for part in said["components"]} == {"optional"}


def _extras() -> str:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    block = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    return "\n".join(line.partition("#")[0] for line in block.splitlines())
