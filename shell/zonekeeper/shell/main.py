"""The entry point of the ``zonekeeper`` command."""

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Run and watch zone-aware bookie clusters."""
