"""The Java that Spark needs, found as Spark's own scripts find it.

``JAVA_HOME`` counts first, then the ``PATH``. Spark says that Java is missing in several lines, or
only by the end of a process, so it is looked for before Spark is started.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

from zonekeeper.placement.base.troubles import Refusal


class NoJava(Refusal):
    """Spark cannot be started, because there is no Java; nothing was read."""


def found(environment: Mapping[str, str]) -> str:
    """Give the program ``java`` for this environment, or raise ``NoJava``."""
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.exists():
            raise NoJava(
                f"JAVA_HOME is {home}, and there is no bin/java in it: Spark 4 needs Java 17 or "
                "later"
            )
        return str(java)
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is None:
        raise NoJava(
            "there is no java on the PATH, and JAVA_HOME is not set: Spark 4 needs Java 17 or later"
        )
    return on_path
