"""`JoinedSource`: a source with the primary's order whose samples are joined from several datasets; and its opening,
which matches the samples by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.blend import Join, Leaf
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import DatasetLocation, data_folders
from wdsctl.core.errors import InputError, SampleFailed
from wdsctl.core.joins.index import JoinIndex, JoinSide, Nonmatch, open_join
from wdsctl.core.offsets.read import ShardIndex
from wdsctl.core.urls import redact_secrets
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.joins.joiner import Joiner, field_names, resolve_joiner
from wdsctl.loader.reading.decode_functions import DecodeFunctions
from wdsctl.loader.reading.reference_blocks import ReferenceBlock
from wdsctl.loader.reading.selection import SampleSelection
from wdsctl.loader.reading.source import PlainSampleType, PrefetchUnit, SplitSource
from wdsctl.loader.samples import Sample


@dataclass(slots=True)
class JoinedBlock(ReferenceBlock):
    """References of the primary with their partners: for each member its references, and for each sample the index of
    its partner there, or -1."""

    partners: list[tuple[ReferenceBlock, list[int]]]


class JoinedSource(SplitSource):
    """The primary of a join. Positions, rows, ids, keys and columns are the primary's; `selection` has the samples
    whose required partners exist.
    """

    def __init__(self, join_context: JoinContext, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._join_context = join_context
        self._members = join_context.members
        self._join = join_context.joiner.join
        self.subflavors = join_context.subflavors
        self.field_facts = {"join": join_context.joiner.name, "sample_type": self.sample_type, **self.field_facts}
        self.sample_type = join_context.joiner.sample_type
        self.sample_kinds = None  # a joiner may return any type
        self.batch_fields = ()

    @cached_property
    def digest(self) -> str:
        """A digest of the data of all members, and of which samples are joined."""
        digests = [self.selection.digest(self.offsets), *(member.digest for member in self._members)]
        return blake2b(" ".join(digests).encode(), digest_size=16).hexdigest()

    @cached_property
    def split_digest(self) -> str:
        return self.full_selection.digest(self.offsets)

    def block(self, positions: Int64Array, passes: Int64Array) -> ReferenceBlock:
        return self._with_partners(super().block(positions, passes))

    def block_of_sample(self, number: int, sample: int) -> ReferenceBlock:
        return self._with_partners(super().block_of_sample(number, sample))

    def load(self, block: ReferenceBlock, i: int) -> Any:
        """Load the samples of all members and join them. Raises what `load` of a member and the joiner raise."""
        if not isinstance(block, JoinedBlock):
            block = self._with_partners(block)
        samples = [super().load(block, i)]
        for member, (partners, indices) in zip(self._members, block.partners, strict=True):
            index = indices[i]
            samples.append(None if index < 0 else member.load(partners, index))
        base_fields = _joined_base_fields(samples)
        joined = self._join(samples)
        if joined is None:
            raise SampleFailed(
                "the joiner returned None",
                where=self.describe_reference(block, i),
                hint="return a sample, or raise SkipSample to skip it",
            )
        return _with_base_fields(joined, base_fields)

    def plain_type(self, layout: int) -> PlainSampleType | None:  # noqa: ARG002 - the same for all layouts
        """None: parts always have to be joined."""
        return None

    @property
    def is_remote(self) -> bool:
        return super().is_remote or any(member.is_remote for member in self._members)

    @property
    def lead_seconds(self) -> float:
        return max(super().lead_seconds, *(member.lead_seconds for member in self._members))

    def prefetch_rows(
        self, rows: Int64Array, units: Sequence[PrefetchUnit] = (), *, starts: bool = True, due: float = 0.0
    ) -> object:
        """Prefetch the rows of the primary and their partners. Only the primary's are cached."""
        kept = [super().prefetch_rows(rows, units, starts=starts, due=due)]
        for number, member in enumerate(self._members):
            partner_rows = self._join_context.index.partners(number, rows)
            kept.append(member.prefetch_rows(partner_rows[partner_rows >= 0], starts=starts, due=due))
        return kept

    def _with_partners(self, block: ReferenceBlock) -> JoinedBlock:
        rows, passes = np.array(block.rows, np.int64), np.array(block.passes, np.int64)
        partners = []
        for number, member in enumerate(self._members):
            partner_rows = self._join_context.index.partners(number, rows)
            has_partner = np.flatnonzero(partner_rows >= 0)
            indices = np.full(len(rows), -1, np.int64)
            indices[has_partner] = np.arange(len(has_partner))
            partners.append((member.block_of_rows(partner_rows[has_partner], passes[has_partner]), indices.tolist()))
        return JoinedBlock(
            **{field.name: getattr(block, field.name) for field in fields(ReferenceBlock)}, partners=partners
        )


