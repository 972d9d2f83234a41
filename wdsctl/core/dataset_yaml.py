"""`dataset.yaml`: what the samples of a dataset are. Written once, edited by people, read strictly.

Energon's form is understood where it says the same: classes as `__module__` and `__class__`, a CrudeWebdataset, the old
names such as CaptioningWebdataset. Code is only named here (a sample type of one's own, `sample_loader`,
`part_filter`): who loads samples decides whether it runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from wdsctl.core import yaml_nodes
from wdsctl.core.command_line import command_beside
from wdsctl.core.errors import DatasetError, InputError, PermissionDenied, StorageError
from wdsctl.core.fields import check_field, check_sample_type, did_you_mean, parse_field_path, validate_field_map
from wdsctl.core.ratios import By
from wdsctl.core.sample_types import CRUDE, SAMPLE_TYPES

if TYPE_CHECKING:
    from wdsctl.core.yaml_nodes import Document, Path

VERSION = 1

_KEYS = ("version", "sample_type", "field_map", "sample_loader", "part_filter", "subflavors", "split")
_ENERGON = ("__module__", "__class__")
_FUNCTION = re.compile(r"[^\W\d][\w-]*\.py:[^\W\d]\w*")  # in a file beside dataset.yaml
_WAYS = ("auto", "shard", "sample")
_HEADER = (
    "# What the samples of this dataset are. Edit it by hand; wdsctl never overwrites your changes unless asked"
    " (--redetect).\n"
)
_SPLIT_REMARK = "# how `wdsctl split` divided it; used again for new shards"
_HINT = "`wdsctl prepare DATASET --redetect` writes the file anew"


@dataclass(frozen=True, slots=True)
class SplitRule:
    """How the dataset was divided. `by`: auto, shard or sample."""

    shares: dict[str, float]
    by: By = "auto"
    seed: int = 0

    def asks_for(self, made: SplitRule) -> bool:
        """Whether a split that was made is what this asks for. The order of the names counts, `auto` is either way."""
        shares = list(self.shares.items()) == list(made.shares.items())
        return shares and self.seed == made.seed and self.by in ("auto", made.by)


@dataclass(frozen=True, slots=True)
class DatasetConfig:
    """What dataset.yaml says. `subflavors` are the user's own values, handed to every sample as they are.

    `sample_loader`: FILE.py:FUNCTION beside dataset.yaml, which makes the fields of a sample of its parts, in the place
    of a field map. `part_filter`: the parts that are read, by name, or such a function that chooses them; empty: all.
    """

    sample_type: str = CRUDE
    field_map: dict[str, str] = field(default_factory=dict)
    subflavors: dict[str, Any] = field(default_factory=dict)
    split: SplitRule | None = None
    sample_loader: str = ""
    part_filter: str | tuple[str, ...] = ()


def load(path: str) -> DatasetConfig:
    """Raises InputError WDS002 if there is no such file, DatasetError WDS220 with the line where it is wrong."""
    return parse(read(path), path)


def read(path: str) -> str:
    """The text of the file. Raises as `load`."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return file.read()
    except FileNotFoundError as error:
        raise InputError(f"there is no {path}", hint=f"{command_beside(path, 'prepare')} writes it") from error
    except PermissionError as error:
        raise PermissionDenied(f"may not read {path}", hint="check the mode of the file", where=path) from error
    except UnicodeDecodeError as error:
        raise _wrong(f"not UTF-8: {error.reason} at byte {error.start}", path, hint="save it as UTF-8") from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}", hint="run the command again", where=path) from error


