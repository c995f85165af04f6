"""Secrets: bytes whose text shows nothing, and which leave the process only on purpose. Pure.

A password, a key that is made of one and a private key are ``Secret``s from the place where they
are read. A ``Secret`` is ``bytes`` in every computation. These ways out are closed, because they
are taken by accident:

* ``repr``, ``str``, ``format`` and ``%s`` give ``Secret(***)``, whatever object holds it. So a log
  line, a message of an error, a figure and a traceback's locals show nothing.
* ``pickle`` raises ``TypeError``, also for an object that holds it. So it is in no plan and in no
  task of Spark. ``json`` takes no bytes at all. An empty secret hides nothing: it is pickled.

A copy is the same object. What is computed of a secret (a slice, a sum, ``decode``, ``hex``) is a
plain value: the caller has asked for it. Memory is not wiped.
"""

from typing import Final, Self, SupportsIndex

#: What is shown in the place of each secret; it does not tell how long the secret is.
SHOWN: Final = "Secret(***)"


class Secret(bytes):
    """Bytes that nobody shall read who does not ask for them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return SHOWN

    def __str__(self) -> str:
        return SHOWN

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[type[Self], tuple[()]]:
        if not self:
            return type(self), ()
        raise TypeError("a secret is not pickled: name the file that holds it, and read it there")
