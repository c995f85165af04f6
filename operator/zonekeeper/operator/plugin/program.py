"""The entry point of ``kubectl-zonekeeper``, which kubectl finds on the path.

It needs the libraries of the operator and of the command line. If one is missing, it says which
extras install it.
"""

try:
    from zonekeeper.operator.plugin import commands
except ModuleNotFoundError as missing:
    if (missing.name or "").startswith("zonekeeper"):
        raise
    raise SystemExit(
        f"kubectl-zonekeeper: needs {missing.name}: pip install 'zonekeeper[operator,shell]'"
    ) from missing

main = commands.main
