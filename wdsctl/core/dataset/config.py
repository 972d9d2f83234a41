"""`dataset.yaml`: the sample type of a dataset, its fields, and its splits. wdsctl writes it once, users edit it.

Also reads Energon's format if it has the same meaning: classes as `__module__` and `__class__`, CrudeWebdataset, old
names such as CaptioningWebdataset. This module only reads the names of code (a custom sample type, `sample_loader`,
`part_filter`): the loader decides whether to run it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from wdsctl.core.dataset.location import shell_command_for_file
from wdsctl.core.dataset.sequences import SequenceConfig, format_sequences, parse_sequences
from wdsctl.core.errors import InputError, PermissionDenied, StorageError
from wdsctl.core.file_limits import read_whole
from wdsctl.core.files import open_own
from wdsctl.core.samples.crude_fields import is_list_of_parts
from wdsctl.core.samples.field_map import check_field, check_sample_type, parse_field_map, validate_field_map
from wdsctl.core.samples.field_path import FieldPath, parse_field_path
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.samples.naming import KEY_RULES
from wdsctl.core.samples.types import CRUDE, DRAWN_ON, SAMPLE_TYPES, DrawnOn, is_builtin_module, is_custom_type
from wdsctl.core.split_rules.dataset_yaml import (
    format_exclude_section,
    format_sets_section,
    format_split_section,
    parse_excludes,
    parse_split_section,
    parse_split_sets,
)
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.rule import SplitRule, SplitRules
from wdsctl.core.yaml_files.document import (
    check_known_keys,
    config_error,
    describe_value,
    dump_yaml,
    format_block,
    format_scalar,
    get_section,
    get_texts,
    key_line_range,
    parse_yaml,
)

if TYPE_CHECKING:
    from wdsctl.core.yaml_files.document import YamlDocument


CONFIG_VERSION = 1

_SAMPLE_KEYS = ("sample_type", "field_map", "optional", "drawn_on", "sample_loader", "part_filter", "subflavors")
_SPLIT_CONFIG = "split_config"
_KNOWN_KEYS = (
    "version", *_SAMPLE_KEYS, "key_until", "refs", "sequences", "split", "split_sets", "exclude", _SPLIT_CONFIG,
)  # fmt: skip
_ENERGON_KEYS = ("__module__", "__class__")
_TAGS = "tags"  # Energon 8 names subflavors so
_FUNCTION_SPEC = re.compile(r"[^\W\d][\w-]*\.py:[^\W\d]\w*")  # a function in a file beside dataset.yaml
_HEADER = (
    "# What the samples of this dataset are. Edit it by hand; wdsctl never overwrites your changes unless asked"
    " (--redetect).\n"
)
_KEY_REMARK = "# where keys of file names end; the samples were made by it"
_DRAWN_ON_REMARK = "# boxes and masks: on images as viewers show them, turned by EXIF, or as stored"
_REFS_REMARK = "# which field of JSON names entries of which store; `wdsctl validate --level refs` looks them up"


@dataclass(frozen=True, slots=True)
class DatasetConfig:
    """The content of dataset.yaml. `subflavors`: the user's own values, which every sample gets unchanged.

    `sample_loader`: FILE.py:FUNCTION beside dataset.yaml, which builds the fields of a sample from its parts, instead
    of a field map. `drawn_on`: what boxes, masks and other geometry are drawn on; empty if the file does not say.
    `part_filter`: names of the parts to read, or a function in that form that selects them; empty for
    all parts. `optional`: fields and parts that samples may lack. `split_config`: the file in Energon's format that has
    the splits, instead of the catalog; the loader reads it.
    """

    sample_type: str = CRUDE
    field_map: dict[str, str] = field(default_factory=dict)
    subflavors: dict[str, Any] = field(default_factory=dict)
    split: SplitRule | None = None
    sample_loader: str = ""
    part_filter: str | tuple[str, ...] = ()
    split_sets: SplitRules = field(default_factory=dict)
    exclude: Excludes = field(default_factory=Excludes)
    refs: dict[str, str] = field(default_factory=dict)  # field of JSON -> the store whose entries it names
    key_until: str = ""  # a rule of `wdsctl.core.samples.naming`; empty if no name needed one
    optional: tuple[str, ...] = ()
    sequences: SequenceConfig | None = None  # samples are frames of sequences
    drawn_on: DrawnOn | Literal[""] = ""
    split_config: str = ""


def required_fields(config: DatasetConfig) -> dict[str, FieldPath]:
    """Return the mapped fields that every sample has: those not optional by name or by all of their parts.

    A list of parts of crude samples may be empty.
    """
    paths = parse_field_map(config.field_map)
    if config.sample_type == CRUDE:
        paths = {name: path for name, path in paths.items() if not is_list_of_parts(path)}
    return {name: path for name, path in paths.items() if not _is_optional(name, path, config.optional)}


def _is_optional(name: str, path: FieldPath, optional: Sequence[str]) -> bool:
    return name in optional or all(access.part in optional for access in path.alternatives)


def load_config(path: str) -> DatasetConfig:
    """Read dataset.yaml. Raises InputError WDS002 if it does not exist, DatasetError WDS220 with the line."""
    return parse_config(read_config_text(path), path)


def read_config_text(path: str) -> str:
    """Read the text of dataset.yaml. Raises like `load_config`."""
    try:
        with open_own(path) as file:
            return read_whole(file, path).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"no {path}", hint=f"{shell_command_for_file(path, 'prepare')} writes it") from error
    except PermissionError as error:
        raise PermissionDenied(
            f"no permission to read {path}", hint="check the owner and the mode of the file", where=path
        ) from error
    except UnicodeDecodeError as error:
        raise config_error(
            f"not UTF-8: {error.reason} at byte {error.start}", path, hint="save the file as UTF-8"
        ) from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}", hint="run the command again", where=path) from error


def parse_config(text: str, path: str = "dataset.yaml") -> DatasetConfig:
    """Parse the text of dataset.yaml; `path` is for errors. Raises DatasetError WDS220 with the line."""
    document = parse_yaml(text, path)
    data = document.data
    if not isinstance(data, dict):
        raise config_error("expected `sample_type:` and other keys, found " + describe_value(data), path)
    _check_no_arguments(document)
    check_known_keys(document, (), (*_KNOWN_KEYS, *_ENERGON_KEYS, _TAGS))
    if "subflavors" in data and _TAGS in data:
        hint = "write all of them under subflavors; Energon 8 names them tags"
        raise config_error("subflavors and tags are two names of the same key", document.where(_TAGS), hint=hint)
    version = data.get("version", CONFIG_VERSION)
    if type(version) is not int or version < 1:
        raise config_error(
            f"version: expected {CONFIG_VERSION}, found {describe_value(version)}", document.where("version")
        )
    if version > CONFIG_VERSION:
        hint = "`pip install -U wdsctl`"
        raise config_error(
            f"version {version} is newer than {CONFIG_VERSION}, the newest that this wdsctl reads",
            document.where("version"),
            hint=hint,
        )
    sample_type = _parse_sample_type(document)
    field_map = _parse_field_map(document, sample_type)
    return DatasetConfig(
        sample_type=sample_type,
        field_map=field_map,
        optional=_parse_optional(document, sample_type, field_map),
        subflavors=get_section(document, _TAGS if _TAGS in data else "subflavors"),
        split=parse_split_section(document, "split") if data.get("split") is not None else None,
        sample_loader=_parse_function(document, "sample_loader") if data.get("sample_loader") is not None else "",
        part_filter=_parse_part_filter(document),
        split_sets=parse_split_sets(document),
        exclude=parse_excludes(document),
        refs=_parse_refs(document),
        key_until=_parse_key_until(document),
        sequences=_parse_sequences(document, sample_type),
        drawn_on=_parse_drawn_on(document),
        split_config=_parse_split_config(document),
    )


def dump_config(config: DatasetConfig) -> str:
    """Format a config as dataset.yaml. Equal configs give equal texts, and the text loads as an equal config."""
    text = f"{_HEADER}version: {CONFIG_VERSION}\nsample_type: {format_scalar(config.sample_type)}\n"
    text += format_block("field_map", {name: format_scalar(source) for name, source in config.field_map.items()})
    if config.optional:
        text += f"optional: [{', '.join(map(format_scalar, config.optional))}]\n"
    text += _format_drawn_on(config.drawn_on)
    if config.sample_loader:
        text += f"sample_loader: {format_scalar(config.sample_loader)}\n"
    if config.part_filter:
        names = config.part_filter
        listed = names if isinstance(names, str) else [format_scalar(name) for name in names]
        text += f"part_filter: {listed if isinstance(listed, str) else '[' + ', '.join(listed) + ']'}\n"
    text += dump_yaml({"subflavors": config.subflavors})
    text += _format_key_until(config.key_until)
    text += _format_refs(config.refs)
    text += "" if config.sequences is None else format_sequences(config.sequences)
    text += f"{_SPLIT_CONFIG}: {format_scalar(config.split_config)}\n" if config.split_config else ""
    text += format_split_section(config.split) if config.split else ""
    return text + format_sets_section(config.split_sets) + format_exclude_section(config.exclude)


def update_split_section(text: str, split: SplitRule | None, path: str = "dataset.yaml") -> str:
    """Replace the section `split`, or remove it for None. Keeps all other lines, comments included."""
    config = parse_config(text, path)
    return update_all_split_sections(text, split, config.split_sets, config.exclude, path)


def update_all_split_sections(
    text: str, split: SplitRule | None, sets: SplitRules, exclude: Excludes, path: str = "dataset.yaml"
) -> str:
    """Replace the sections `split`, `split_sets` and `exclude`, unless they have these values already."""
    config = parse_config(text, path)
    updated = replace(config, split=split, split_sets=sets, exclude=exclude)
    blocks = {
        "split": (split == config.split, format_split_section(split) if split else ""),
        "split_sets": (sets == config.split_sets, format_sets_section(sets)),
        "exclude": (exclude == config.exclude, format_exclude_section(exclude)),
    }
    for key, (is_unchanged, block) in blocks.items():
        if is_unchanged:
            continue
        replaced = _replace_section(text, key, block)
        if replaced is None:
            return dump_config(updated)
        text = replaced
    return text


def update_refs_section(text: str, refs: dict[str, str], path: str = "dataset.yaml") -> str:
    """Replace the section `refs`. Keeps all other lines, comments included."""
    config = parse_config(text, path)
    if config.refs == refs:
        return text
    return _replace_section(text, "refs", _format_refs(refs)) or dump_config(replace(config, refs=refs))


def update_drawn_on_line(text: str, drawn_on: DrawnOn, path: str = "dataset.yaml") -> str:
    """Replace the line `drawn_on`. Keeps all other lines, comments included."""
    config = parse_config(text, path)
    if config.drawn_on == drawn_on:
        return text
    return _replace_section(text, "drawn_on", _format_drawn_on(drawn_on)) or dump_config(
        replace(config, drawn_on=drawn_on)
    )


def update_key_until_line(text: str, rule: str, path: str = "dataset.yaml") -> str:
    """Replace the line `key_until`. Keeps all other lines, comments included."""
    config = parse_config(text, path)
    if config.key_until == rule:
        return text
    return _replace_section(text, "key_until", _format_key_until(rule)) or dump_config(replace(config, key_until=rule))


def _replace_section(text: str, key: str, block: str) -> str | None:
    """Replace the block of a section; return None if the whole file is written as `{...}`."""
    lines = key_line_range(text, key)
    if lines is None:
        return None
    newline = "\r\n" if "\r\n" in text else "\n"
    kept = text.splitlines(keepends=True)
    before, after = "".join(kept[: lines.start]), "".join(kept[lines.stop :])
    if before and not before.endswith("\n") and block:
        before += newline
    return before + block.replace("\n", newline) + after


def _check_no_arguments(document: YamlDocument) -> None:
    """Raise DatasetError for arguments of the class that Energon would create: it passes all other keys to it."""
    data = document.data
    known = (*_KNOWN_KEYS, *_ENERGON_KEYS, _TAGS)
    is_energons = "__class__" in data or isinstance(data.get("sample_type"), dict)
    for key in data if is_energons else ():
        if key not in known and not did_you_mean(str(key), known):
            hint = "remove the key, and set the value in `decoder` of the task encoder, or in __init__ of your class"
            raise config_error(f"{key!r} is an argument of Energon's class", document.where(key), hint=hint)


def _parse_sample_type(document: YamlDocument) -> str:
    data = document.data
    name = data.get("sample_type")
    where = document.where("sample_type" if name is not None else "__class__")
    if isinstance(name, dict):
        check_known_keys(document, ("sample_type",), _ENERGON_KEYS)
        name = _class_name(name)
    elif name is None and "__class__" in data:
        name = _class_name(data)
    elif isinstance(name, str) and is_custom_type(name):
        module, _, own = name.partition(":")
        name = _class_name({"__module__": module, "__class__": own})
    if not isinstance(name, str):
        raise config_error(
            f"sample_type: expected a name such as CaptioningSample, found {describe_value(name)}", where
        )
    check_sample_type(name, where=where)
    return name


def _class_name(spec: dict[str, Any]) -> str:
    """Return the sample type of `__module__` and `__class__`: Energon's, or a custom one."""
    module, name = (str(spec.get(key, "")) for key in _ENERGON_KEYS)
    if not is_builtin_module(module):
        return f"{module}:{name}"
    kind = name.removesuffix("Webdataset").removesuffix("Sample")
    if kind == "Crude":
        return CRUDE
    return f"{kind}Sample" if f"{kind}Sample" in SAMPLE_TYPES else name