def parse(text: str, path: str = "dataset.yaml") -> DatasetConfig:
    """The same for a text; `path` is only named in errors."""
    document = yaml_nodes.parse(text, path)
    data = document.data
    if not isinstance(data, dict):
        raise _wrong("expected `sample_type:` and other keys, found " + _called(data), path)
    _check_keys(document, (), (*_KEYS, *_ENERGON))
    version = data.get("version", VERSION)
    if type(version) is not int or version < 1:
        raise _wrong(f"version: expected {VERSION}, found {_called(version)}", document.where("version"))
    if version > VERSION:
        hint = "`pip install -U wdsctl`"
        raise _wrong(f"version {version} is newer than this wdsctl knows", document.where("version"), hint=hint)
    sample_type = _sample_type(document)
    return DatasetConfig(
        sample_type=sample_type,
        field_map=_field_map(document, sample_type),
        subflavors=_section(document, "subflavors"),
        split=_split(document) if data.get("split") is not None else None,
        sample_loader=_function(document, "sample_loader") if data.get("sample_loader") is not None else "",
        part_filter=_part_filter(document),
    )


def dump(config: DatasetConfig) -> str:
    """The whole file. The same config gives the same text, and the text loads as an equal config."""
    text = f"{_HEADER}version: {VERSION}\nsample_type: {yaml_nodes.scalar(config.sample_type)}\n"
    text += yaml_nodes.block(
        "field_map", {name: yaml_nodes.scalar(source) for name, source in config.field_map.items()}
    )
    if config.sample_loader:
        text += f"sample_loader: {yaml_nodes.scalar(config.sample_loader)}\n"
    if config.part_filter:
        names = config.part_filter
        listed = names if isinstance(names, str) else [yaml_nodes.scalar(name) for name in names]
        text += f"part_filter: {listed if isinstance(listed, str) else '[' + ', '.join(listed) + ']'}\n"
    text += yaml_nodes.dump({"subflavors": config.subflavors})
    return text + (_split_block(config.split) if config.split else "")


def update_split(text: str, split: SplitRule | None, path: str = "dataset.yaml") -> str:
    """The text with another `split:` section (None: without one). Every other line stays as it is, comments too."""
    config = parse(text, path)
    if config.split == split:
        return text
    new = _split_block(split) if split else ""
    lines = yaml_nodes.lines_of_key(text, "split")
    if lines is None:  # all of the file is one {...}: there are no lines of its own to replace
        return dump(replace(config, split=split))
    newline = "\r\n" if "\r\n" in text else "\n"
    kept = text.splitlines(keepends=True)
    before, after = "".join(kept[: lines.start]), "".join(kept[lines.stop :])
    if before and not before.endswith("\n") and new:
        before += newline
    return before + new.replace("\n", newline) + after


def _sample_type(document: Document) -> str:
    data = document.data
    name = data.get("sample_type")
    where = document.where("sample_type" if name is not None else "__class__")
    if isinstance(name, dict):
        _check_keys(document, ("sample_type",), _ENERGON)
        name = _class_name(name)
    elif name is None and "__class__" in data:
        name = _class_name(data)
    if not isinstance(name, str):
        raise _wrong(f"sample_type: expected a name such as CaptioningSample, found {_called(name)}", where)
    check_sample_type(name, where=where)
    return name


def _class_name(spec: dict[str, Any]) -> str:
    """Our name of the class that `__module__` and `__class__` mean: Energon's, or somebody's own."""
    module, name = (str(spec.get(key, "")) for key in _ENERGON)
    if module.split(".")[0] not in {"megatron", "wdsctl"}:
        return f"{module}:{name}"
    kind = name.removesuffix("Webdataset").removesuffix("Sample")
    if kind == "Crude":
        return CRUDE
    return f"{kind}Sample" if f"{kind}Sample" in SAMPLE_TYPES else name


def _field_map(document: Document, sample_type: str) -> dict[str, str]:
    field_map = _section(document, "field_map")
    other = next((key for key in ("sample_loader", "part_filter") if document.data.get(key) is not None), None)
    if other and field_map:
        hint = "write one of them: a field map says already which parts are read and what fields they are"
        raise _wrong(f"{other} and field_map exclude each other", document.where(other), hint=hint)
    if document.data.get("sample_loader") is not None:
        return {}
    for name, source in field_map.items():
        where = document.where("field_map", name)
        check_field(sample_type, name, where=where)
        if not isinstance(source, str):
            hint = "write a part such as jpg, or a key such as json[caption]; in quotes if YAML reads it otherwise"
            raise _wrong(f"{name}: expected where the field comes from, found {_called(source)}", where, hint=hint)
        parse_field_path(source, where=where)
    validate_field_map(sample_type, field_map, where=document.where("field_map"))
    return field_map


