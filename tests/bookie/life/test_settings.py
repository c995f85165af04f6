"""Settings: what is right becomes values, what is wrong is named, by where it came from."""

from pathlib import Path

import pytest

from zonekeeper.bookie.life import settings
from zonekeeper.bookie.life.settings import BookieSettings
from zonekeeper.placement.base import locations
from zonekeeper.placement.base.settings import BadSettingError
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.identity.callers import Enforcement, OwnerRule
from zonekeeper.wire.running.bookie_config import KeyRule

FLAGS = {
    "metadata": "zk://zk:2181/ledgers",
    "id": "bk-a-4",
    "zone": "a",
    "upgrade-domains": "3",
    "data": "/data",
    "advertise": "10.0.0.1",
    "http": "127.0.0.1:8080",
}


def parse(**changed: str | None) -> BookieSettings:
    flags = {name.replace("_", "-"): text for name, text in changed.items()}
    return settings.parse({**FLAGS, **flags}, {})


def test_right_settings_become_values() -> None:
    found = parse()

    assert found.location == locations.parse("/a/ud-1")
    assert found.data == Path("/data")
    assert found.listen == Address("0.0.0.0", 3181)
    assert found.advertise == "10.0.0.1"
    assert found.http == Address("127.0.0.1", 8080)
    assert found.tls is None
    assert (found.drain_timeout_ms, found.waiting_bytes_max) == (10_000, 256 << 20)


def test_keys_are_warned_of_until_somebody_says_otherwise() -> None:
    assert parse().ledger_keys is KeyRule.WARN
    assert [parse(ledger_keys=rule.value).ledger_keys for rule in KeyRule] == [*KeyRule]


def test_owners_are_asked_for_only_if_somebody_says_so() -> None:
    assert parse().ledger_owners is OwnerRule.OFF
    assert [parse(ledger_owners=rule.value).ledger_owners for rule in OwnerRule] == [*OwnerRule]


def test_a_bookie_need_not_know_where_it_stands() -> None:
    assert parse(zone=None, upgrade_domains=None).location is None


def test_the_address_told_to_others_is_the_one_listened_on_unless_that_is_everywhere() -> None:
    def advertised(listen: str) -> str:
        return parse(listen=listen, advertise=None).advertise

    assert advertised("127.0.0.1:0") == "127.0.0.1"
    assert advertised("[::1]:0") == "[::1]"
    assert advertised("0.0.0.0:0") == advertised("[::]:0") != "0.0.0.0"


def test_a_flag_goes_before_the_environment_and_that_before_the_file() -> None:
    environment = {"ZONEKEEPER_LISTEN": "env:2", "ZONEKEEPER_HTTP": "env:2", "PATH": "/bin"}
    file: dict[str, object] = {"listen": "file:3", "http": "file:3", "advertise": "file"}
    flags = {**FLAGS, "listen": "flag:1", "http": None, "advertise": None}

    found = settings.parse(flags, environment, file, "b.yaml")

    assert found.listen == Address("flag", 1)
    assert found.http == Address("env", 2)
    assert found.advertise == "file"


def test_a_number_in_the_file_is_as_good_as_its_text() -> None:
    flags = {**FLAGS, "upgrade-domains": None}
    file: dict[str, object] = {"upgrade-domains": 3}

    assert settings.parse(flags, {}, file, "b.yaml").location == locations.parse("/a/ud-1")


def test_what_is_wrong_is_named_by_where_it_came_from() -> None:
    with pytest.raises(BadSettingError, match=r"^ZONEKEEPER_LISTEN: '3181': must be HOST:PORT"):
        settings.parse(FLAGS, {"ZONEKEEPER_LISTEN": "3181"})
    with pytest.raises(BadSettingError, match=r"^listen in b\.yaml: '3181': must be HOST:PORT"):
        settings.parse(FLAGS, {}, {"listen": 3181}, "b.yaml")
    with pytest.raises(BadSettingError, match=r"^listen in b\.yaml: must be a text or a number"):
        settings.parse(FLAGS, {}, {"listen": ["a"]}, "b.yaml")
    with pytest.raises(BadSettingError, match=r"^'lisen' in b\.yaml: there is no such setting"):
        settings.parse(FLAGS, {}, {"lisen": "x"}, "b.yaml")


