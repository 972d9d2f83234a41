"""Names of splits and of split sets: which names are valid, and which splits usual names mean.

A dataset has a default set of splits and any number of named sets: `folds/train` is the split `train` of the set
`folds`.
"""

from __future__ import annotations

import re

from wdsctl.core.errors import UsageError

#: Names of splits for shares without names.
POSITIONAL_NAMES = ("train", "val", "test")

MAX_SPLITS = 62  # the bits of a sample have room for so many

#: The split that the name of a folder or file means, by the name in lower case.
STANDARD_SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}

#: The split that a value in a table means. `restval`: of Karpathy's splits of COCO and Flickr30k.
SPLIT_VALUES = {
    **STANDARD_SPLITS,
    "development": "val",
    **{name: name for name in ("eval", "evaluation", "holdout", "restval")},
}

#: The value of `rest` that leaves samples out of all splits.
NO_SPLIT = "none"

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_FOREIGN_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff/]+")  # names of splits from other tools


def qualified_split_name(split_set: str, name: str) -> str:
    """The full name of a split, for the loader and the catalog."""
    return f"{split_set}/{name}" if split_set else name


def split_set_and_name(split: str) -> tuple[str, str]:
    """Divide a full name: `folds/train` is ("folds", "train"), `train` is ("", "train")."""
    split_set, _, name = split.rpartition("/")
    return split_set, name


def is_split_name(text: str) -> bool:
    """Whether a text is a valid name of a split of wdsctl, or of a split set."""
    return bool(_NAME.fullmatch(text))


def can_name_split(text: str) -> bool:
    """Whether a name from another tool, such as a value in a table, can be the name of a split."""
    return bool(_FOREIGN_NAME.fullmatch(text))


def split_of_value(value: str) -> str:
    """The split that a value names: without spaces around it, by SPLIT_VALUES if it is one of them."""
    name = value.strip()
    return SPLIT_VALUES.get(name.lower(), name)


def check_set_name(name: str) -> str:
    """Return the name of a set. Raises UsageError if it is invalid."""
    if name and not is_split_name(name):
        raise UsageError(
            f"{name!r} is not a valid name of a split set",
            hint="use letters, digits, '.', '_' and '-', for example `--set folds`",
        )
    return name


def check_split_name(name: str) -> str:
    """Return the short name of a split. Raises UsageError WDS210 if it is invalid."""
    if not is_split_name(name):
        raise UsageError(
            f"{name!r} is not a valid split name: use letters, digits, '.', '_' and '-'",
            hint="write train=... and name the split set with `--set`",
            code="WDS210",
        )
    return name
