"""The entry point of the ``zonekeeper`` command.

The command line needs libraries that a program which only imports zonekeeper does not; where they
are missing, it says which extra brings them.
"""

try:
    from zonekeeper.shell.explaining import commands
    from zonekeeper.shell.hosting import hosting
except ModuleNotFoundError as missing:
    if (missing.name or "").startswith("zonekeeper"):
        raise
    raise SystemExit(
        f"zonekeeper: the command line needs {missing.name}: pip install 'zonekeeper[shell]'"
    ) from missing
except KeyboardInterrupt:
    raise SystemExit(130) from None  # as it ends when all is loaded

main = hosting.CommandHost(own=[commands.placement])
