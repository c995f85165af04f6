"""Bytes kept as text: sections of hex digits with names, and comments.

::

    # a comment, to the end of the line
    [the name of what follows]
    5a4b4652 01
"""

from pathlib import Path

HERE = Path(__file__).parent


def read(name: str, folder: Path = HERE) -> dict[str, bytes]:
    """Give the sections of a file of a folder, by their names."""
    sections: dict[str, str] = {}
    section = ""
    for line in (folder / name).read_text().splitlines():
        text = line.partition("#")[0].strip()
        if text.startswith("["):
            section = text.strip("[]")
            assert section not in sections, f"{name}: [{section}] stands there twice"
            sections[section] = ""
        elif text:
            sections[section] += text
    return {section: bytes.fromhex(digits) for section, digits in sections.items()}
