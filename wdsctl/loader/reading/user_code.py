"""Code that dataset.yaml names: `sample_loader` and `part_filter` in files next to the data, and custom sample types.

`sample_loader(raw)` gets a dict of the decoded parts by name, with the base fields, and returns a dict of the sample's
fields; it may set `__key__`. `part_filter(name)` says whether a part is read.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from typing import Any

from wdsctl.core.dataset.config import DatasetConfig, read_config_text
from wdsctl.core.dataset.location import DatasetLocation, data_folders
from wdsctl.core.energon.meta import find_meta_file
from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.core.file_limits import read_whole
from wdsctl.core.safe_open import open_named
from wdsctl.core.samples.types import CRUDE, is_custom_type
from wdsctl.core.yaml_files.document import parse_yaml
from wdsctl.loader.samples import BASE_FIELDS, CrudeSample, admit_sample_type, find_sample_factory, find_sample_type
from wdsctl.loader.samples.registry import SampleFactory, check_sample_class
from wdsctl.loader.samples.trust import NamedCode, load_named_code


def resolve_user_code(
    config: DatasetConfig, location: DatasetLocation, path: str, *, trust_code: bool
) -> DatasetConfig:
    """The config of the file at `path` with full paths of its functions. Admits its custom sample type.

    Raises UsageError: WDS222, WDS270, WDS271 for code that may not run, WDS220 for an unknown or invalid sample type.
    """
    if is_custom_type(config.sample_type):
        _admit_sample_type_of(config.sample_type, location, path, trust_code=trust_code)
    named = [each for each in (config.sample_loader, config.part_filter) if isinstance(each, str) and each]
    if not named:
        return config
    if not trust_code:
        raise UsageError(
            f"dataset.yaml names code, {' and '.join(_full_path(location, each) for each in named)}, which runs only "
            "with trust_code",
            where=_config_line(path, "sample_loader" if config.sample_loader else "part_filter"),
            hint="read the code and pass trust_code=True; or write a field_map instead",
            code="WDS222",
        )
    loader, chosen = config.sample_loader, config.part_filter
    return replace(
        config,
        sample_loader=_full_path(location, loader) if loader else "",
        part_filter=_full_path(location, chosen) if isinstance(chosen, str) and chosen else chosen,
    )


def _admit_sample_type_of(name: str, location: DatasetLocation, path: str, *, trust_code: bool) -> None:
    where = _config_line(path, "sample_type", "__class__")
    named = NamedCode(name, "sample_type", where, data_folders(location))
    try:
        found = load_named_code(named, trust_code=trust_code)
    except UsageError as error:
        if error.code != "WDS312":
            raise
        message = f"sample_type: {error.message}"
        raise UsageError(message, hint=error.hint, where=where, code="WDS220") from error
    is_factory = isinstance(found, type) and issubclass(found, SampleFactory)
    kind = found.__sample_type__ if is_factory else found
    check_sample_class(kind, name)
    admit_sample_type(name, kind, found if is_factory else None)


def _config_line(path: str, *keys: str) -> str:
    """`dataset.yaml:3`: the line of the first of these keys that exists."""
    document = parse_yaml(read_config_text(path), path)
    return document.where(next((key for key in keys if key in document.data), keys[0]))


def _full_path(location: DatasetLocation, function: str) -> str:
    file, _, name = function.rpartition(":")
    return f"{find_meta_file(location, file)}:{name}"


def field_facts(config: DatasetConfig) -> dict[str, str]:
    """What fields are built from, for the plan's fingerprint: the field map, or digests of the code."""
    facts = dict(config.field_map)
    if config.optional:
        facts["optional"] = ", ".join(config.optional)
    if config.drawn_on:
        facts["drawn_on"] = config.drawn_on
    for key, value in (("sample_loader", config.sample_loader), ("part_filter", config.part_filter)):
        if isinstance(value, str) and value:
            path, _, name = value.rpartition(":")
            facts[key] = f"{name} {blake2b(_read_code(path), digest_size=8).hexdigest()}"
        elif value:
            facts[key] = ",".join(value)
    return facts


