"""A join as a training reads it: a source with the primary's order, whose samples are made of several."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from wdsctl.core.errors import SampleFailed
from wdsctl.loader.references import Block, Ints
from wdsctl.loader.samples import Sample
from wdsctl.loader.source import PlainType, Source

if TYPE_CHECKING:
    from wdsctl.loader.joins.opening import Joined


@dataclass(slots=True)
class JoinedBlock(Block):
    """`partners`: for each member its references, and for each sample which of these is its own, or -1."""

    partners: list[tuple[Block, list[int]]]


class JoinedSource(Source):
    """`joined`: the members and how they go together. `selection`: what found its partners. Positions, rows, ids, keys
    and columns are the primary's.
    """

    def __init__(self, joined: Joined, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._joined = joined
        self._members = joined.members
        self._join = joined.joiner.join
        self.subflavors = joined.subflavors
        self.field_map = {"join": joined.joiner.name, "sample_type": self.sample_type, **self.field_map}
        self.sample_type = joined.joiner.sample_type
        self.kinds = None  # what a joiner makes, nobody knows before it has

    @cached_property
    def digest(self) -> str:
        """Names the data of all members, and which samples of the primary are joined."""
        digests = [self.selection.digest(self.offsets), *(member.digest for member in self._members)]
        return blake2b(" ".join(digests).encode(), digest_size=16).hexdigest()

    @cached_property
    def split_digest(self) -> str:
        return self.whole.digest(self.offsets)

    def block(self, positions: Ints, passes: Ints) -> Block:
        return self._with_partners(super().block(positions, passes))

    def block_of(self, number: int, sample: int) -> Block:
        return self._with_partners(super().block_of(number, sample))

    def load(self, block: Block, i: int) -> Any:
        """Raises what `load` raises of any member, naming it; and whatever the joiner raises."""
        if not isinstance(block, JoinedBlock):
            block = self._with_partners(block)
        samples = [super().load(block, i)]
        for member, (partners, places) in zip(self._members, block.partners, strict=True):
            at = places[i]
            samples.append(None if at < 0 else member.load(partners, at))
        marks = _marks(samples)
        joined = self._join(samples)
        if joined is None:
            raise SampleFailed(
                "the joiner returned None",
                where=self.where(block, i),
                hint="return a sample, or raise SkipSample to leave it out",
            )
        return _marked(joined, marks)

    def plain_type(self, layout: int) -> PlainType | None:  # noqa: ARG002 - of no layout
        """None: there is always something to be made of the parts."""
        return None

    def _with_partners(self, block: Block) -> JoinedBlock:
        rows, passes = np.array(block.rows, np.int64), np.array(block.passes, np.int64)
        partners = []
        for number, member in enumerate(self._members):
            theirs = self._joined.index.partners(number, rows)
            there = np.flatnonzero(theirs >= 0)
            places = np.full(len(rows), -1, np.int64)
            places[there] = np.arange(len(there))
            partners.append((member.block_of_rows(theirs[there], passes[there]), places.tolist()))
        return JoinedBlock(**{field.name: getattr(block, field.name) for field in fields(Block)}, partners=partners)


def _marks(samples: list[Any]) -> dict[str, Any]:
    """The base fields of a joined sample: the primary's, and where all of it came from. A joiner may change its
    samples, so they are taken before."""
    found = [sample for sample in samples if sample is not None]
    primary = found[0]
    return {
        "__key__": _value(primary, "__key__"),
        "__restore_key__": _value(primary, "__restore_key__"),
        "__subflavors__": _value(primary, "__subflavors__"),
        "__sources__": tuple(source for sample in found for source in _value(sample, "__sources__") or ()),
    }


def _marked(joined: Any, marks: dict[str, Any]) -> Any:
    """A dict or a sample with these base fields. Labels that the joiner gave it stay."""
    if isinstance(joined, dict):
        given = joined.get("__subflavors__")
        joined.update({**marks, "__subflavors__": given} if given else marks)
    elif isinstance(joined, Sample):
        for name, value in marks.items():
            if name != "__subflavors__" or not joined.__subflavors__:
                setattr(joined, name, value)
    return joined


def _value(sample: Any, name: str) -> Any:
    return sample[name] if isinstance(sample, dict) else getattr(sample, name)