def _parse_field_map(document: YamlDocument, sample_type: str) -> dict[str, str]:
    field_map = get_section(document, "field_map")
    other = next((key for key in ("sample_loader", "part_filter") if document.data.get(key) is not None), None)
    if other and field_map:
        hint = "keep one of them: a field map already lists the parts to read and their fields"
        raise config_error(f"{other} and field_map exclude each other", document.where(other), hint=hint)
    if document.data.get("sample_loader") is not None:
        return {}
    for name, source in field_map.items():
        where = document.where("field_map", name)
        check_field(sample_type, name, where=where)
        if not isinstance(source, str):
            hint = (
                "write a part such as jpg, or a key such as json[caption], in quotes if YAML does not read it as text"
            )
            raise config_error(
                f"{name}: expected a part or a key of one, found {describe_value(source)}", where, hint=hint
            )
        parse_field_path(source, where=where)
    validate_field_map(sample_type, field_map, where=document.where("field_map"))
    return field_map


def _parse_optional(document: YamlDocument, sample_type: str, field_map: dict[str, str]) -> tuple[str, ...]:
    """Parse `optional`. Raises DatasetError for a field that the sample type requires."""
    optional = get_texts(document, "optional")
    needed = {field.name for field in SAMPLE_TYPES.get(sample_type, ()) if field.required}
    for name, path in parse_field_map(field_map).items():
        if name in needed and _is_optional(name, path, optional):
            message = f"optional: {sample_type} requires {name}"
            hint = (
                "remove it from the list; or set sample_type to CrudeSample, or to a class of yours that derives from "
                f"{sample_type} and gives {name} a default"
            )
            raise config_error(message, document.where("optional"), hint=hint)
    return optional


