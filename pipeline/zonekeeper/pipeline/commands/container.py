"""The entry point of the image for Spark: ``python -m zonekeeper.pipeline.commands.container``.

Spark gives its containers arguments and no command: ``driver …`` or ``executor``. Any other words
are a command, which is run as it stands. The process becomes the command, so it gets the signals of
the container, and its exit code is the container's.

What is missing is one line, and exit code 2: the same as of a job.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from zonekeeper.pipeline.commands import container_command
from zonekeeper.placement.base.troubles import Refusal

NOT_STARTED = 2


def main() -> int:
    """Become the command; returns only if there is none."""
    try:
        command = container_command.command(sys.argv[1:], os.environ, _spark_home())
        environment = {**os.environ, **command.added}
        os.execvpe(command.words[0], command.words, environment)  # noqa: S606 becomes it
    except (Refusal, OSError) as error:
        sys.stderr.write(f"Error: {error}\n")
    return NOT_STARTED


def _spark_home() -> str | None:
    """Give the folder of Spark, which is that of its package for Python."""
    named = os.environ.get("SPARK_HOME")
    if named:
        return named
    spec = find_spec("pyspark")
    return None if spec is None or spec.origin is None else str(Path(spec.origin).parent)


if __name__ == "__main__":
    sys.exit(main())
