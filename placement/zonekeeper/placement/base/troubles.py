"""Troubles: one base class for every error of ours that is not a bug. Pure.

A trouble has its cause outside of the program: in a peer, a disk, a store or a request. A process
that a trouble ends prints one line; a command prints one line and has an exit code. Any other
exception is a bug of ours. No code catches it by its class, so it shows with its traceback.

An error of the operating system stays an ``OSError``. Code that catches ``Trouble`` at the top of a
process or a command catches ``OSError``, too.
"""


class Trouble(Exception):
    """Something outside of the program is wrong; the message says what, where, and what to do.

    ``retryable``
        May the same request succeed later, once the cause is dealt with? If false, a repetition
        gets the same answer.
    ``maybe_applied``
        May the requested change have happened although the request failed? If true, the outcome is
        *unknown*: only reading again decides it. If false, it is a promise that the change did not
        happen.

    The class sets both. An instance sets its own value if the answer depends on the call.
    """

    retryable: bool = False
    maybe_applied: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the text, the notes and all attributes, whatever the class is made with.

        Python would make the copy by calling the class with the text alone.
        """
        return _copied, (type(self), self.args), self.__dict__ or None


def _copied(kind: type[Trouble], args: tuple[object, ...]) -> Trouble:
    """Make an error without its ``__init__``, as a pickle does; the attributes come afterwards."""
    return kind.__new__(kind, *args)


class Refusal(Trouble):
    """The request is wrong, and nothing was changed.

    It needs another request, or another state of the thing that it is about. Examples: a text that
    is no address, a name that is taken, a value beyond its limits.
    """