def test_each_setting_has_its_own_name_everywhere_and_defaults_are_right_settings() -> None:
    assert len({field.name for field in settings.SETTINGS}) == len(settings.SETTINGS)
    assert len({field.environment for field in settings.SETTINGS}) == len(settings.SETTINGS)
    assert all(field.help.endswith(".") for field in settings.SETTINGS)
    required = {field.name for field in settings.SETTINGS if field.required}
    settings.parse({name: FLAGS[name] for name in required} | {"id": "b-0"}, {})


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"metadata": "etcd://x"}, "--metadata: .*etcd"),
        ({"metadata": None}, "--metadata: must be given"),
        ({"id": "a b"}, "--id: 'a b'"),
        ({"id": "readonly"}, "--id: 'readonly'"),
        ({"id": "nameless"}, "--id, --upgrade-domains: .*nameless"),
        ({"zone": None}, "--zone: must be given"),
        ({"upgrade_domains": None}, "--upgrade-domains: must be given"),
        ({"upgrade_domains": "0"}, "--upgrade-domains: '0': must be a whole number"),
        ({"zone": "a/b"}, "--zone: 'a/b'"),
        ({"zone": ""}, "--zone: ''"),
        ({"data": None}, "--data: must be given"),
        ({"data": "data"}, "--data: 'data': must be an absolute path"),
        ({"data": "/a,b"}, "--data: '/a,b'"),
        ({"data": '/a"b'}, "--data: '/a\"b'"),
        ({"journal": "j"}, "--journal: 'j': must be an absolute path"),
        ({"ledger_dirs": "/a,b"}, "--ledger-dirs: 'b': must be an absolute path"),
        ({"ledger_dirs": "/a,/b,/a"}, "--ledger-dirs: '/a,/b,/a': names a folder twice"),
        ({"listen": "3181"}, "--listen: '3181': must be HOST:PORT"),
        ({"listen": ":3181"}, "--listen: ':3181': must be HOST:PORT"),
        ({"listen": "::1:3181"}, "--listen: '::1:3181': must be HOST:PORT"),
        ({"listen": "h:65536"}, "--listen: 'h:65536': the port"),
        ({"http": "h:x"}, "--http: 'h:x': the port"),
        ({"advertise": "h/x"}, "--advertise: 'h/x'"),
        ({"advertise": ""}, "--advertise: ''"),
        ({"tls_key": "/k"}, "--tls-authority: must be given"),
        (
            {"id": "a:1-0", "tls_authority": "/a", "tls_certificate": "/c", "tls_key": "/k"},
            "--id: 'a:1-0' cannot be a bookie's id with TLS",
        ),
        ({"access": "on"}, "--access: needs --tls-authority, --tls-certificate and --tls-key"),
        ({"access": "never"}, "--access: 'never': must be one of off, warn, named, on"),
        ({"ledger_owners": "strict"}, "--ledger-owners: 'strict': must be off, warn or on"),
        ({"access_names": "/n"}, "--access-names: needs --tls-authority"),
        ({"access": "off", "access_names": "/n"}, "--access-names: needs --tls-authority"),
        ({"drain_timeout": "10"}, "--drain-timeout: '10': must be a duration"),
        ({"waiting_bytes": "0MiB"}, "--waiting-bytes: '0MiB': must be a size"),
        ({"disk_full": "95"}, "--disk-full: '95': must be a share"),
        ({"disk_warn": "99%"}, "--disk-warn, --disk-full, --disk-low: disk marks"),
        ({"http_tls": "on"}, "--http-tls: on needs --tls-authority, --tls-certificate, --tls-key"),
        ({"http_tls": "yes"}, "--http-tls: 'yes': must be off or on"),
        ({"ledger_keys": "strict"}, "--ledger-keys: 'strict': must be off, warn or on"),
        ({"read_threads": "many"}, "--read-threads: 'many': must be a whole number"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_flag(changed: dict[str, str | None], named: str) -> None:
    with pytest.raises(BadSettingError, match=f"^{named}"):
        parse(**changed)


def test_pages_are_by_certificate_only_if_that_is_said() -> None:
    files = {"tls_authority": "/ca", "tls_certificate": "/crt", "tls_key": "/key"}
    assert parse(**files).page_tls is None
    assert parse(http_tls="off").page_tls is None
    assert parse(http_tls="on", **files).page_tls == parse(**files).tls


@pytest.mark.parametrize("enforcement", Enforcement)
def test_access_is_named_with_tls_and_off_without_unless_it_is_said(
    enforcement: Enforcement,
) -> None:
    files = {"tls_authority": "/a", "tls_certificate": "/c", "tls_key": "/k"}
    assert parse().access is Enforcement.OFF
    assert parse(access="off").access is Enforcement.OFF
    assert parse(**files).access is Enforcement.NAMED
    found = parse(access=enforcement.value, access_names="/n", **files)
    assert (found.access, found.access_names) == (enforcement, Path("/n"))