def _parse_function(document: YamlDocument, key: str) -> str:
    value = document.data[key]
    if not isinstance(value, str) or not _FUNCTION_SPEC.fullmatch(value):
        hint = "for example sample_loader.py:sample_loader, a file beside dataset.yaml"
        raise config_error(
            f"{key}: expected FILE.py:FUNCTION, found {describe_value(value)}", document.where(key), hint=hint
        )
    return value


def _parse_part_filter(document: YamlDocument) -> str | tuple[str, ...]:
    value = document.data.get("part_filter")
    if not isinstance(value, list):
        return () if value is None else _parse_function(document, "part_filter")
    if not value or not all(isinstance(name, str) and name for name in value):
        where = document.where("part_filter")
        raise config_error(
            "part_filter: expected names of parts",
            where,
            hint="write a list such as [jpg, json], with quotes where YAML needs them",
        )
    return tuple(value)


def _parse_drawn_on(document: YamlDocument) -> DrawnOn | Literal[""]:
    value = document.data.get("drawn_on")
    if value is not None and value not in DRAWN_ON:
        hint = "write `drawn_on: shown` for images as viewers show them, turned by EXIF, or `drawn_on: stored`"
        raise config_error(f"drawn_on: unknown value {describe_value(value)}", document.where("drawn_on"), hint=hint)
    return value or ""


