"""What makes one sample of those of the members: a class, a function, or a dict of their fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wdsctl.core.blend_file import Join
from wdsctl.core.dataset_yaml import DatasetConfig
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.sample_types import CRUDE
from wdsctl.loader.sample_code import chosen_parts
from wdsctl.loader.samples import BASE_FIELDS, CrudeSample, Sample, base_values, fields_of
from wdsctl.loader.trust import NamedCode, code_of

Kind = tuple[str, list[str]]  # of a member: its dataset, for people, and the fields that its samples may have


@dataclass(frozen=True, slots=True)
class Joiner:
    """`join(samples)`: of all members in their order, the primary first, None for those without a partner.

    `name` is for the plan. `sample_type`: CRUDE where what comes out is for cookers.
    """

    name: str
    sample_type: str
    join: Callable[[Sequence[Any]], Any]


def field_names(config: DatasetConfig, layouts: Sequence[Sequence[str]]) -> list[str]:
    """The fields that samples may have, but for the base fields. `layouts`: the parts of crude ones. Of crude samples
    that code makes, nobody knows: none."""
    if config.sample_type != CRUDE:
        return [field.name for field in fields_of(config.sample_type)]
    names = dict.fromkeys(name for layout in layouts for name in layout)
    return [] if config.sample_loader else list(chosen_parts(tuple(names), config))


def joiner_of(
    join: Join, members: Sequence[Kind], where: str, *, trust_code: bool = False, data: Sequence[str] = ()
) -> Joiner:
    """`members`: all of them; `data`: their folders. Raises UsageError WDS605 where the joiner is not there, WDS270 and
    WDS271 where it may not be imported, DatasetError WDS605 where there is none and two members have a field of one
    name."""
    if join.joiner is None:
        return Joiner("", CRUDE, _named(join.names) if join.names else _merged(members, where))
    call = (
        _found(join.joiner, join, where, trust_code=trust_code, data=data)
        if isinstance(join.joiner, str)
        else join.joiner
    )
    name = join.joiner if isinstance(join.joiner, str) else _name_of(call)
    call = getattr(call, "from_joined", call)
    if not join.names:
        return Joiner(name, "joined", lambda samples: call(*samples))
    names = join.names
    return Joiner(name, "joined", lambda samples: call(**dict(zip(names, samples, strict=True))))


def _found(text: str, join: Join, where: str, *, trust_code: bool, data: Sequence[str]) -> Callable[..., Any]:
    """What `module:name` names. Energon's own sample types are ours."""
    named = NamedCode(text, "joiner", join.joiner_where or where, data)
    try:
        found: Callable[..., Any] = code_of(named, trust_code=trust_code)
    except UsageError as error:
        if error.code != "WDS312":
            raise
        words = f"joiner: {error.message}"
        raise UsageError(words, hint=error.hint, where=named.where, code="WDS605") from error
    return found


def _name_of(call: Any) -> str:
    kind = call if hasattr(call, "__qualname__") else type(call)
    return f"{kind.__module__}:{kind.__qualname__}"


def _named(names: Sequence[str]) -> Callable[[Sequence[Any]], CrudeSample]:
    """By name: the fields of each member, or None."""

    def join(samples: Sequence[Any]) -> CrudeSample:
        fields = [None if sample is None else _fields(sample) for sample in samples]
        return CrudeSample({**base_values(samples[0]), **dict(zip(names, fields, strict=True))})

    return join


def _merged(members: Sequence[Kind], where: str) -> Callable[[Sequence[Any]], CrudeSample]:
    """By position: all fields of all members, None for those of a member that is not there."""
    absent = [dict.fromkeys(names) for _, names in members]
    seen: dict[str, int] = {}
    for i, names in enumerate(absent):
        for name in names:
            if seen.setdefault(name, i) != i:
                first, second = members[seen[name]][0], members[i][0]
                raise DatasetError(
                    f"join: {name!r} is in the samples of two members, {first} and {second}",
                    where=where,
                    hint="write `join:` as a mapping of names to members, or give it a joiner",
                    code="WDS605",
                )

    def join(samples: Sequence[Any]) -> CrudeSample:
        joined = CrudeSample(base_values(samples[0]))
        for sample, none in zip(samples, absent, strict=True):
            joined.update(none)
            joined.update({} if sample is None else _fields(sample))
        return joined

    return join


def _fields(sample: Sample | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(sample, Sample):
        names = [field.name for field in dataclasses.fields(sample)]
        return {name: getattr(sample, name) for name in names if name not in BASE_FIELDS}
    return {name: value for name, value in sample.items() if name not in BASE_FIELDS}
