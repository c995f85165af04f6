"""The pages of the documentation say of every setting what its table says, row for row."""

from collections.abc import Sequence

import pytest

from tests.support.checkout_root import ROOT
from zonekeeper.bookie.life import settings as of_bookie
from zonekeeper.metadata.stores import settings as of_cluster
from zonekeeper.operator.run import settings as of_operator
from zonekeeper.pipeline.planning import copy_options as of_copies
from zonekeeper.pipeline.planning import job_options as of_jobs
from zonekeeper.pipeline.reading import options as of_pipeline
from zonekeeper.pipeline.sink import sink_options as of_sink
from zonekeeper.placement.base.settings import Setting
from zonekeeper.replication.run import settings as of_autorecovery


def row(setting: Setting) -> str:
    """Give the row of a setting that has a flag and a variable."""
    flag, variable = f"`--{setting.name}`", f"`{setting.environment}`"
    return f"| {flag} | {variable} | {setting.what_else or ''} | {setting.help} |"


def row_of_spark(setting: Setting) -> str:
    """Give the row of a setting that Spark passes on by its name."""
    return f"| `{setting.name}` | {setting.what_else or ''} | {setting.help} |"


def row_of_job(setting: Setting) -> str:
    """Give the row of a setting that has a flag and no variable."""
    return f"| `--{setting.name}` | {setting.what_else or ''} | {setting.help} |"


OF_COPIES = (
    *of_copies.EVERY_COPY,
    *of_copies.OF_EXPORT,
    *of_copies.OF_IMPORT,
    *of_copies.OF_MIRROR,
)
OF_JOBS = (
    *(*of_jobs.EVERY_JOB, *of_jobs.OF_READING, *of_jobs.PRICES),
    *(of_jobs.OF_REPAIR[0], of_jobs.DRY_RUN),
)
PAGES = [
    ("bookie.md", [row(one) for one in of_bookie.SETTINGS]),
    ("zones.md", [row(one) for one in of_autorecovery.SETTINGS]),
    ("operator.md", [row(one) for one in of_operator.SETTINGS]),
    ("pipeline.md", [row_of_spark(one) for one in of_pipeline.SETTINGS]),
    ("pipeline.md", [row_of_spark(of_sink.LOG)]),
    ("pipeline-jobs.md", [row_of_job(one) for one in OF_JOBS]),
    ("log-copies.md", [row_of_job(one) for one in OF_COPIES]),
    ("shell.md", [row(one) for one in (of_cluster.METADATA, of_cluster.CLUSTER_ID)]),
]


@pytest.mark.parametrize(("page", "rows"), PAGES, ids=[page for page, _ in PAGES])
def test_a_page_has_the_table_s_rows_in_its_order(page: str, rows: Sequence[str]) -> None:
    lines = (ROOT / "docs" / page).read_text().splitlines()

    assert [line for line in lines if line in rows] == list(rows)