def _function(document: Document, key: str) -> str:
    value = document.data[key]
    if not isinstance(value, str) or not _FUNCTION.fullmatch(value):
        hint = "such as sample_loader.py:sample_loader; the file lies beside dataset.yaml"
        raise _wrong(f"{key}: expected FILE.py:FUNCTION, found {_called(value)}", document.where(key), hint=hint)
    return value


def _part_filter(document: Document) -> str | tuple[str, ...]:
    value = document.data.get("part_filter")
    if not isinstance(value, list):
        return () if value is None else _function(document, "part_filter")
    if not value or not all(isinstance(name, str) and name for name in value):
        where = document.where("part_filter")
        raise _wrong("part_filter: expected names of parts", where, hint="such as [jpg, json], in quotes where needed")
    return tuple(value)


def _split(document: Document) -> SplitRule:
    section = _section(document, "split")
    _check_keys(document, ("split",), ("shares", "by", "seed"))
    shares = _section(document, "split", "shares")
    if not shares:
        raise _wrong("split: shares are missing", document.where("split"), hint="write shares: {train: 8, val: 1}")
    for name, share in shares.items():
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < float("inf"):
            where = document.where("split", "shares", name)
            raise _wrong(f"{name}: expected a number above zero, found {_called(share)}", where)
    by, seed = section.get("by", "auto"), section.get("seed", 0)
    if by not in _WAYS:
        hint = did_you_mean(str(by), _WAYS) or f"write one of {', '.join(_WAYS)}"
        raise _wrong(f"by: expected {', '.join(_WAYS)}, found {_called(by)}", document.where("split", "by"), hint=hint)
    if type(seed) is not int:
        raise _wrong(f"seed: expected a whole number, found {_called(seed)}", document.where("split", "seed"))
    return SplitRule(shares, by, seed)


def _section(document: Document, *path: str) -> dict[str, Any]:
    """A mapping with text as keys; absent and empty are the same."""
    value: Any = document.data
    for key in path:
        value = value.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(f"{path[-1]}: expected `name: value` lines, found {_called(value)}", document.where(*path))
    odd = next((key for key in value if not isinstance(key, str)), None)
    if odd is not None:
        raise _wrong(f"{path[-1]}: {_called(odd)} is no name; put it in quotes", document.where(*path, odd))
    return value


def _check_keys(document: Document, path: Path, known: tuple[str, ...]) -> None:
    value: Any = document.data
    for key in path:
        value = value[key]
    for key in value:
        where = document.where(*path, key)
        if key not in known:
            shown = [name for name in known if not name.startswith("__")] or list(known)
            hint = did_you_mean(str(key), shown) or f"the keys here are {', '.join(shown)}"
            raise _wrong(f"there is no key {key!r}", where, hint=hint)


def _split_block(split: SplitRule) -> str:
    shares = ", ".join(f"{yaml_nodes.scalar(name)}: {_number(share)}" for name, share in split.shares.items())
    entries = {"shares": f"{{{shares}}}", "by": split.by, "seed": str(split.seed)}
    return yaml_nodes.block("split", entries, remark=_SPLIT_REMARK)


def _number(share: float) -> str:
    # Never with an exponent: to YAML, 1e-06 is a word.
    return str(int(share)) if share == int(share) else format(Decimal(repr(share)), "f")


def _called(value: object) -> str:
    return "nothing" if value is None else repr(value)[:60]


def _wrong(message: str, where: str, *, hint: str = _HINT) -> DatasetError:
    return DatasetError(message, hint=hint, where=where, code="WDS220")
