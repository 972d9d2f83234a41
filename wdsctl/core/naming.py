"""WebDataset's naming rule: directories and the file name up to its first dot are the key, the rest is the part.

Source: https://github.com/webdataset/webdataset (README, "The WebDataset Format").
"""

from __future__ import annotations


def split_name(name: str) -> tuple[str, str] | None:
    """(key, part) of a member or a raw file, or None where the name has none.

    `a/b/7.seg.png` is key `a/b/7`, part `seg.png`. Names without a dot, names that begin with one (`.DS_Store`),
    names that end in their first dot, and WebDataset's own `__meta__` members have no key.
    """
    start = name.rfind("/") + 1
    dot = name.find(".", start)
    if dot <= start or dot == len(name) - 1:
        return None
    if name.startswith("__") and "__" in name[2:dot]:
        return None
    return name[:dot], name[dot + 1 :]
