"""The commands that no other component publishes; `pyproject.toml` names each by a line."""
