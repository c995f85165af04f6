"""The entry point of the ``zonekeeper`` command.

The command line needs libraries that a program which only imports zonekeeper does not need. If one
is missing, the command says which extra installs it.
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
    raise SystemExit(130) from None  # the exit code that an interruption has after loading, too

main = hosting.CommandHost(own=[commands.placement])
