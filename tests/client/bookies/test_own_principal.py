"""The principal that a client's certificate names: one, or none is taken for its own."""

from pathlib import Path

import pytest

from tests.support.certificates import Authority, certified, of_role
from zonekeeper.client.base import errors
from zonekeeper.client.bookies import own_principal
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity.principals import Role, uri_of

HERE = "c0ffee"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def named(authority: Authority, *uris: str) -> TlsFiles:
    pair = authority.sign(f"named-{len(uris)}", name="someone", uris=uris)
    return TlsFiles(
        authority=authority.pair.certificate, certificate=pair.certificate, key=pair.key
    )


@pytest.mark.parametrize("instance", [HERE, "any"])
def test_a_certificate_of_a_role_names_it(authority: Authority, instance: str) -> None:
    files = of_role(authority, Role.CLIENT, instance=instance)
    assert own_principal.of_files(files, HERE) == "client/client-1"


def test_the_first_certificate_of_a_chain_counts(authority: Authority, tmp_path: Path) -> None:
    files = of_role(authority, Role.CLIENT)
    other = of_role(authority, Role.ADMIN).certificate.read_text()
    chain = tmp_path / "chain.crt"
    chain.write_text(f"Überschrift\n{files.certificate.read_text()}\n{other}")
    files = TlsFiles(authority=files.authority, certificate=chain, key=files.key)
    assert own_principal.of_files(files, HERE) == "client/client-1"
    # It is read again: the next certificate may have another name.
    chain.write_text(other)
    assert own_principal.of_files(files, HERE) == "admin/admin-1"


def test_what_names_not_exactly_one_principal_is_nobodys_own(
    authority: Authority, tmp_path: Path
) -> None:
    several = named(authority, *(uri_of(HERE, Role.CLIENT, name) for name in ("a", "b")))
    twice = named(authority, *(uri_of(one, Role.CLIENT, "a") for one in (HERE, "any", HERE)))
    no_file = TlsFiles(authority=tmp_path, certificate=tmp_path / "none", key=tmp_path)
    half = TlsFiles(authority=tmp_path, certificate=tmp_path / "half", key=tmp_path)
    half.certificate.write_text("-----BEGIN CERTIFICATE-----\nMIIB")
    cases = [
        (None, "has no certificate"),
        (certified(authority, "plain", "plain"), "names no role"),
        (of_role(authority, Role.CLIENT, instance="another"), "is of another cluster"),
        (several, r"several principals \(client/a, client/b\)"),
        (no_file, "cannot be read: .*none"),
        (half, "cannot be read: it has no whole certificate"),
    ]
    for files, said in cases:
        with pytest.raises(errors.NoPrincipal, match=said) as told:
            own_principal.of_files(files, HERE)
        assert "nothing was done; give the owner in words" in str(told.value)
        assert (told.value.retryable, told.value.maybe_applied) == (False, False)
    assert own_principal.of_files(twice, HERE) == "client/a", "one principal, named three times"
