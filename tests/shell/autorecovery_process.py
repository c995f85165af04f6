"""``zonekeeper autorecovery`` as a process of a test."""

from zonekeeper.shell.live.autorecovery import autorecovery

if __name__ == "__main__":
    autorecovery()
