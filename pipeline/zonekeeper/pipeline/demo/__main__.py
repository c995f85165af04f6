"""``python -m zonekeeper.pipeline.demo``: an executor dies, and no message is lost or doubled.

The exit code is 0 only if every promise was seen to hold; 2: the demonstration could not be run.
"""

import signal
import sys

try:
    from zonekeeper.pipeline.demo.spark_demo import main
except ModuleNotFoundError as error:
    sys.stderr.write(
        f"Error: {error.name} is not installed in {sys.executable}: "
        "pip install 'zonekeeper[pipeline,bookie,shell]'\n"
    )
    sys.exit(2)

if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # stops and removes, as Ctrl-C does
    sys.exit(main())
