"""Settings: what is right becomes values, what is wrong is named."""

from pathlib import Path

import pytest

from zonekeeper.bookie import settings
from zonekeeper.bookie.settings import Address, BadSettingError, Texts
from zonekeeper.placement import locations


def texts(**changed: str | int | None) -> Texts:
    given: Texts = {
        "metadata": "zk://zk:2181/ledgers",
        "bookie_id": "bk-a-4",
        "zone": "a",
        "upgrade_domains": 3,
        "data": "/data",
        "listen": "0.0.0.0:3181",
        "advertise": "10.0.0.1",
        "http": "127.0.0.1:8080",
    }
    given.update(changed)  # type: ignore[typeddict-item] # one field at a time, wrong ones too
    return given


def test_right_settings_become_values() -> None:
    found = settings.parse(texts())

    assert found.location == locations.parse("/a/ud-1")
    assert found.data == Path("/data")
    assert found.listen == Address("0.0.0.0", 3181)
    assert found.advertise == "10.0.0.1"
    assert found.http == Address("127.0.0.1", 8080)


def test_a_bookie_need_not_know_where_it_stands() -> None:
    assert settings.parse(texts(zone=None, upgrade_domains=None)).location is None


def test_the_address_told_to_others_is_the_one_listened_on_unless_that_is_everywhere() -> None:
    def advertised(listen: str) -> str:
        return settings.parse(texts(listen=listen, advertise=None)).advertise

    assert advertised("127.0.0.1:0") == "127.0.0.1"
    assert advertised("[::1]:0") == "[::1]"
    assert advertised("0.0.0.0:0") == advertised("[::]:0") != "0.0.0.0"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"metadata": "etcd://x"}, "--metadata: .*etcd"),
        ({"bookie_id": "a b"}, "--id: 'a b'"),
        ({"bookie_id": "readonly"}, "--id: 'readonly'"),
        ({"bookie_id": "nameless"}, "--id, --upgrade-domains: .*nameless"),
        ({"zone": None}, "--zone: must be given"),
        ({"upgrade_domains": None}, "--upgrade-domains: must be given"),
        ({"zone": "a/b"}, "--zone: 'a/b'"),
        ({"zone": ""}, "--zone: ''"),
        ({"data": "data"}, "--data: 'data': must be an absolute path"),
        ({"data": "/a,b"}, "--data: '/a,b'"),
        ({"listen": "3181"}, "--listen: '3181': must be HOST:PORT"),
        ({"listen": ":3181"}, "--listen: ':3181': must be HOST:PORT"),
        ({"listen": "::1:3181"}, "--listen: '::1:3181': must be HOST:PORT"),
        ({"listen": "h:65536"}, "--listen: 'h:65536': the port"),
        ({"http": "h:x"}, "--http: 'h:x': the port"),
        ({"advertise": "h/x"}, "--advertise: 'h/x'"),
        ({"advertise": ""}, "--advertise: ''"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_flag(changed: dict[str, str | None], named: str) -> None:
    with pytest.raises(BadSettingError, match=f"^{named}"):
        settings.parse(texts(**changed))
