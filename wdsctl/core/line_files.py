"""Which files are datasets of lines: JSONL, one JSON object a line. By name alone.

Source: https://jsonlines.org (the form, and the endings `.jsonl` and `.jsonl.gz`); `.ndjson` is the same thing.
"""

from __future__ import annotations

from wdsctl.core.urls import is_url

SUFFIXES = (".jsonl", ".ndjson")
TAR = ".tar"

#: What is left out, by its last ending, and the command that unpacks it.
UNPACKERS = {".gz": "gunzip", ".zst": "unzstd", ".bz2": "bunzip2", ".xz": "unxz", ".lz4": "unlz4"}


def is_lines(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def unpacker(name: str) -> str:
    """The command that unpacks a compressed file of lines; empty where the name is of no such file."""
    lower = name.lower()
    for ending, tool in UNPACKERS.items():
        if lower.endswith(ending) and is_lines(lower.removesuffix(ending)):
            return tool
    return ""


def parted(root: str) -> tuple[str, str]:
    """(folder, name) of a root that is one file: a tar, or lines, plain or compressed; (root, "") of any other."""
    if not (is_lines(root) or unpacker(root) or root.lower().endswith(TAR)):
        return root, ""
    folder, _, name = root.rpartition("/")
    if is_url(root) and folder.endswith(":/"):  # `memory://x.jsonl`: the file is where a bucket is named elsewhere
        return root, ""
    return folder or ("/" if root.startswith("/") else "."), name
