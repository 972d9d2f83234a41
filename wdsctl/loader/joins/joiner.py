"""Joiners: how the samples of all members become one: a class, a function, or a dict of their fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wdsctl.core.blend import Join
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.samples.types import CRUDE
from wdsctl.loader.reading.user_code import select_parts
from wdsctl.loader.runtime.identity import qualified_name
from wdsctl.loader.samples import BASE_FIELDS, CrudeSample, Sample, base_values, sample_type_fields
from wdsctl.loader.samples.trust import NamedCode, load_named_code

MemberFields = tuple[str, list[str]]  # (dataset of a member, for messages; fields of its samples)


@dataclass(frozen=True, slots=True)
class Joiner:
    """`join(samples)` gets the samples of all members in order, the primary first, None for members without a partner.

    `name`: in the plan's fingerprint. `sample_type`: CRUDE if cookers process the result.
    """

    name: str
    sample_type: str
    join: Callable[[Sequence[Any]], Any]


def field_names(config: DatasetConfig, layouts: Sequence[Sequence[str]]) -> list[str]:
    """The fields that samples may have, without base fields. `layouts`: the parts of crude samples. Empty if a
    sample_loader decides."""
    if config.sample_type != CRUDE:
        return [field.name for field in sample_type_fields(config.sample_type)]
    names = dict.fromkeys(name for layout in layouts for name in layout)
    return [] if config.sample_loader else list(select_parts(tuple(names), config))


def resolve_joiner(
    join: Join,
    members: Sequence[MemberFields],
    where: str,
    *,
    trust_code: bool = False,
    data_folders: Sequence[str] = (),
) -> Joiner:
    """The joiner of a `join`. `members`: with the primary; `data_folders`: of all members. Raises UsageError WDS605 if
    the joiner does not exist, WDS270 and WDS271 if it may not be imported; DatasetError WDS605 if there is no joiner
    and two members have a field of the same name.
    """
    if join.joiner is None:
        return Joiner("", CRUDE, _join_by_name(join.names) if join.names else _join_by_position(members, where))
    call = (
        _import_joiner(join.joiner, join, where, trust_code=trust_code, data_folders=data_folders)
        if isinstance(join.joiner, str)
        else join.joiner
    )
    name = join.joiner if isinstance(join.joiner, str) else qualified_name(call, ":")
    call = getattr(call, "from_joined", call)
    if not join.names:
        return Joiner(name, "joined", lambda samples: call(*samples))
    names = join.names
    return Joiner(name, "joined", lambda samples: call(**dict(zip(names, samples, strict=True))))


def _import_joiner(
    reference: str, join: Join, where: str, *, trust_code: bool, data_folders: Sequence[str]
) -> Callable[..., Any]:
    """The object `module:name`. Energon's sample types map to ours."""
    named = NamedCode(reference, "joiner", join.joiner_where or where, data_folders)
    try:
        joiner: Callable[..., Any] = load_named_code(named, trust_code=trust_code)
    except UsageError as error:
        if error.code != "WDS312":
            raise
        message = f"joiner: {error.message}"
        raise UsageError(message, hint=error.hint, where=named.where, code="WDS605") from error
    return joiner


def _join_by_name(names: Sequence[str]) -> Callable[[Sequence[Any]], CrudeSample]:
    """A join to a dict: member name -> its fields, or None without a partner."""

    def join(samples: Sequence[Any]) -> CrudeSample:
        fields = [None if sample is None else _own_fields(sample) for sample in samples]
        return CrudeSample({**base_values(samples[0]), **dict(zip(names, fields, strict=True))})

    return join


def _join_by_position(members: Sequence[MemberFields], where: str) -> Callable[[Sequence[Any]], CrudeSample]:
    """A join to a dict of all fields of all members, None for fields of a member without a partner."""
    absent = [dict.fromkeys(names) for _, names in members]
    seen: dict[str, int] = {}
    for i, names in enumerate(absent):
        for name in names:
            if seen.setdefault(name, i) != i:
                first, second = members[seen[name]][0], members[i][0]
                raise DatasetError(
                    f"join: the members {first} and {second} both have a field {name!r}",
                    where=where,
                    hint="write `join:` as a mapping of names to members, or add a joiner",
                    code="WDS605",
                )

    def join(samples: Sequence[Any]) -> CrudeSample:
        joined = CrudeSample(base_values(samples[0]))
        for sample, none in zip(samples, absent, strict=True):
            joined.update(none)
            joined.update({} if sample is None else _own_fields(sample))
        return joined

    return join


def _own_fields(sample: Sample | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(sample, Sample):
        names = [field.name for field in dataclasses.fields(sample)]
        return {name: getattr(sample, name) for name in names if name not in BASE_FIELDS}
    return {name: value for name, value in sample.items() if name not in BASE_FIELDS}
