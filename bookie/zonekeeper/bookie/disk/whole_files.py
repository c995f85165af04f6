"""Small files that are replaced as a whole: after a crash there is the old content or the new one.

The new content is written into a file ``<name>.new`` and synced, the file gets the name of the old
one, and the names are synced. So a rename never shows bytes that are not on the disk.
"""

from zonekeeper.bookie.disk.files import FileSystem


def new_name(name: str) -> str:
    """Give the name of the file that holds the new content until it is whole."""
    return f"{name}.new"


def replace(files: FileSystem, name: str, data: bytes) -> None:
    """Replace a file's content, or make the file; return when that is durable. Blocks."""
    new = new_name(name)
    if new in files.names():
        files.remove(new)
    file = files.create(new)
    try:
        file.write(0, [data])
        file.sync()
    finally:
        file.close()
    files.rename(new, name)
    files.sync_names()
