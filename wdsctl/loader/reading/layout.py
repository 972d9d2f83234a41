"""From the parts of a sample to its fields: compiled once per set of parts, run per sample."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal

from wdsctl.core.dataset.config import DatasetConfig, required_fields
from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.core.samples.crude_fields import crude_sample_fields, is_list_of_parts
from wdsctl.core.samples.field_map import parse_field_map
from wdsctl.core.samples.field_path import FieldPath, PartAccess
from wdsctl.core.samples.fields import FieldMissing, did_you_mean, extract_field, find_parts, is_collecting
from wdsctl.core.samples.types import CRUDE, MEDIA_LIST_KINDS, FieldKind, is_custom_type
from wdsctl.core.text import short_repr
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.reading.user_code import factory_build, sample_loader_build, select_parts
from wdsctl.loader.samples import (
    BASE_FIELDS,
    CrudeSample,
    find_sample_factory,
    find_sample_type,
    make_builder,
    sample_type_fields,
)
from wdsctl.loader.samples.compose import ComposeFields, compose_function
from wdsctl.loader.samples.lazy_part import LazyPart

DecodeFunction = Callable[[bytes], Any]
FindDecodeFunction = Callable[[str, FieldKind, str], DecodeFunction | None]  # (part, kind and name of its field)
NO_CLASSES: Mapping[str, type[Any]] = MappingProxyType({})
RawMode = Literal["bytes", "view"]  # undecoded parts are bytes, or views of mapped shards


@dataclass(frozen=True, slots=True)
class CompiledLayout:
    """How samples with one set of parts are built. `part_indices`: the parts that are read, by index in the sample;
    `build(key, restore key, subflavors, sources, *parts)`.

    `plain_fields`: the fields that the parts fill unchanged, if all fields are undecoded parts; else None.
    `lazy_parts`: for each read part whether `build` takes a `LazyPart`; empty if none does. `batch_fields`: the fields
    of crude samples, in which the samples of a batch must agree; None for other samples.
    """

    part_indices: tuple[int, ...]
    build: Callable[..., Any]
    plain_fields: tuple[str, ...] | None = None
    lazy_parts: tuple[bool, ...] = ()
    batch_fields: frozenset[str] | None = None


def compile_layout(
    part_names: Sequence[str],
    config: DatasetConfig,
    function_for: FindDecodeFunction,
    where: str,
    *,
    decoder: SampleDecoder | None = None,
    wrap: Callable[[Callable[..., Any], Sequence[str]], Callable[..., Any]] = lambda build, _fields: build,
    sample_classes: Mapping[str, type[Any]] = NO_CLASSES,
) -> CompiledLayout:
    """The layout of samples with the parts `part_names`, in this order. `wrap`: wraps the function that builds a sample
    from the values of the fields with these names.

    `decoder`: that of `function_for`, for a factory of samples. `sample_classes`: by the name of a type, in the place
    of its class; fields that such a class lacks are not filled.

    If a required field has no part, `build` of the layout raises SampleFailed, so that other samples can still be used.
    """
    indices = select_parts(part_names, config)
    factory_layout = _factory_layout(indices, config, where, decoder)
    if factory_layout is not None:
        return factory_layout
    other_class = sample_classes.get(config.sample_type)
    if config.sample_loader:
        functions = [function_for(part, "any", "") for part in indices]
        build = _with_decoding(sample_loader_build(tuple(indices), config, other_class), functions)
        return CompiledLayout(tuple(indices.values()), build, lazy_parts=_lazy_flags(functions))
    if config.sample_type == CRUDE:
        return _crude_layout(
            indices, parse_field_map(config.field_map, where=where), required_fields(config), function_for
        )
    paths = parse_field_map(config.field_map, where=where)
    needed = required_fields(config)
    kinds = {field.name: field.kind for field in sample_type_fields(config.sample_type)}
    _check_fields(config, kinds, where)
    sample_class = other_class or find_sample_type(config.sample_type)
    own_fields = {field.name for field in dataclass_fields(sample_class)}
    compose = compose_function(sample_class)
    filled: dict[str, FieldPath] = {}
    for field, path in paths.items():
        if field not in own_fields:
            if field == "clip":
                raise UsageError(
                    f"the samples have parts of files, and {sample_class.__name__} has no field clip",
                    where=where,
                    hint="derive the class from wdsctl.loader's, or add a field `clip: dict | None = None` to it",
                    code="WDS175",
                )
            if compose is None:
                continue
        if find_parts(path, indices, kinds[field]):
            filled[field] = path
        elif field in needed:
            return CompiledLayout((), _failing_build(field, path, part_names, config))
    if compose is None:
        build = make_builder(sample_class, tuple(filled))
    else:
        absent = [field for field in paths if field not in filled and kinds[field] in MEDIA_LIST_KINDS]
        build = _composing(sample_class, compose, tuple(filled), dict.fromkeys(absent))
    build = wrap(build, tuple(filled))
    plain = [_plain_part(path, indices, kinds[field]) for field, path in filled.items()]
    if compose is None and None not in plain and len(set(plain)) == len(plain):
        parts = [part for part in plain if part is not None]
        functions = [function_for(part, kinds[field], field) for part, field in zip(parts, filled, strict=True)]
        layout = _layout_of_parts(build, tuple(filled), tuple(indices[part] for part in parts), functions)
        # The constructor of a custom type may do more than set fields, so that it has to run for every sample.
        is_custom = other_class is not None or is_custom_type(config.sample_type)
        return replace(layout, plain_fields=None) if is_custom else layout
    taken = {field: frozenset(find_parts(path, indices, kinds[field])) for field, path in filled.items()}
    used = [part for part in indices if any(part in names for names in taken.values())]
    functions = [function_for(part, *_field_taking_part(part, filled, taken, kinds)) for part in used]
    build = _build_from_paths(build, used, functions, filled, kinds, needed, config)
    return CompiledLayout(tuple(indices[part] for part in used), build, lazy_parts=_lazy_flags(functions))


def _factory_layout(
    indices: Mapping[str, int], config: DatasetConfig, where: str, decoder: SampleDecoder | None
) -> CompiledLayout | None:
    """The layout of samples that a factory builds itself, from the undecoded parts of the field map; else None."""
    if find_sample_factory(config.sample_type) is None:
        return None
    paths = parse_field_map(config.field_map, where=where)
    mapped = {part for path in paths.values() for part in find_parts(path, indices)}
    used = {part: i for part, i in indices.items() if part in mapped or not paths}
    build = factory_build(tuple(used), config, where, decoder)
    return None if build is None else CompiledLayout(tuple(used.values()), build)


def _crude_layout(
    indices: Mapping[str, int],
    paths: Mapping[str, FieldPath],
    needed: Container[str],
    function_for: FindDecodeFunction,
) -> CompiledLayout:
    """The layout of dicts of parts. `indices`: of the parts, in the sample. `paths`: of the fields that have names, of
    which those that are not `needed` are None if their part is missing."""
    found = crude_sample_fields(indices, paths)
    fields = {**found, **{field: () for field in paths if field not in found and field not in needed}}
    lists = {field for field, path in paths.items() if is_list_of_parts(path)}
    used = [(part, field if field in paths else "") for field, parts in fields.items() for part in parts]
    functions = [function_for(part, "any", field) for part, field in used]
    build, part_indices = make_builder(CrudeSample, tuple(fields)), tuple(indices[part] for part, _ in used)
    if lists or len(fields) > len(found):
        sizes = [len(parts) if field in lists else -1 if parts else None for field, parts in fields.items()]
        build = _with_decoding(_collecting(build, sizes), functions)
        layout = CompiledLayout(part_indices, build, lazy_parts=_lazy_flags(functions))
    else:
        layout = _layout_of_parts(build, tuple(fields), part_indices, functions)
    return replace(layout, batch_fields=frozenset(fields))


def _collecting(build: Callable[..., Any], sizes: Sequence[int | None]) -> Callable[..., Any]:
    """`build` with some neighbouring values as one list. `sizes`: how many values of each field are a list; -1 for a
    field that is one value, None for a field that is None."""

    def collected(key: str, restore: object, subflavors: object, sources: object, *values: Any) -> Any:
        rest = iter(values)
        fields = [None if size is None else next(rest) if size < 0 else list(islice(rest, size)) for size in sizes]
        return build(key, restore, subflavors, sources, *fields)

    return collected


def _plain_part(path: FieldPath, indices: dict[str, int], kind: FieldKind) -> str | None:
    """The part that fills a field as a whole; None if the field is a list of parts, or a value within the part."""
    if is_collecting(path, kind):
        return None
    access = next(access for access in path.alternatives if access.part in indices)
    return None if access.steps else access.part


def _field_taking_part(
    part: str, paths: Mapping[str, FieldPath], taken: Mapping[str, Container[str]], kinds: Mapping[str, FieldKind]
) -> tuple[FieldKind, str]:
    """(kind, name) of the field that takes the part as a whole, of a list of media the kind of its items; "any" for
    several kinds, "" for several fields.
    """
    fields = [
        field
        for field, path in paths.items()
        if part in taken[field] and (is_collecting(path, kinds[field]) or PartAccess(part) in path.alternatives)
    ]
    field_kinds: set[FieldKind] = {MEDIA_LIST_KINDS.get(kinds[field], kinds[field]) for field in fields}
    return field_kinds.pop() if len(field_kinds) == 1 else "any", fields[0] if len(fields) == 1 else ""


def _layout_of_parts(
    build: Callable[..., Any],
    fields: tuple[str, ...],
    part_indices: tuple[int, ...],
    functions: Sequence[DecodeFunction | None],
) -> CompiledLayout:
    """The layout if every field is a whole part. If nothing is decoded either, `build` gets the bytes."""
    if not any(functions):
        return CompiledLayout(part_indices, build, fields)
    return CompiledLayout(part_indices, _with_decoding(build, functions), lazy_parts=_lazy_flags(functions))


def _composing(
    sample_class: type[Any], compose: ComposeFields, fields: tuple[str, ...], absent: Mapping[str, None]
) -> Callable[..., Any]:
    """A function that builds a sample of base values and those of `fields`. `absent`: lists of media that the sample
    lacks. What the class has no field for, such as images that are in a sequence, is left out after composing.
    """
    known = {field.name for field in dataclass_fields(sample_class)}

    def composed(*values: Any) -> Any:
        base, own = values[: len(BASE_FIELDS)], values[len(BASE_FIELDS) :]
        filled = compose({**absent, **dict(zip(fields, own, strict=True))})
        filled = {name: value for name, value in filled.items() if name in known}
        return sample_class(**dict(zip(BASE_FIELDS, base, strict=True)), **filled)

    return composed


def _with_decoding(build: Callable[..., Any], functions: Sequence[DecodeFunction | None]) -> Callable[..., Any]:
    def decoded(key: str, restore: object, subflavors: object, sources: object, *data: Any) -> Any:
        values = [_decode_part(part, fn) for part, fn in zip(data, functions, strict=True)]
        return build(key, restore, subflavors, sources, *values)

    return decoded


def _check_fields(config: DatasetConfig, known: Mapping[str, FieldKind], where: str) -> None:
    """Raise UsageError for fields that the type lacks or requires. The fields of custom types are known only here."""
    required = {field.name for field in sample_type_fields(config.sample_type) if field.required}
    optional = set(config.field_map) - set(required_fields(config))
    contradicting = next((field for field in config.field_map if field in required & optional), None)
    if contradicting is not None:
        raise UsageError(
            f"optional: {config.sample_type} requires {contradicting}",
            where=where,
            hint=f"remove it from `optional`, or give {contradicting} a default in the class",
            code="WDS220",
        )
    unknown = next((field for field in config.field_map if field not in known), None)
    if unknown is not None:
        raise UsageError(
            f"{config.sample_type} has no field {unknown!r}",
            where=where,
            hint=did_you_mean(unknown, known) or f"use one of its fields: {', '.join(known)}",
            code="WDS220",
        )


#: Kind of a field -> how messages name its values, and the types of values in JSON that do not fit.
_UNFIT_JSON_TYPES: dict[FieldKind, tuple[str, tuple[type, ...]]] = {
    "text": ("text", (int, float, list, dict)),
    "integer": ("a whole number", (float, str, list, dict)),
}


def _build_from_paths(
    build: Callable[..., Any],
    part_names: Sequence[str],
    functions: Sequence[DecodeFunction | None],
    paths: dict[str, FieldPath],
    kinds: Mapping[str, FieldKind],
    needed: Container[str],
    config: DatasetConfig,
) -> Callable[..., Any]:
    unfit_types = {
        field: _UNFIT_JSON_TYPES[kinds[field]]
        for field, path in paths.items()
        if kinds[field] in _UNFIT_JSON_TYPES and any(each.steps for each in path.alternatives)
    }

    def build_from_paths(key: str, restore: object, subflavors: object, sources: object, *data: Any) -> Any:
        values = {n: _decode_part(part, fn) for n, part, fn in zip(part_names, data, functions, strict=True)}
        parsed: dict[str, Any] = {}
        fields: list[Any] = []
        field = ""
        try:
            for field, path in paths.items():
                default = {} if field in needed else {"default": None}
                value = extract_field(path, values, parsed, kind=kinds[field], **default)
                if value is None and field in needed:
                    raise SampleFailed(
                        f"cannot fill field {field!r}: {path} is null", hint=_missing_field_hint(field, config)
                    )
                if field in unfit_types and isinstance(value, unfit_types[field][1]):
                    raise SampleFailed(
                        f"cannot fill field {field!r}: {path} is {short_repr(value)}, expected {unfit_types[field][0]}",
                        hint="run `wdsctl validate DATASET --level schema` to find such samples, and correct them",
                    )
                fields.append(value)
        except FieldMissing as error:
            message = f"cannot fill field {field!r}: {error.message}"
            raise SampleFailed(message, hint=_missing_field_hint(field, config), where=error.where) from error
        return build(key, restore, subflavors, sources, *fields)

    return build_from_paths


def _lazy_flags(functions: Sequence[DecodeFunction | None]) -> tuple[bool, ...]:
    flags = tuple(bool(getattr(function, "prefers_handle", False)) for function in functions)
    return flags if any(flags) else ()


def _decode_part(part: Any, function: DecodeFunction | None) -> Any:
    if function is None or (isinstance(part, LazyPart) and not getattr(function, "accepts_handle", False)):
        return part
    return function(part)


def _missing_field_hint(field: str, config: DatasetConfig) -> str:
    hint = "run `wdsctl validate DATASET --level schema` to find such samples, and complete them"
    if any(each.name == field and each.required for each in sample_type_fields(config.sample_type)):
        return hint
    return f"{hint}; or write `optional: [{field}]` in dataset.yaml to get None for missing parts"


def _failing_build(field: str, path: FieldPath, part_names: Sequence[str], config: DatasetConfig) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise SampleFailed(
            f"the sample has no part for field {field!r}: expected {path}, found {', '.join(part_names)}",
            hint=_missing_field_hint(field, config),
        )

    return fail
