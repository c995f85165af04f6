"""``zonekeeper autorecovery`` as a process of a test."""

from zonekeeper.shell.commands.autorecovery import autorecovery

if __name__ == "__main__":
    autorecovery()
