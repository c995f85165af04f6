"""The entry point of the ``zonekeeper`` command.

The command line needs libraries that a program which only imports zonekeeper does not need. If one
is missing, the command says which extra installs it.

If the user's shell asks for the words that complete a line, they are given before any command is
loaded, and the process ends: see ``completing``.
"""

import os

try:
    from zonekeeper.shell.completing import answering, replying

    if answering.is_asked(os.environ):
        _words = answering.remembered(os.environ)
        if _words is not None:
            replying.reply(_words)
            raise SystemExit(0)
    from zonekeeper.shell.completing import commands as completing
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

main = hosting.CommandHost(own=[commands.placement, completing.completion])

if answering.is_asked(os.environ):
    replying.reply(completing.learn(main))
    raise SystemExit(0)
