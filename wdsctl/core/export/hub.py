"""A dataset card for the Hugging Face Hub: README.md with the shards of each split, features and counts.

Source: https://huggingface.co/docs/datasets/repository_structure, and the builder `webdataset` of `datasets`. It reads
each tar from its beginning, so it cannot leave out single samples. Without features in the card, it infers them from
the first five samples.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any, get_args

from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import shell_command_at
from wdsctl.core.errors import DatasetError
from wdsctl.core.export.documents import write_documents
from wdsctl.core.export.request import ExportRequest, Written
from wdsctl.core.export.source import ExportSource, read_splits
from wdsctl.core.media.kinds import EXTENSIONS_BY_KIND, MediaType, part_kind
from wdsctl.core.progress import Progress
from wdsctl.core.text import join_with_and, markdown_code, markdown_text, pluralize
from wdsctl.core.yaml_files.document import dump_yaml

CARD_NAME = "README.md"

_SPLIT_NAME = re.compile(r"\w+(\.\w+)*")
_GLOB = re.compile(r"[*?\[\]]")

_NO_LICENSE = "The license is not stated yet. Name it here, and in `license` at the top of this file."
#: What the builder makes of a part, by its last extension. It gives the bytes of all others.
_DTYPES = dict.fromkeys(("txt", "text", "transcript"), "string") | dict.fromkeys(EXTENSIONS_BY_KIND["integer"], "int64")
#: Parts whose structure only their content tells, and compressed parts: the builder has to infer the features.
_UNKNOWN = frozenset(
    ("json", "jsn", "ten", "tb", "mp", "msg", "npy", "npz", "cbor", "pth", "bz2", "gz", "lz4", "xz", "zst")
)
#: The size categories of the Hub: each has fewer samples than its limit.
_SIZES = {
    10**3: "n<1K",
    10**4: "1K<n<10K",
    10**5: "10K<n<100K",
    10**6: "100K<n<1M",
    10**7: "1M<n<10M",
    10**8: "10M<n<100M",
    10**9: "100M<n<1B",
    10**10: "1B<n<10B",
    10**11: "10B<n<100B",
    10**12: "100B<n<1T",
}


def write(source: ExportSource, request: ExportRequest, folder: str, _progress: Progress) -> Written:
    """Write the card. Raises UsageError if a README.md exists, DatasetError WDS256 for splits of samples."""
    splits = read_splits(source, request.split_set, "the Hub")
    by_path = {shard.path: shard for shard in source.shards}
    shards = {name: [by_path[path] for path in sorted(paths)] for name, paths in splits.splits.items() if paths}
    _check_names(source, shards)
    features = _features(source)
    notes = []
    if features is None:
        parts = [part.name for part in source.parts if _extension(part.name) in _UNKNOWN]
        notes.append(f"the card has no features: the Hub infers the structure of {join_with_and(parts)}")
    if splits.excluded_samples:
        notes.append(f"the Hub shows also the {pluralize(len(splits.excluded_samples), 'excluded sample')}")
    card = _card(source, shards, features, request.license_id)
    write_documents(folder, {CARD_NAME: card}, overwrite=request.overwrite)
    counts = {name: sum(shard.samples for shard in each) for name, each in shards.items()}
    return Written(os.path.join(folder, CARD_NAME), 1, counts, tuple(notes))


def check_split_names(names: Iterable[str], where: str, hint: str) -> None:
    """Raise DatasetError WDS257 if the Hub does not allow the name of a split."""
    odd = next((name for name in names if not _SPLIT_NAME.fullmatch(name)), None)
    if odd is not None:
        raise DatasetError(
            f"the split name {odd!r} has characters that the Hub does not allow", where=where, hint=hint, code="WDS257"
        )


def _check_names(source: ExportSource, shards: dict[str, list[ShardRow]]) -> None:
    """Raise DatasetError WDS257 for names that the Hub reads in another way."""
    check_split_names(
        shards,
        source.location.display_path,
        f"name splits with letters, digits, underscores and dots: "
        f"{shell_command_at(source.location, 'split', 'train=8,val=1,test=1')}",
    )
    path = next((each.path for some in shards.values() for each in some if _GLOB.search(each.path)), None)
    if path is not None:
        raise DatasetError(
            f"the shard name {path!r} has wildcards, which the Hub would expand",
            where=source.location.display_path,
            hint="rename the shard, then update the catalog with `wdsctl index`",
            code="WDS257",
        )


def _features(source: ExportSource) -> list[dict[str, str]] | None:
    """The features of the builder; None if a part has a structure that the catalog does not know."""
    features = []
    for part in sorted(source.parts, key=lambda part: part.name):
        extension = _extension(part.name)
        if extension in _UNKNOWN:
            return None
        kind = part_kind(part.name)
        dtype = kind if kind in get_args(MediaType) else _DTYPES.get(extension, "binary")
        features.append({"name": part.name, "dtype": dtype})
    return [*features, {"name": "__key__", "dtype": "string"}, {"name": "__url__", "dtype": "string"}]


def _extension(part: str) -> str:
    return part.rpartition(".")[2].lower()


def _card(
    source: ExportSource, shards: dict[str, list[ShardRow]], features: list[dict[str, str]] | None, license_id: str
) -> str:
    all_paths = [shard.path for shard in source.shards]
    samples = sum(shard.samples for each in shards.values() for shard in each)
    size = sum(shard.size for each in shards.values() for shard in each)
    info: dict[str, Any] = {} if features is None else {"features": features}
    info["splits"] = [
        {
            "name": name,
            "num_bytes": sum(shard.size for shard in each),
            "num_examples": sum(shard.samples for shard in each),
        }
        for name, each in shards.items()
    ]
    info |= {"download_size": size, "dataset_size": size}
    head = {
        "license": license_id or "unknown",
        "tags": ["webdataset"],
        "size_categories": [next((name for limit, name in _SIZES.items() if samples < limit), "n>1T")],
        "configs": [
            {
                "config_name": "default",
                "data_files": [
                    {"split": name, "path": _path_patterns([shard.path for shard in each], all_paths)}
                    for name, each in shards.items()
                ],
            }
        ],
        "dataset_info": info,
    }
    name = markdown_text(os.path.basename(source.location.path.rstrip("/")))
    rows = "".join(
        f"| {split if split.isalnum() else markdown_code(split)} | {len(each):,} | "
        f"{sum(shard.samples for shard in each):,} | "
        f"{sum(shard.size for shard in each):,} |\n"
        for split, each in shards.items()
    )
    parts = "".join(
        f"| {markdown_code(part.name)} | {part.samples:,} | {part.size_bytes:,} |\n" for part in source.parts
    )
    return (
        f"---\n{dump_yaml(head)}---\n\n# {name}\n\nA dataset in [WebDataset](https://github.com/webdataset/webdataset) "
        f"format: each sample is a group of files in a tar.\n\n"
        f"| Split | Shards | Samples | Bytes |\n|---|--:|--:|--:|\n{rows}\n"
        f"| Part | Samples | Bytes |\n|---|--:|--:|\n{parts}\n"
        f"## License\n\n{license_id or _NO_LICENSE}\n"
    )


def _path_patterns(paths: Sequence[str], all_paths: Sequence[str]) -> str | list[str]:
    """One glob pattern if it matches these paths and no others, else the paths. `paths`: sorted."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(paths[0], paths[-1], strict=False))
    prefix = "".join(character for character, _ in same).rstrip("0123456789")
    pattern = re.compile(rf"{re.escape(prefix)}[^/]*\.tar")
    if len(paths) > 1 and [path for path in sorted(all_paths) if pattern.fullmatch(path)] == list(paths):
        return f"{prefix}*.tar"
    return list(paths)
