"""``python -m zonekeeper.shell``: the command, for who knows the interpreter and no script."""

from zonekeeper.shell.main import main

main(prog_name="zonekeeper")
