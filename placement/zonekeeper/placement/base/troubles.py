"""The world's troubles: one base for every error of ours that is not a bug. Pure.

A trouble is what peers, disks, stores and users do to us. A process that meets one ends with one
line, and a command with one line and an exit code. Any other exception is a bug of ours: nobody
catches it for its kind, so it shows with its traceback.

What the operating system says stays ``OSError``. Whoever catches ``Trouble`` at the top of a
process or a command catches ``OSError`` beside it.
"""


class Trouble(Exception):
    """Something in the world is not as it must be; the message says what, where, and what to do.

    ``retryable``
        may the same request succeed later, once what the message says is dealt with? Where it is
        false, the answer does not change by asking again.
    ``maybe_applied``
        may what was asked for have happened all the same? Where it is true, the outcome is
        *unknown*: only reading again decides it. Where it is false, that is a promise that it did
        not happen.

    Both are said by the class, or by the instance where it hangs on the call.
    """

    retryable: bool = False
    maybe_applied: bool = False


class Refusal(Trouble):
    """What was asked for is wrong, and nothing was changed.

    Another request is needed, or another state of what it is about: an address that is none, a name
    that is taken, a value beyond its limits.
    """
