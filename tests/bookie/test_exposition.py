"""The text that Prometheus reads."""

from zonekeeper.bookie import exposition
from zonekeeper.bookie.exposition import BOUNDS_S, Family, Histogram, HistogramFamily, Sample


def test_numbers_are_written_with_their_labels_escaped() -> None:
    text = exposition.render(
        [
            exposition.counter("x_total", "All of them.", 3),
            Family(
                name="y",
                help="Some.",
                kind="gauge",
                samples=[Sample(value=0.5, labels={"why": 'a "b"\n\\c'}), Sample(value=2)],
            ),
        ]
    )

    assert text == (
        "# HELP x_total All of them.\n# TYPE x_total counter\nx_total 3\n"
        '# HELP y Some.\n# TYPE y gauge\ny{why="a \\"b\\"\\n\\\\c"} 0.5\ny 2\n'
    )


def test_a_histogram_counts_what_took_at_most_each_bound() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS_S[0], 0.0011, 99.0):
        histogram.observe(seconds)

    text = exposition.render(
        [HistogramFamily(name="h", help="Time.", label="operation", histograms={"read": histogram})]
    )

    lines = text.splitlines()
    assert lines[:5] == [
        "# HELP h Time.",
        "# TYPE h histogram",
        'h_bucket{operation="read",le="0.0005"} 2',
        'h_bucket{operation="read",le="0.001"} 2',
        'h_bucket{operation="read",le="0.002"} 3',
    ]
    assert lines[-3] == 'h_bucket{operation="read",le="+Inf"} 4'
    assert lines[-2].startswith('h_sum{operation="read"} 99.001')
    assert lines[-1] == 'h_count{operation="read"} 4'
    assert len(lines) == 2 + len(BOUNDS_S) + 3


def test_nothing_to_show_is_a_name_without_numbers() -> None:
    family = HistogramFamily(name="h", help="Time.", label="operation", histograms={})

    assert exposition.render([family]) == "# HELP h Time.\n# TYPE h histogram\n"
