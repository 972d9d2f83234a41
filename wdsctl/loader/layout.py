"""From the parts of a sample to its fields: worked out once for each set of parts, run for every sample."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wdsctl.core.dataset_yaml import DatasetConfig, needed_fields
from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.core.fields import FieldMissing, FieldPath, did_you_mean, extract, parse_field_map
from wdsctl.core.sample_types import CRUDE, Kind, is_own
from wdsctl.loader.lazy_part import LazyPart
from wdsctl.loader.sample_code import building, chosen_parts
from wdsctl.loader.samples import CrudeSample, builder, fields_of, sample_type_of

Decode = Callable[[bytes], Any]
FunctionFor = Callable[[str, Kind, str], Decode | None]  # what decodes a part for a field of this kind and name


@dataclass(frozen=True, slots=True)
class Layout:
    """`needed`: which parts are read, by place in the tar. `build(key, restore key, subflavors, sources, *parts)`.

    `plain`: the fields that these parts are, where nothing is looked into and nothing decoded; else None. `ranged`:
    for each needed part whether a handle is wanted in the place of its bytes; empty where none is.
    """

    needed: tuple[int, ...]
    build: Callable[..., Any]
    plain: tuple[str, ...] | None = None
    ranged: tuple[bool, ...] = ()


def compile_layout(names: Sequence[str], config: DatasetConfig, function_for: FunctionFor, where: str) -> Layout:
    """The layout of samples that have the parts `names`, in this order.

    A sample that lacks a mapped field gets a layout that fails when it is built, unless the field is optional: the
    others still train.
    """
    places = chosen_parts(names, config)
    if config.sample_loader:
        functions = [function_for(part, "any", "") for part in places]
        build = _decoding(building(tuple(places), config), functions)
        return Layout(tuple(places.values()), build, ranged=_ranged(functions))
    if config.sample_type == CRUDE:
        functions = [function_for(part, "any", "") for part in places]
        return _of_parts(builder(CrudeSample, tuple(places)), tuple(places), tuple(places.values()), functions)
    paths = parse_field_map(config.field_map, where=where)
    needed = needed_fields(config)
    kinds = {field.name: field.kind for field in fields_of(config.sample_type)}
    _check_fields(config, kinds, where)
    filled: dict[str, FieldPath] = {}
    for field, path in paths.items():
        if any(part in places for part, _ in path.alternatives):
            filled[field] = path
        elif field in needed:
            return Layout((), _failing(field, path, names, config))
    build = builder(sample_type_of(config.sample_type), tuple(filled))
    plain = [_plain_part(path, places) for path in filled.values()]
    if None not in plain and len(set(plain)) == len(plain):
        parts = [part for part in plain if part is not None]
        functions = [function_for(part, kinds[field], field) for part, field in zip(parts, filled, strict=True)]
        layout = _of_parts(build, tuple(filled), tuple(places[part] for part in parts), functions)
        # A constructor of one's own may do more than keep its fields, so every sample is made.
        return replace(layout, plain=None) if is_own(config.sample_type) else layout
    wanted = [part for part in places if any(part in (p for p, _ in path.alternatives) for path in filled.values())]
    functions = [function_for(part, *_taken_by(part, filled, kinds)) for part in wanted]
    looked_into = _from_paths(build, wanted, functions, filled, needed, config)
    return Layout(tuple(places[part] for part in wanted), looked_into, ranged=_ranged(functions))


def _plain_part(path: FieldPath, places: dict[str, int]) -> str | None:
    """The part that a field simply is; None where it must be looked into."""
    part, steps = next((part, steps) for part, steps in path.alternatives if part in places)
    return None if steps else part


def _taken_by(part: str, paths: Mapping[str, FieldPath], kinds: Mapping[str, Kind]) -> tuple[Kind, str]:
    """What the field holds that takes the whole part, and its name: "any" of several kinds, no name of several."""
    taking = [field for field, path in paths.items() if (part, ()) in path.alternatives]
    held = {kinds[field] for field in taking}
    return held.pop() if len(held) == 1 else "any", taking[0] if len(taking) == 1 else ""


def _of_parts(
    build: Callable[..., Any], fields: tuple[str, ...], needed: tuple[int, ...], functions: Sequence[Decode | None]
) -> Layout:
    """Every field is a part: nothing to look into. Where nothing is decoded either, nothing is called."""
    if not any(functions):
        return Layout(needed, build, fields)
    return Layout(needed, _decoding(build, functions), ranged=_ranged(functions))


def _decoding(build: Callable[..., Any], functions: Sequence[Decode | None]) -> Callable[..., Any]:
    def decoded(key: str, restore: object, subflavors: object, sources: object, *data: Any) -> Any:
        values = [_decoded(part, fn) for part, fn in zip(data, functions, strict=True)]
        return build(key, restore, subflavors, sources, *values)

    return decoded


def _check_fields(config: DatasetConfig, known: Mapping[str, Kind], where: str) -> None:
    """Of a type of one's own, which fields it has is known only here."""
    cannot = {field.name for field in fields_of(config.sample_type) if field.required}
    lost = next((field for field in config.field_map if field in cannot and field not in needed_fields(config)), None)
    if lost is not None:
        raise UsageError(
            f"optional: {config.sample_type} cannot be made without {lost}",
            where=where,
            hint=f"leave it out; or give {lost} a default in the class",
            code="WDS220",
        )
    odd = next((field for field in config.field_map if field not in known), None)
    if odd is not None:
        raise UsageError(
            f"{config.sample_type} has no field {odd!r}",
            where=where,
            hint=did_you_mean(odd, known) or f"its fields are {', '.join(known)}",
            code="WDS220",
        )


