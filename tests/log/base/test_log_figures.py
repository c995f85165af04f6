"""The numbers of a client's logs are a page that Prometheus reads."""

from zonekeeper.log.base.log_figures import LogFigures


def test_the_numbers_are_a_page_of_metrics() -> None:
    figures = LogFigures()
    figures.writers.messages_total += 3
    figures.writers.downgraded_now = 1

    lines = figures.render().splitlines()

    assert "zonekeeper_log_writers_messages_total 3" in lines
    assert "# TYPE zonekeeper_log_writers_messages_total counter" in lines
    assert "zonekeeper_log_writers_downgraded 1" in lines
    assert "# TYPE zonekeeper_log_writers_downgraded gauge" in lines


def test_each_client_has_numbers_of_its_own() -> None:
    one, other = LogFigures(), LogFigures()
    one.writers.open_now += 1
    assert other.writers.open_now == 0