def _joined_base_fields(samples: list[Any]) -> dict[str, Any]:
    """The base fields of a joined sample: the primary's, and the sources of all. Read before the joiner runs, which may
    change its samples."""
    present = [sample for sample in samples if sample is not None]
    primary = present[0]
    return {
        "__key__": _field_value(primary, "__key__"),
        "__restore_key__": _field_value(primary, "__restore_key__"),
        "__subflavors__": _field_value(primary, "__subflavors__"),
        "__sources__": tuple(source for sample in present for source in _field_value(sample, "__sources__") or ()),
    }


def _with_base_fields(joined: Any, base_fields: dict[str, Any]) -> Any:
    """Set the base fields of a dict or sample. Subflavors that the joiner set are kept."""
    if isinstance(joined, dict):
        labels = joined.get("__subflavors__")
        joined.update({**base_fields, "__subflavors__": labels} if labels else base_fields)
    elif isinstance(joined, Sample):
        for name, value in base_fields.items():
            if name != "__subflavors__" or not joined.__subflavors__:
                setattr(joined, name, value)
    return joined


def _field_value(sample: Any, name: str) -> Any:
    return sample[name] if isinstance(sample, dict) else getattr(sample, name)


@dataclass(frozen=True)
class JoinContext:
    """The members of a join and how they are joined. `members`: in order, without the primary."""

    leaf: Leaf
    members: tuple[SplitSource, ...]
    index: JoinIndex
    joiner: Joiner
    subflavors: dict[str, Any]

    def open_source(
        self, root: str, offsets: ShardIndex, selection: SampleSelection, *args: Any, **options: Any
    ) -> SplitSource:
        """A `JoinedSource` with the arguments of `SplitSource`. Raises InputError WDS211 if no sample has partners."""
        mask = self.index.kept
        joined_selection = selection if mask is None else selection.masked(offsets, mask)
        if not joined_selection.n:
            raise InputError(
                f"no sample of {redact_secrets(root)} has partners in all members with `nonmatch: skip`",
                where=self.leaf.where,
                hint="run `wdsctl inspect DATASET --samples 3` on each dataset and compare the keys: partners have "
                "equal keys",
                code="WDS211",
            )
        return JoinedSource(self, root, offsets, joined_selection, *args, **options)


class EagerFunctions(DecodeFunctions):
    """Decode functions that decode images at once, as a joiner reads samples right after they are loaded.

    `others`: the functions of other samples in the same batches.
    """

    def __init__(self, decoder: SampleDecoder | None, others: DecodeFunctions) -> None:
        super().__init__(decoder, others.sample_classes)
        self.memories = others.memories
        self._others = others

    def decode_in_parallel(self) -> AbstractContextManager[None]:
        return self._others.decode_in_parallel()


def open_joined_source(
    leaf: Leaf,
    join: Join,
    location: DatasetLocation,
    offsets: ShardIndex,
    selection: SampleSelection,
    configs: Sequence[DatasetConfig],
    members: Sequence[SplitSource],
    *,
    trust_code: bool = False,
) -> JoinContext:
    """Match the samples of a join. `location`, `offsets` and `selection`: of the primary; `configs`: of all members.

    Raises what `open_join` and `resolve_joiner` raise.
    """
    primary = _join_side(location.display_path, offsets, selection, selection.digest(offsets))
    sides = [
        _join_side(member.dataset_path, member.offsets, member.selection, member.digest, nonmatch)
        for member, nonmatch in zip(members, join.nonmatch, strict=True)
    ]
    paths = (location.display_path, *(member.dataset_path for member in members))
    layouts = (offsets.layouts, *(member.offsets.layouts for member in members))
    locations = [location, *(member.location for member in members if member.location is not None)]
    folders = [folder for each in locations for folder in data_folders(each)]
    member_fields = [
        (path, field_names(config, names)) for path, config, names in zip(paths, configs, layouts, strict=True)
    ]
    joiner = resolve_joiner(
        join, member_fields, leaf.where, trust_code=trust_code, data_folders=folders
    )  # what it refuses, it refuses at once
    return JoinContext(
        leaf,
        tuple(members),
        open_join(location.meta, primary, sides),
        joiner,
        _merge_subflavors([config.subflavors for config in configs], [leaf, *join.members]),
    )


def _join_side(
    name: str, index: ShardIndex, selection: SampleSelection, digest: str, nonmatch: Nonmatch = "error"
) -> JoinSide:
    return JoinSide(name, index, lambda: selection.rows(np.arange(selection.n)), digest, nonmatch)


def _merge_subflavors(of_datasets: Sequence[Mapping[str, Any]], leaves: Sequence[Leaf]) -> dict[str, Any]:
    """The subflavors of all members: the blend file overrides dataset.yaml, and the primary the other members."""
    merged: dict[str, Any] = {}
    for each in (*reversed(of_datasets), *(leaf.subflavors for leaf in reversed(leaves))):
        merged.update(each)
    return merged
