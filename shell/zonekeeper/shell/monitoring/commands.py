"""``zonekeeper monitoring``: the dashboard and the alert rules, without a checkout at hand."""

import click

from zonekeeper.shell.monitoring import shipped


@click.group()
def monitoring() -> None:
    """Print the dashboard for Grafana and the alert rules for Prometheus."""


@monitoring.command(epilog="Example: zonekeeper monitoring dashboard > zonekeeper.json")
def dashboard() -> None:
    """Print the dashboard, which Grafana imports."""
    click.echo(shipped.dashboard(), nl=False)


@monitoring.command(epilog="Example: zonekeeper monitoring rules > zonekeeper-rules.yaml")
def rules() -> None:
    """Print the alert rules, a rule file of Prometheus. Each alert names its runbook."""
    click.echo(shipped.rules(), nl=False)
