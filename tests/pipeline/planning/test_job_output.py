"""Where rows go: the ending says how, and nothing is overwritten."""

from pathlib import Path

import pytest

from zonekeeper.pipeline.planning import job_output
from zonekeeper.pipeline.planning.job_output import HTML, TABLES, OutputRefused


def test_the_ending_says_the_format() -> None:
    assert job_output.ending("s3a://b/rows.parquet", TABLES) == ".parquet"
    for path in ("rows", "rows.txt", "rows.csv/", "rows.html", ""):
        with pytest.raises(OutputRefused, match=r"must be one of \.parquet, \.csv, \.json"):
            job_output.ending(path, TABLES)
    assert job_output.ending("rows.html", (*TABLES, HTML)) == HTML


def test_a_page_is_a_file_that_was_not_there(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    job_output.check_no_file(str(path))
    job_output.write_page("é", str(path))
    assert path.read_bytes() == "é".encode()
    with pytest.raises(OutputRefused, match="exists already"):
        job_output.check_no_file(str(path))
    with pytest.raises(OutputRefused, match="exists already"):
        job_output.write_page("other", str(path))
    assert path.read_bytes() == "é".encode()
    with pytest.raises(OutputRefused, match="there is no folder"):
        job_output.check_no_file(str(tmp_path / "not" / "there.html"))


def test_a_path_that_is_given_twice_is_refused_before_anything_is_read() -> None:
    job_output.check_apart(["rows.csv", "rows.json", "more/rows.csv"])
    with pytest.raises(OutputRefused, match=r"--output rows\.csv: is given twice"):
        job_output.check_apart(["rows.csv", "rows.json", "rows.csv"])
