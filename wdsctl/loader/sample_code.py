"""Code that dataset.yaml names: `sample_loader` and `part_filter`, which lie beside the data, and own sample types.

`sample_loader(raw)` gets a dict of the decoded parts by name, with the base fields, and gives a dict of the fields of
the sample; it may set `__key__`. `part_filter(name)` says whether a part is read at all.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from typing import Any

from wdsctl.core import yaml_nodes
from wdsctl.core.dataset_yaml import DatasetConfig, read
from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.core.formats.energon_meta import found_beside
from wdsctl.core.module_origin import data_folders
from wdsctl.core.place import Place
from wdsctl.core.sample_types import CRUDE, is_own
from wdsctl.loader.registry import check_sample_class
from wdsctl.loader.samples import BASE_FIELDS, CrudeSample, admit, sample_type_of
from wdsctl.loader.trust import NamedCode, code_of


def trusted(config: DatasetConfig, place: Place, path: str, *, trust_code: bool) -> DatasetConfig:
    """The config, of the file at `path`, with the whole paths of its functions, whose files lie `beside` it; as it is
    where it names none. A sample type of one's own is let in.

    Raises UsageError: WDS222, WDS270, WDS271 for code that it names and that may not run, WDS220 for a sample type that
    is not there or is none.
    """
    if is_own(config.sample_type):
        _let_in(config.sample_type, place, path, trust_code=trust_code)
    named = [each for each in (config.sample_loader, config.part_filter) if isinstance(each, str) and each]
    if not named:
        return config
    if not trust_code:
        raise UsageError(
            f"the dataset has code beside it, {' and '.join(_whole(place, each) for each in named)}, and nobody said "
            "that it may run",
            where=_line(path, "sample_loader" if config.sample_loader else "part_filter"),
            hint="read it, and give trust_code=True; or write a field_map in its place",
            code="WDS222",
        )
    loader, chosen = config.sample_loader, config.part_filter
    return replace(
        config,
        sample_loader=_whole(place, loader) if loader else "",
        part_filter=_whole(place, chosen) if isinstance(chosen, str) and chosen else chosen,
    )


def _let_in(name: str, place: Place, path: str, *, trust_code: bool) -> None:
    where = _line(path, "sample_type", "__class__")
    named = NamedCode(name, "sample_type", where, data_folders(place))
    try:
        found = code_of(named, trust_code=trust_code)
    except UsageError as error:
        if error.code != "WDS312":
            raise
        words = f"sample_type: {error.message}"
        raise UsageError(words, hint=error.hint, where=where, code="WDS220") from error
    check_sample_class(found, name)
    admit(name, found)


def _line(path: str, *keys: str) -> str:
    """`dataset.yaml:3`: where the first of these keys stands that is there."""
    document = yaml_nodes.parse(read(path), path)
    return document.where(next((key for key in keys if key in document.data), keys[0]))


def _whole(place: Place, function: str) -> str:
    file, _, name = function.rpartition(":")
    return f"{found_beside(place, file)}:{name}"


def facts_of(config: DatasetConfig) -> dict[str, str]:
    """What fields are made of, for the plan: the field map, or what the code is, wherever it lies."""
    facts = dict(config.field_map)
    if config.optional:
        facts["optional"] = ", ".join(config.optional)
    for key, value in (("sample_loader", config.sample_loader), ("part_filter", config.part_filter)):
        if isinstance(value, str) and value:
            path, _, name = value.rpartition(":")
            facts[key] = f"{name} {blake2b(_read(path), digest_size=8).hexdigest()}"
        elif value:
            facts[key] = ",".join(value)
    return facts


def chosen_parts(names: Sequence[str], config: DatasetConfig) -> dict[str, int]:
    """The parts that are read, with their places. Where a part stands twice, the last one counts."""
    places = {name: i for i, name in enumerate(names)}
    if not config.part_filter:
        return places
    if isinstance(config.part_filter, str):
        keep: Callable[[str], Any] = function_at(config.part_filter)
    else:
        keep = config.part_filter.__contains__
    return {name: i for name, i in places.items() if keep(name)}


def building(names: Sequence[str], config: DatasetConfig) -> Callable[..., Any]:
    """`build(key, restore key, subflavors, sources, *decoded parts)` of a dataset with a sample_loader."""
    load = function_at(config.sample_loader)
    make: Callable[..., Any] = _crude if config.sample_type == CRUDE else sample_type_of(config.sample_type)
    keys = (*BASE_FIELDS, *names)

    def build(*values: Any) -> Any:
        raw = dict(zip(keys, values, strict=True))
        fields = load(dict(raw))
        if not isinstance(fields, dict):
            raise SampleFailed(
                f"sample_loader returned {type(fields).__name__}", hint="return a dict of the fields of the sample"
            )
        return make(**{**{name: raw[name] for name in BASE_FIELDS}, **fields})

    return build


def function_at(text: str) -> Callable[..., Any]:
    """What `PATH.py:NAME` names. The file runs once a process and content. Raises UsageError WDS222."""
    path, _, name = text.rpartition(":")
    scope = _run(path, _read(path))
    if not callable(scope.get(name)):
        hint = f"the file has {', '.join(sorted(each for each in scope if callable(scope[each]))) or 'no functions'}"
        raise UsageError(f"there is no function {name!r}", where=path, hint=hint, code="WDS222")
    function: Callable[..., Any] = scope[name]
    return function


@cache
def _run(path: str, text: bytes) -> dict[str, Any]:
    """The names that a file defines. It is a module named after its content, and leaves no compiled file beside it."""
    module_name = f"wdsctl_beside_data_{blake2b(text, digest_size=8).hexdigest()}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None:
        raise UsageError("the file is no Python", where=path, hint="name a file that ends in .py", code="WDS222")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses that it defines are looked for there
    scope: dict[str, Any] = vars(module)
    try:
        exec(compile(text, path, "exec"), scope)  # noqa: S102 - the user said that it may run
    except Exception as error:  # somebody's code: whatever it raises is why there is no function
        said = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"the code cannot be run: {said}", where=path, hint=f"try `python {path}`", code="WDS222"
        ) from error
    return scope


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        words = f"the code that dataset.yaml names cannot be read: {error.strerror}"
        raise UsageError(words, where=path, hint="put the file beside dataset.yaml", code="WDS222") from error


def _crude(**fields: Any) -> CrudeSample:
    return CrudeSample(fields)
