"""Property files, pins and command lines: what Apache's programs are started from."""

from pathlib import Path

import pytest

from benchmarks.apache import artifacts, property_files
from benchmarks.apache.artifacts import ArtifactError
from benchmarks.apache.property_files import ApacheSetting, Upkeep
from zonekeeper.wire.grpc.tls import TlsFiles

URI = "zk+hierarchical://127.0.0.1:2181/apache"


def read(text: str) -> dict[str, str]:
    pairs = [line.split("=", 1) for line in text.splitlines()]
    assert len({name for name, _ in pairs}) == len(pairs), "a property stands twice"
    return dict(pairs)


def bookie(setting: ApacheSetting, upkeep: Upkeep | None = None) -> dict[str, str]:
    return read(property_files.bookie(setting, URI, 3181, Path("/d"), upkeep or Upkeep()))


def test_every_setting_keeps_acks_behind_the_disk() -> None:
    for setting in ApacheSetting:
        found = bookie(setting)
        assert found["metadataServiceUri"] == URI
        assert "journalSyncData" not in found
        assert "journalWriteData" not in found


def test_default_is_what_apache_ships_but_for_what_is_said() -> None:
    found = bookie(ApacheSetting.DEFAULT)
    assert "ledgerStorageClass" not in found
    assert found["gcWaitTime"] == "120000"
    client = read(property_files.client(ApacheSetting.DEFAULT, URI))
    assert "useV2WireProtocol" not in client
    assert client["throttle"] == "0"


def test_latency_is_tuned_but_for_the_journal() -> None:
    tuned, latency = bookie(ApacheSetting.TUNED), bookie(ApacheSetting.LATENCY)
    assert {name for name in latency if latency[name] != tuned.get(name)} == {
        "journalMaxGroupWaitMSec",
        "journalFlushWhenQueueEmpty",
        "journalWriteBufferSizeKB",
    }
    for setting in (ApacheSetting.TUNED, ApacheSetting.LATENCY):
        assert read(property_files.client(setting, URI))["useV2WireProtocol"] == "true"


def test_upkeep_is_said_only_where_it_is_chosen() -> None:
    assert "minorCompactionInterval" not in bookie(ApacheSetting.TUNED)
    found = bookie(ApacheSetting.TUNED, Upkeep(collect_s=60, minor_s=120, major_s=240))
    assert found["gcWaitTime"] == "60000"
    assert found["minorCompactionInterval"] == "120"
    assert found["majorCompactionInterval"] == "240"


def test_zookeeper_syncs_and_listens_here_alone() -> None:
    found = read(property_files.zookeeper(2181, Path("/z")))
    assert found["clientPortAddress"] == "127.0.0.1"
    assert "forceSync" not in found


@pytest.mark.parametrize("value", ["a\nb", " a", "a,b"])
def test_a_value_that_would_be_read_otherwise_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="property file"):
        property_files.text({"name": value})


def test_log4j_is_given_its_level() -> None:
    assert 'level="WARN"' in property_files.log4j("WARN")


def test_each_pinned_version_has_its_own_jars_and_zookeepers() -> None:
    assert artifacts.versions() == sorted(
        artifacts.versions(), key=lambda text: [*map(int, text.split("."))], reverse=True
    )
    for version in artifacts.versions():
        pinned = artifacts.parse((artifacts.PINS / f"{version}.sha256").read_text())
        assert f"bookkeeper-server-{version}.jar" in pinned
        assert any(name.startswith("zookeeper-3") for name in pinned)


def test_jars_that_are_not_as_pinned_are_named() -> None:
    pinned = {"a.jar": "1", "b.jar": "2", "c.jar": "3"}
    assert artifacts.offences(pinned, pinned) == []
    wrong = artifacts.offences(pinned, {"a.jar": "1", "b.jar": "9", "d.jar": "4"})
    assert [line.split()[0] for line in wrong] == ["c.jar", "d.jar", "b.jar"]


def test_pins_are_lines_of_sha256sum() -> None:
    assert artifacts.parse("a" * 64 + "  x.jar\n") == {"x.jar": "a" * 64}
    for wrong in ("a" * 64 + " x.jar\n", "a" * 63 + "  x.jar\n", "a" * 64 + "  ../x.jar\n"):
        with pytest.raises(ArtifactError, match="line 1"):
            artifacts.parse(wrong)


def test_a_version_without_pins_is_refused_with_the_way_out() -> None:
    with pytest.raises(ArtifactError, match=r"--pin 1\.2\.3"):
        artifacts.jars("1.2.3")


def test_jars_that_were_changed_are_fetched_again_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZONEKEEPER_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    version = artifacts.versions()[0]
    folder = tmp_path / "zonekeeper" / "race" / version
    folder.mkdir(parents=True)
    (folder / "netty.jar").write_bytes(b"other bytes")
    with pytest.raises(ArtifactError, match="mvn"):
        artifacts.jars(version)


def test_tls_is_in_both_directions_and_only_where_it_is_asked_for() -> None:
    files = TlsFiles(authority=Path("/a"), certificate=Path("/c"), key=Path("/k"))
    upkeep = Upkeep()
    setting = ApacheSetting.DEFAULT
    server = read(property_files.bookie(setting, URI, 3181, Path("/d"), upkeep, files))
    caller = read(property_files.client(setting, URI, files))
    for found, prefix in ((server, "tls"), (caller, "client")):
        assert found["tlsClientAuthentication"] == "true"
        assert found["tlsCertificatePath"] == "/c"
        assert (found[f"{prefix}KeyStore"], found[f"{prefix}TrustStore"]) == ("/k", "/a")
    assert not [name for name in bookie(setting) if name.startswith("tls")]
