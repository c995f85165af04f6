"""The top-level command, which hosts the commands of components; the reader of YAML files."""