def select_parts(part_names: Sequence[str], config: DatasetConfig) -> dict[str, int]:
    """The parts that are read, with their index in the sample. If a part occurs twice, the last one counts."""
    indices = {name: i for i, name in enumerate(part_names)}
    if not config.part_filter:
        return indices
    if isinstance(config.part_filter, str):
        keep: Callable[[str], Any] = load_function(config.part_filter)
    else:
        keep = config.part_filter.__contains__
    return {name: i for name, i in indices.items() if keep(name)}


def sample_loader_build(
    part_names: Sequence[str], config: DatasetConfig, sample_class: type[Any] | None = None
) -> Callable[..., Any]:
    """A function `build(key, restore key, subflavors, sources, *decoded parts)` that calls the sample_loader.

    `sample_class`: in the place of that of the sample type.
    """
    load = load_function(config.sample_loader)
    make: Callable[..., Any] = (
        (lambda **fields: CrudeSample(fields))
        if config.sample_type == CRUDE
        else sample_class or find_sample_type(config.sample_type)
    )
    keys = (*BASE_FIELDS, *part_names)

    def build(*values: Any) -> Any:
        raw = dict(zip(keys, values, strict=True))
        fields = load(dict(raw))
        if not isinstance(fields, dict):
            raise SampleFailed(
                f"sample_loader returned {type(fields).__name__}", hint="return a dict of the fields of the sample"
            )
        return make(**{**{name: raw[name] for name in BASE_FIELDS}, **fields})

    return build


def factory_build(
    part_names: Sequence[str], config: DatasetConfig, path: str, decoder: Any
) -> Callable[..., Any] | None:
    """A function `build(key, restore key, subflavors, sources, *undecoded parts)` if dataset.yaml names a factory that
    builds its samples itself; else None."""
    factory = find_sample_factory(config.sample_type)
    if factory is None:
        return None
    code = {
        "sample_loader": load_function(config.sample_loader) if config.sample_loader else None,
        "part_filter": config.part_filter or None,
    }
    load = factory.own_loader(path, decoder, **(code if config.sample_loader else {"field_map": config.field_map}))
    if load is None:
        return None
    keys = (*BASE_FIELDS, *part_names)

    def build(*values: Any) -> Any:
        return load(dict(zip(keys, values, strict=True)))

    return build


def load_function(text: str) -> Callable[..., Any]:
    """The function of `PATH.py:NAME`. Runs the file once per process and content. Raises UsageError WDS222."""
    path, _, name = text.rpartition(":")
    scope = _execute_file(path, _read_code(path))
    if not callable(scope.get(name)):
        hint = (
            f"the file defines {', '.join(sorted(each for each in scope if callable(scope[each]))) or 'no functions'}"
        )
        raise UsageError(f"the file has no function {name!r}", where=path, hint=hint, code="WDS222")
    function: Callable[..., Any] = scope[name]
    return function


@cache
def _execute_file(path: str, text: bytes) -> dict[str, Any]:
    """The names that a file defines. It runs as a module named by its content, and leaves no compiled file."""
    module_name = f"wdsctl_beside_data_{blake2b(text, digest_size=8).hexdigest()}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None:
        raise UsageError(
            "not a Python file", where=path, hint="write the name of a file that ends in .py", code="WDS222"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look up their module there
    scope: dict[str, Any] = vars(module)
    try:
        exec(compile(text, path, "exec"), scope)  # noqa: S102 - the user passed trust_code
    except Exception as error:  # user code may raise anything
        cause = f"{type(error).__name__}: {error}"
        raise UsageError(f"the code raises {cause}", where=path, hint=f"try `python {path}`", code="WDS222") from error
    return scope


def _read_code(path: str) -> bytes:
    try:
        with open_named(path) as file:
            return read_whole(file, path)
    except OSError as error:
        message = f"cannot read the code that dataset.yaml names: {error.strerror or error}"
        raise UsageError(message, where=path, hint="put the file next to dataset.yaml", code="WDS222") from error
