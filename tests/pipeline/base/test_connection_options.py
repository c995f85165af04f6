"""How a cluster is reached: secrets are files, read where they are used, and shown nowhere."""

import pickle
from pathlib import Path

import pytest

from zonekeeper.client.base.config import ClientConfig
from zonekeeper.pipeline.base import connection_options
from zonekeeper.pipeline.base.connection_options import (
    PASSWORD_BYTES_MAX,
    BadSecretFileError,
    ConnectionOptions,
)
from zonekeeper.pipeline.base.option_texts import OptionTexts
from zonekeeper.placement.base.fields import InvalidFieldsError

URI = "sqlite:///srv/meta.db"


def given(**texts: str) -> ConnectionOptions:
    read = OptionTexts(texts, connection_options.SETTINGS)
    made = connection_options.given(read)
    read.check()
    return made


def refused(**texts: str) -> str:
    with pytest.raises(InvalidFieldsError) as error:
        given(**texts)
    return str(error.value)


@pytest.mark.parametrize(
    ("content", "password"),
    [
        (b"sesame", b"sesame"),
        (b"sesame\n", b"sesame"),
        (b"ses\n\r\n", b"ses\n"),
        (b"\xff ", b"\xff "),
    ],
)
def test_a_password_is_read_from_its_file_and_stands_nowhere_else(
    tmp_path: Path, content: bytes, password: bytes
) -> None:
    file = tmp_path / "password"
    made = given(metadata=URI, passwordFile=str(file))
    file.write_bytes(content)

    assert made.config() == ClientConfig(password=password)
    assert password not in pickle.dumps(made)
    file.write_bytes(b"another")
    assert made.config().password == b"another"


@pytest.mark.parametrize("content", [None, b"", b"\n", b"x" * (PASSWORD_BYTES_MAX + 1)])
def test_a_file_that_cannot_be_used_is_refused_with_its_name(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(BadSecretFileError, match=f"passwordFile: {file} ") as error:
        given(metadata=URI, passwordFile=str(file)).config()
    assert "xx" not in str(error.value)


def test_files_of_tls_are_given_all_or_none() -> None:
    assert given(metadata=URI).tls is None
    whole = given(metadata=URI, tlsAuthority="/ca", tlsCertificate="/crt", tlsKey="/key")
    assert whole.tls is not None
    assert [str(one) for one in (whole.tls.authority, whole.tls.certificate, whole.tls.key)] == [
        "/ca",
        "/crt",
        "/key",
    ]
    said = refused(metadata=URI, tlsAuthority="/ca", tlsKey="/key")
    assert said == (
        "tlsCertificate: not given: is required: authority, certificate and key make TLS only "
        "together; give all three, or none"
    )


def test_files_of_tls_are_on_this_machine_or_named(tmp_path: Path) -> None:
    """A Secret that is missing, or mounted elsewhere, is no riddle."""
    files = {"tlsAuthority": "ca.crt", "tlsCertificate": "tls.crt", "tlsKey": "tls.key"}
    made = given(metadata=URI, **{name: str(tmp_path / file) for name, file in files.items()})
    for role, file in zip(("authority", "certificate", "key"), files.values(), strict=True):
        with pytest.raises(BadSecretFileError) as said:
            made.config()
        assert str(said.value) == (
            f"{tmp_path / file}, the TLS file of the {role}, cannot be read on this machine: "
            "No such file or directory; the file must be on the driver and on every executor"
        )
        (tmp_path / file).touch()
    assert made.config().tls == made.tls


def test_a_zone_is_the_client_s() -> None:
    assert given(metadata=URI, zone="eu-a").config().zone == "eu-a"
    assert given(metadata=URI).config().zone is None


@pytest.mark.parametrize("name", ["metadata", "passwordFile", "zone"])
def test_an_empty_text_is_refused(name: str) -> None:
    assert f"{name}: empty: must not be empty" in refused(**{"metadata": URI, name: " "})
