"""The forms of names in Kubernetes, as patterns. Pure."""

import re
from typing import Final

from zonekeeper.placement.base import fields

SUBDOMAIN_MAX: Final = 253
LABEL_VALUE_MAX: Final = 63
#: The prefix of a label's name, a slash, and the name itself.
LABEL_NAME_MAX: Final = SUBDOMAIN_MAX + 1 + LABEL_VALUE_MAX

_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
SUBDOMAIN: Final = rf"{_DNS_LABEL}(\.{_DNS_LABEL}){{0,15}}"
LABEL: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_NAME: Final = rf"({SUBDOMAIN}/)?{LABEL}"
LABEL_VALUE: Final = rf"({LABEL})?"

#: The same as kinds of value.
OBJECT_NAME: Final = fields.Text(
    SUBDOMAIN, "the name of an object: lower case letters, digits, - and .", "registry-login"
)
NAME_OF_LABEL: Final = fields.Text(
    LABEL_NAME,
    "the name of a label: letters, digits, -, _ and . after a prefix and /, or without them",
    "example.com/disk",
)
VALUE_OF_LABEL: Final = fields.Text(
    LABEL_VALUE, "the value of a label: at most 63 letters, digits, -, _ and .", "ssd"
)
NAMESPACE: Final = fields.Text(_DNS_LABEL, "the name of a namespace", "logs")
#: Kubernetes takes the character 0 in no text.
FREE_TEXT: Final = fields.Text(r"[^\x00]*", "a text without the character 0", "UTC")


def is_name(pattern: str, name: str) -> bool:
    """Is this a name of this form, with a prefix that is not too long?"""
    prefix = name.rpartition("/")[0]
    return len(prefix) <= SUBDOMAIN_MAX and re.fullmatch(pattern, name) is not None
