"""What a page of metrics must be, whatever it tells."""

import re


def unexplained(page: str) -> list[str]:
    """Give the families of a page that do not say in a sentence what they are."""
    explained = re.findall(r"^# HELP (\S+) \S.*\.\n# TYPE \1 ", page, re.MULTILINE)
    typed = re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE)
    assert len(typed) == len(set(typed)), "a name stands for one family"
    return sorted(set(typed) - set(explained))