def _from_paths(
    build: Callable[..., Any],
    names: Sequence[str],
    functions: Sequence[Decode | None],
    paths: dict[str, FieldPath],
    needed: Container[str],
    config: DatasetConfig,
) -> Callable[..., Any]:
    def looked_into(key: str, restore: object, subflavors: object, sources: object, *data: Any) -> Any:
        values = {n: _decoded(part, fn) for n, part, fn in zip(names, data, functions, strict=True)}
        parsed: dict[str, Any] = {}
        fields: list[Any] = []
        field = ""
        try:
            for field, path in paths.items():
                given = {} if field in needed else {"default": None}
                value = extract(path, values, parsed, **given)
                if value is None and field in needed:
                    raise SampleFailed(
                        f"the field {field!r} cannot be filled: {path} is null", hint=_hint(field, config)
                    )
                fields.append(value)
        except FieldMissing as error:
            words = f"the field {field!r} cannot be filled: {error.message}"
            raise SampleFailed(words, hint=_hint(field, config), where=error.where) from error
        return build(key, restore, subflavors, sources, *fields)

    return looked_into


def _ranged(functions: Sequence[Decode | None]) -> tuple[bool, ...]:
    ranged = tuple(bool(getattr(function, "by_range", False)) for function in functions)
    return ranged if any(ranged) else ()


def _decoded(part: Any, function: Decode | None) -> Any:
    if function is None or (isinstance(part, LazyPart) and not getattr(function, "takes_ranges", False)):
        return part
    return function(part)


def _hint(field: str, config: DatasetConfig) -> str:
    hint = "`wdsctl validate --level schema` finds such samples: complete them"
    if any(each.name == field and each.required for each in fields_of(config.sample_type)):
        return hint
    return f"{hint}; or, if they may lack it, say `optional: [{field}]` in dataset.yaml, and it is None"


def _failing(field: str, path: FieldPath, names: Sequence[str], config: DatasetConfig) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise SampleFailed(
            f"the sample has no part for the field {field!r}: it needs {path}, and has {', '.join(names)}",
            hint=_hint(field, config),
        )

    return fail
