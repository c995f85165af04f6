"""What would be published: a wheel and an sdist that are whole, described, typed and reproducible.

Each is built from the files of the checkout. The wheel is then installed as a user does it, with
one extra at a time. Versions are those of requirements.lock.
"""

import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from packaging.metadata import Metadata
from trove_classifiers import classifiers

from tests.repo import guards
from tests.repo.test_extras import EXTRA_OF, modules_of
from tests.support.checkout_root import ROOT


def sources() -> list[str]:
    """Give the names of the checkout's files."""
    return [name for name, _ in guards.tracked_text(ROOT)]


def copied(folder: Path) -> Path:
    for name in sources():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


def built(source: Path, kind: str) -> Path:
    """Build an sdist or a wheel; give its file."""
    target = source.parent / f"{source.name}-{kind}"
    build = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (file,) = target.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(copied(tmp_path_factory.mktemp("published") / "one"), "wheel")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(copied(tmp_path_factory.mktemp("published") / "two"), "sdist")


def described(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
        return packed.read(name)


@pytest.mark.processes
def test_the_wheel_holds_every_module_and_says_that_it_is_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        held = set(packed.namelist())
    wanted = {
        name.partition("/")[2]
        for name in sources()
        if name.partition("/")[0] in guards.components(ROOT)
        and ("/zonekeeper/" in name or name.split("/")[1] in guards.FOUND_BY_NAME.values())
    }
    assert held - wanted == {name for name in held if ".dist-info/" in name}
    assert wanted <= held
    assert {f"zonekeeper/{one}/py.typed" for one in guards.components(ROOT)} <= held


@pytest.mark.processes
def test_the_same_files_make_the_same_bytes_and_the_sdist_makes_the_wheel(
    wheel: Path, sdist: Path, tmp_path: Path
) -> None:
    assert built(copied(tmp_path / "elsewhere"), "sdist").read_bytes() == sdist.read_bytes()
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("zonekeeper-*")
    again = built(unpacked, "wheel")
    assert (again.name, again.read_bytes()) == (wheel.name, wheel.read_bytes())


@pytest.mark.processes
def test_an_index_takes_the_description(wheel: Path) -> None:
    said = Metadata.from_email(described(wheel), validate=True)
    assert set(said.classifiers or ()) <= classifiers
    assert "Typing :: Typed" in (said.classifiers or ())
    assert said.license_expression == "Apache-2.0"
    assert said.description_content_type == "text/markdown"
    assert (said.description or "").strip() == (ROOT / "README.md").read_text("utf-8").strip()
    assert set(said.provides_extra or ()) == {one for one in EXTRA_OF.values() if one}


def test_the_readme_can_be_read_where_the_other_pages_are_not() -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse((ROOT / "README.md").read_text("utf-8"))
    inside = [child for token in tokens for child in token.children or ()]
    assert [one.content for one in (*tokens, *inside) if "html" in one.type] == []
    links = [str(one.attrs.get("href")) for one in inside if one.type == "link_open"]
    assert [link for link in links if not re.match(r"https?://|#", link)] == []


@pytest.mark.parametrize(
    "extra",
    [
        *(pytest.param(one, marks=pytest.mark.processes) for one in ("client", "bookie")),
        *(pytest.param(one, marks=pytest.mark.processes) for one in ("operator", "shell")),
        pytest.param("pipeline", marks=pytest.mark.spark),
    ],
)
def test_the_wheel_installs_with_one_extra_alone(extra: str, wheel: Path, tmp_path: Path) -> None:
    home, pinned = tmp_path / "home", tmp_path / "pinned.txt"
    venv.create(home, with_pip=False)
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    pinned.write_text("\n".join(re.findall(r"^[^\s#]+==[^\s\\;]+", lock, re.MULTILINE)))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(home)]
    wanted = f"zonekeeper[{extra}] @ {wheel.as_uri()}"
    subprocess.run([*pip, "install", "--quiet", "--constraint", str(pinned), wanted], check=True)
    subprocess.run([*pip, "check"], check=True)
    modules = [
        module
        for component, its in EXTRA_OF.items()
        if its in (None, extra) or (its == "client" and extra != "shell")
        for module in modules_of(component, commands=False)
    ]
    assert modules
    lines = "\n".join(
        ["import importlib", *(f"importlib.import_module({one!r})" for one in modules)]
    )
    subprocess.run([home / "bin" / "python", "-I", "-c", lines], check=True, cwd=tmp_path)
