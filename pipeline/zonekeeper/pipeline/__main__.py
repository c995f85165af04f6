"""``python -m zonekeeper.pipeline JOB``; ``spark-submit`` takes this file as well."""

import sys

try:
    from zonekeeper.pipeline.jobs.command_line import main
except ModuleNotFoundError as error:
    sys.stderr.write(
        f"Error: {error.name} is not installed in {sys.executable}: "
        "pip install 'zonekeeper[pipeline]'\n"
    )
    sys.exit(2)

if __name__ == "__main__":
    sys.exit(main())
