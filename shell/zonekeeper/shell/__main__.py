"""``python -m zonekeeper.shell``: runs the ``zonekeeper`` command without its installed script."""

from zonekeeper.shell.main import main

main(prog_name="zonekeeper")
