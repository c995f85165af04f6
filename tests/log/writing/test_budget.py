"""One budget for all logs of a client."""

from zonekeeper.log.writing.budget import LogBudget


def test_room_is_what_all_logs_together_leave() -> None:
    budget = LogBudget(100)
    budget.change(60)
    budget.change(30)
    assert budget.has_room(10, held_bytes=30)
    assert not budget.has_room(11, held_bytes=30)


def test_a_log_that_holds_nothing_may_take_one_message() -> None:
    budget = LogBudget(100)
    budget.change(100)
    assert budget.has_room(1_000, held_bytes=0)
    assert not budget.has_room(1, held_bytes=1)
    assert not budget.has_room_for_all(1)


def test_logs_hear_of_room_and_only_while_they_listen() -> None:
    budget, heard = LogBudget(100), list[str]()

    def first() -> None:
        heard.append("first")
        budget.forget(first)

    def second() -> None:
        heard.append("second")

    budget.listen(first)
    budget.listen(second)
    budget.change(50)
    assert heard == []
    budget.change(-10)
    budget.change(-10)
    assert heard == ["first", "second", "second"]
