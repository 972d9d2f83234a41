"""The files of splits that a blend file names: whether a training could go by them."""

from __future__ import annotations

from collections.abc import Iterator

from wdsctl.core.blend_file import Leaf, read_blend
from wdsctl.core.blend_file.tree import splits_of
from wdsctl.core.errors import WdsctlError
from wdsctl.core.findings import Finding
from wdsctl.core.verbs.blend_source import Sources


def split_file_findings(path: str) -> tuple[Finding, ...]:
    """What a training would refuse of each `split_config` of the blend file at `path`: a file that is not there, does
    not parse, names what its dataset does not have, or has no such split, or an empty one.

    Raises what reading a blend file raises. Cost: the keys of shards of which a file leaves out single samples.
    """
    sources = Sources(None)
    found: dict[tuple[str, str, str], Finding] = {}
    for split, leaf in leaves_of(path):
        name = (leaf.path, leaf.split_part, leaf.split_config or "")
        if not leaf.split_config or name in found:
            continue
        try:
            sources.find(*name)
        except WdsctlError as error:
            where = f" ({error.where})" if error.where else ""
            file, _, line = leaf.where.rpartition(":")
            message = f"line {line}, {split}: {error.message}{where}"
            found[name] = Finding(code=error.code, severity="error", message=message, shard=file)
    return tuple(found.values())


def leaves_of(path: str) -> Iterator[tuple[str, Leaf]]:
    """The datasets of every split of the file, members of joins among them, each with the split's name.

    A file without `splits:` is the same for all of them, and read as `train`. Raises what reading a blend file raises.
    """
    for split in splits_of(path) or ["train"]:
        for leaf in read_blend(path, split_part=split).leaves:
            for each in (leaf, *(leaf.join.members if leaf.join else ())):
                yield split, each
