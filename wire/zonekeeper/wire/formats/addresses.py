"""The address at which a process listens, or is reached: ``HOST:PORT``. Pure."""

import ipaddress
from dataclasses import dataclass
from typing import Final

PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class Address:
    """An address to listen at; an IPv6 host is in brackets, and port 0 means a free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def bare_host(self) -> str:
        """Give the host in the form that sockets take."""
        return self.host.strip("[]")


def parse(text: str) -> Address:
    """Read an address; raises ``ValueError`` with a message for a person."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or (":" in host and not (host[0] == "[" and host[-1] == "]")):
        raise ValueError(f"{text!r}: must be HOST:PORT, such as 0.0.0.0:3181 or [::1]:8080")
    if not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise ValueError(f"{text!r}: the port must be between 0 and {PORT_MAX}")
    return Address(host, int(port))


def of(host: str, port: int) -> Address:
    """Give the address of a host, whose IPv6 form may have its brackets or not."""
    bare = host.strip("[]")
    return Address(f"[{bare}]" if ":" in bare else bare, port)


def host(text: str) -> str:
    """Check the host that a process advertises; raises ``ValueError``."""
    if not text or any(character.isspace() or character == "/" for character in text):
        raise ValueError(f"{text!r}: must be a host name or an address, without a port")
    return text


def advertised(listen: Address, host_name: str) -> str:
    """Give the host to advertise if none is given: that of the address, if it names one."""
    try:
        is_everywhere = ipaddress.ip_address(listen.bare_host).is_unspecified
    except ValueError:
        is_everywhere = False  # a name
    return host_name if is_everywhere else listen.host
