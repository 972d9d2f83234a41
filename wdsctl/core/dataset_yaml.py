"""`dataset.yaml`: what the samples of a dataset are. Written once, edited by people, read strictly.

Energon's form is understood where it says the same: classes as `__module__` and `__class__`, a CrudeWebdataset, the old
names such as CaptioningWebdataset. Code is only named here (a sample type of one's own, `sample_loader`,
`part_filter`): who loads samples decides whether it runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from wdsctl.core import yaml_nodes
from wdsctl.core.command_line import command_beside
from wdsctl.core.errors import InputError, PermissionDenied, StorageError
from wdsctl.core.fields import (
    FieldPath,
    check_field,
    check_sample_type,
    parse_field_map,
    parse_field_path,
    validate_field_map,
)
from wdsctl.core.naming import KEY_RULES
from wdsctl.core.sample_types import CRUDE, SAMPLE_TYPES, is_ours, is_own
from wdsctl.core.split_rules import Excludes, Rules, SplitRule
from wdsctl.core.split_sections import exclude_block, excludes_of, sets_block, sets_of, split_block, split_of
from wdsctl.core.yaml_sections import called, check_keys, section, texts, wrong

if TYPE_CHECKING:
    from wdsctl.core.yaml_nodes import Document

VERSION = 1

_SAMPLES = ("sample_type", "field_map", "optional", "sample_loader", "part_filter", "subflavors")
_KEYS = ("version", *_SAMPLES, "key_until", "refs", "split", "split_sets", "exclude")
_ENERGON = ("__module__", "__class__")
_FUNCTION = re.compile(r"[^\W\d][\w-]*\.py:[^\W\d]\w*")  # in a file beside dataset.yaml
_HEADER = (
    "# What the samples of this dataset are. Edit it by hand; wdsctl never overwrites your changes unless asked"
    " (--redetect).\n"
)
_KEY_REMARK = "# where keys of file names end; the samples were made by it"
_REFS_REMARK = "# which field of JSON names entries of which store; `wdsctl validate --level refs` looks them up"


@dataclass(frozen=True, slots=True)
class DatasetConfig:
    """What dataset.yaml says. `subflavors` are the user's own values, handed to every sample as they are.

    `sample_loader`: FILE.py:FUNCTION beside dataset.yaml, which makes the fields of a sample of its parts, in the place
    of a field map. `part_filter`: the parts that are read, by name, or such a function that chooses them; empty: all.
    `optional`: the fields, and the parts, that samples may lack.
    """

    sample_type: str = CRUDE
    field_map: dict[str, str] = field(default_factory=dict)
    subflavors: dict[str, Any] = field(default_factory=dict)
    split: SplitRule | None = None
    sample_loader: str = ""
    part_filter: str | tuple[str, ...] = ()
    split_sets: Rules = field(default_factory=dict)
    exclude: Excludes = field(default_factory=Excludes)
    refs: dict[str, str] = field(default_factory=dict)  # field of JSON: the store it names entries of
    key_until: str = ""  # a rule of `wdsctl.core.naming`; empty where no name has called for one
    optional: tuple[str, ...] = ()


def needed_fields(config: DatasetConfig) -> dict[str, FieldPath]:
    """The mapped fields that every sample has: all that are not optional, by their name or by all of their parts."""
    paths = parse_field_map(config.field_map)
    return {name: path for name, path in paths.items() if not _is_optional(name, path, config.optional)}


def _is_optional(name: str, path: FieldPath, optional: Sequence[str]) -> bool:
    return name in optional or all(access.part in optional for access in path.alternatives)


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
        raise wrong(f"not UTF-8: {error.reason} at byte {error.start}", path, hint="save it as UTF-8") from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}", hint="run the command again", where=path) from error


def parse(text: str, path: str = "dataset.yaml") -> DatasetConfig:
    """The same for a text; `path` is only named in errors."""
    document = yaml_nodes.parse(text, path)
    data = document.data
    if not isinstance(data, dict):
        raise wrong("expected `sample_type:` and other keys, found " + called(data), path)
    check_keys(document, (), (*_KEYS, *_ENERGON))
    version = data.get("version", VERSION)
    if type(version) is not int or version < 1:
        raise wrong(f"version: expected {VERSION}, found {called(version)}", document.where("version"))
    if version > VERSION:
        hint = "`pip install -U wdsctl`"
        raise wrong(f"version {version} is newer than this wdsctl knows", document.where("version"), hint=hint)
    sample_type = _sample_type(document)
    field_map = _field_map(document, sample_type)
    return DatasetConfig(
        sample_type=sample_type,
        field_map=field_map,
        optional=_optional(document, sample_type, field_map),
        subflavors=section(document, "subflavors"),
        split=split_of(document, "split") if data.get("split") is not None else None,
        sample_loader=_function(document, "sample_loader") if data.get("sample_loader") is not None else "",
        part_filter=_part_filter(document),
        split_sets=sets_of(document),
        exclude=excludes_of(document),
        refs=_refs(document),
        key_until=_key_until(document),
    )


def dump(config: DatasetConfig) -> str:
    """The whole file. The same config gives the same text, and the text loads as an equal config."""
    text = f"{_HEADER}version: {VERSION}\nsample_type: {yaml_nodes.scalar(config.sample_type)}\n"
    text += yaml_nodes.block(
        "field_map", {name: yaml_nodes.scalar(source) for name, source in config.field_map.items()}
    )
    if config.optional:
        text += f"optional: [{', '.join(map(yaml_nodes.scalar, config.optional))}]\n"
    if config.sample_loader:
        text += f"sample_loader: {yaml_nodes.scalar(config.sample_loader)}\n"
    if config.part_filter:
        names = config.part_filter
        listed = names if isinstance(names, str) else [yaml_nodes.scalar(name) for name in names]
        text += f"part_filter: {listed if isinstance(listed, str) else '[' + ', '.join(listed) + ']'}\n"
    text += yaml_nodes.dump({"subflavors": config.subflavors})
    text += _key_block(config.key_until)
    text += _refs_block(config.refs)
    text += split_block(config.split) if config.split else ""
    return text + sets_block(config.split_sets) + exclude_block(config.exclude)


def update_split(text: str, split: SplitRule | None, path: str = "dataset.yaml") -> str:
    """The text with another `split:` section (None: without one). Every other line stays as it is, comments too."""
    config = parse(text, path)
    return update_rules(text, split, config.split_sets, config.exclude, path)


def update_rules(text: str, split: SplitRule | None, sets: Rules, exclude: Excludes, path: str = "dataset.yaml") -> str:
    """The same for all sections that say how the dataset is split. Sections that say it already stay as they are."""
    config = parse(text, path)
    wanted = replace(config, split=split, split_sets=sets, exclude=exclude)
    blocks = {
        "split": (split == config.split, split_block(split) if split else ""),
        "split_sets": (sets == config.split_sets, sets_block(sets)),
        "exclude": (exclude == config.exclude, exclude_block(exclude)),
    }
    for key, (is_said, block) in blocks.items():
        if is_said:
            continue
        replaced = _with_section(text, key, block)
        if replaced is None:
            return dump(wanted)
        text = replaced
    return text


def update_refs(text: str, refs: dict[str, str], path: str = "dataset.yaml") -> str:
    """The text with another `refs:` section. Every other line stays as it is, comments too."""
    config = parse(text, path)
    if config.refs == refs:
        return text
    return _with_section(text, "refs", _refs_block(refs)) or dump(replace(config, refs=refs))


def update_key_until(text: str, rule: str, path: str = "dataset.yaml") -> str:
    """The text with another `key_until:` line. Every other line stays as it is, comments too."""
    config = parse(text, path)
    if config.key_until == rule:
        return text
    return _with_section(text, "key_until", _key_block(rule)) or dump(replace(config, key_until=rule))


def _with_section(text: str, key: str, block: str) -> str | None:
    """The text with this block in the place of a section; None where all of the file is one {...}."""
    lines = yaml_nodes.lines_of_key(text, key)
    if lines is None:  # there are no lines of its own to replace
        return None
    newline = "\r\n" if "\r\n" in text else "\n"
    kept = text.splitlines(keepends=True)
    before, after = "".join(kept[: lines.start]), "".join(kept[lines.stop :])
    if before and not before.endswith("\n") and block:
        before += newline
    return before + block.replace("\n", newline) + after


def _sample_type(document: Document) -> str:
    data = document.data
    name = data.get("sample_type")
    where = document.where("sample_type" if name is not None else "__class__")
    if isinstance(name, dict):
        check_keys(document, ("sample_type",), _ENERGON)
        name = _class_name(name)
    elif name is None and "__class__" in data:
        name = _class_name(data)
    elif isinstance(name, str) and is_own(name):
        module, _, own = name.partition(":")
        name = _class_name({"__module__": module, "__class__": own})
    if not isinstance(name, str):
        raise wrong(f"sample_type: expected a name such as CaptioningSample, found {called(name)}", where)
    check_sample_type(name, where=where)
    return name


def _class_name(spec: dict[str, Any]) -> str:
    """Our name of the class that `__module__` and `__class__` mean: Energon's, or somebody's own."""
    module, name = (str(spec.get(key, "")) for key in _ENERGON)
    if not is_ours(module):
        return f"{module}:{name}"
    kind = name.removesuffix("Webdataset").removesuffix("Sample")
    if kind == "Crude":
        return CRUDE
    return f"{kind}Sample" if f"{kind}Sample" in SAMPLE_TYPES else name


def _field_map(document: Document, sample_type: str) -> dict[str, str]:
    field_map = section(document, "field_map")
    other = next((key for key in ("sample_loader", "part_filter") if document.data.get(key) is not None), None)
    if other and field_map:
        hint = "write one of them: a field map says already which parts are read and what fields they are"
        raise wrong(f"{other} and field_map exclude each other", document.where(other), hint=hint)
    if document.data.get("sample_loader") is not None:
        return {}
    for name, source in field_map.items():
        where = document.where("field_map", name)
        check_field(sample_type, name, where=where)
        if not isinstance(source, str):
            hint = "write a part such as jpg, or a key such as json[caption]; in quotes if YAML reads it otherwise"
            raise wrong(f"{name}: expected where the field comes from, found {called(source)}", where, hint=hint)
        parse_field_path(source, where=where)
    validate_field_map(sample_type, field_map, where=document.where("field_map"))
    return field_map


def _optional(document: Document, sample_type: str, field_map: dict[str, str]) -> tuple[str, ...]:
    """Refuses a field that the type cannot do without."""
    optional = texts(document, "optional")
    needed = {field.name for field in SAMPLE_TYPES.get(sample_type, ()) if field.required}
    for name, path in parse_field_map(field_map).items():
        if name in needed and _is_optional(name, path, optional):
            words = f"optional: {sample_type} cannot be made without {name}"
            hint = "leave it out; or choose a type where it is optional, or CrudeSample, which hands out what there is"
            raise wrong(words, document.where("optional"), hint=hint)
    return optional


def _function(document: Document, key: str) -> str:
    value = document.data[key]
    if not isinstance(value, str) or not _FUNCTION.fullmatch(value):
        hint = "such as sample_loader.py:sample_loader; the file lies beside dataset.yaml"
        raise wrong(f"{key}: expected FILE.py:FUNCTION, found {called(value)}", document.where(key), hint=hint)
    return value


def _part_filter(document: Document) -> str | tuple[str, ...]:
    value = document.data.get("part_filter")
    if not isinstance(value, list):
        return () if value is None else _function(document, "part_filter")
    if not value or not all(isinstance(name, str) and name for name in value):
        where = document.where("part_filter")
        raise wrong("part_filter: expected names of parts", where, hint="such as [jpg, json], in quotes where needed")
    return tuple(value)


def _key_until(document: Document) -> str:
    value = document.data.get("key_until")
    if value is not None and value not in KEY_RULES:
        hint = f"write one of {', '.join(KEY_RULES)}, as the samples were made"
        raise wrong(f"key_until: there is no rule {called(value)}", document.where("key_until"), hint=hint)
    return value or ""


def _key_block(rule: str) -> str:
    return f"key_until: {rule}  {_KEY_REMARK}\n" if rule else ""


def _refs(document: Document) -> dict[str, str]:
    """Which field of JSON names entries of which store; a path is meant from the dataset's root."""
    refs = section(document, "refs")
    for name, store in refs.items():
        if not isinstance(store, str) or not store:
            hint = "write FIELD: STORE, such as image: ../media"
            raise wrong(f"{name}: expected a store, found {called(store)}", document.where("refs", name), hint=hint)
    return refs


def _refs_block(refs: dict[str, str]) -> str:
    stores = {name: yaml_nodes.scalar(store) for name, store in refs.items()}
    return yaml_nodes.block("refs", stores, remark=_REFS_REMARK) if refs else ""