def _parse_split_config(document: YamlDocument) -> str:
    value = document.data.get(_SPLIT_CONFIG)
    if value is not None and not isinstance(value, str):
        hint = "write the name of a file beside dataset.yaml, such as split2.yaml"
        message = f"{_SPLIT_CONFIG}: expected a file, found {describe_value(value)}"
        raise config_error(message, document.where(_SPLIT_CONFIG), hint=hint)
    return value or ""


def _parse_key_until(document: YamlDocument) -> str:
    value = document.data.get("key_until")
    if value is not None and value not in KEY_RULES:
        hint = f"write the rule that the samples were prepared with: {', '.join(KEY_RULES)}"
        raise config_error(f"key_until: unknown rule {describe_value(value)}", document.where("key_until"), hint=hint)
    return value or ""


def _format_drawn_on(drawn_on: DrawnOn | Literal[""]) -> str:
    return f"drawn_on: {drawn_on}  {_DRAWN_ON_REMARK}\n" if drawn_on else ""


def _format_key_until(rule: str) -> str:
    return f"key_until: {rule}  {_KEY_REMARK}\n" if rule else ""


def _parse_sequences(document: YamlDocument, sample_type: str) -> SequenceConfig | None:
    sequences = parse_sequences(document)
    if sequences is not None and sample_type != CRUDE:
        message = f"sequences: the frames of sequences are {CRUDE}, but the sample type is {sample_type}"
        raise config_error(message, document.where("sequences"), hint=f"write `sample_type: {CRUDE}`")
    return sequences


def _parse_refs(document: YamlDocument) -> dict[str, str]:
    """Parse the store that each JSON field refers to. Paths are relative to the dataset's root."""
    refs = get_section(document, "refs")
    for name, store in refs.items():
        if not isinstance(store, str) or not store:
            hint = "write FIELD: STORE, for example image: ../media"
            raise config_error(
                f"{name}: expected a store, found {describe_value(store)}", document.where("refs", name), hint=hint
            )
    return refs


def _format_refs(refs: dict[str, str]) -> str:
    stores = {name: format_scalar(store) for name, store in refs.items()}
    return format_block("refs", stores, remark=_REFS_REMARK) if refs else ""
