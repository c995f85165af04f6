"""The answer to an order, as ``status.order`` has it. Pure.

An order that is accepted is carried out until its deadline; the three other phases are final. The
answer to the last order stays until the next one is answered.
"""

import enum
from dataclasses import dataclass

from zonekeeper.operator.kubernetes.api import Json


class AnswerPhase(enum.StrEnum):
    """What has become of an order."""

    #: It is right, and is being carried out.
    ACCEPTED = "Accepted"
    #: It is carried out, as the records say.
    DONE = "Done"
    #: Nothing was done.
    REFUSED = "Refused"
    #: It was not seen to be done before its deadline; it may have been.
    FAILED = "Failed"

    @property
    def is_final(self) -> bool:
        """Does the answer stay?"""
        return self is not AnswerPhase.ACCEPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderAnswer:
    """The answer to one order."""

    token: str
    phase: AnswerPhase
    message: str
    #: What was ordered, in words; empty: the order could not be read.
    order: str = ""
    by: str = ""


def plain(answer: OrderAnswer) -> Json:
    """Give an answer as the status has it."""
    return {
        "token": answer.token,
        "phase": str(answer.phase),
        "message": answer.message,
        "order": answer.order,
        "by": answer.by,
    }


def read(status: Json) -> OrderAnswer | None:
    """Read the answer that an earlier turn wrote; None: there is none that can be read."""
    told = status.get("order")
    if not isinstance(told, dict) or told.get("phase") not in list(AnswerPhase):
        return None
    token, message = told.get("token"), told.get("message")
    if not isinstance(token, str) or not isinstance(message, str):
        return None
    return OrderAnswer(
        token=token,
        phase=AnswerPhase(told["phase"]),
        message=message,
        order=str(told.get("order", "")),
        by=str(told.get("by", "")),
    )
