"""Opens a join: finds which samples go together, and makes a source of the primary that knows its members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from wdsctl.core.blend_file import Join, Leaf
from wdsctl.core.dataset_yaml import DatasetConfig
from wdsctl.core.errors import InputError
from wdsctl.core.join_cache import join_of
from wdsctl.core.join_index import JoinIndex, Nonmatch, Side
from wdsctl.core.module_origin import data_folders
from wdsctl.core.place import Place
from wdsctl.core.shard_index import ShardIndex
from wdsctl.core.urls import shown
from wdsctl.loader.decode_functions import Functions
from wdsctl.loader.decoding import SampleDecoder
from wdsctl.loader.joins.joiner import Joiner, field_names, joiner_of
from wdsctl.loader.joins.source import JoinedSource
from wdsctl.loader.selection import Selection
from wdsctl.loader.source import Source


@dataclass(frozen=True)
class Joined:
    """What a source of the primary needs to be one of a join. `members`: without the primary, in their order."""

    leaf: Leaf
    members: tuple[Source, ...]
    index: JoinIndex
    joiner: Joiner
    subflavors: dict[str, Any]

    def source(self, root: str, offsets: ShardIndex, selection: Selection, *given: Any, **options: Any) -> Source:
        """`JoinedSource` of what `Source` takes. Raises InputError WDS211 where no sample has its partners."""
        kept = self.index.kept
        chosen = selection if kept is None else selection.only(offsets, kept)
        if not chosen.n:
            raise InputError(
                f"no sample of {shown(root)} has partners of its key in all members that skip",
                where=self.leaf.where,
                hint="keys are compared as they are: `wdsctl inspect` shows some of each dataset",
                code="WDS211",
            )
        return JoinedSource(self, root, offsets, chosen, *given, **options)


class AtOnce(Functions):
    """Functions for samples that a joiner looks at as soon as they are loaded: none of their images is decoded later.

    `others`: those of the samples that they meet in batches.
    """

    def __init__(self, decoder: SampleDecoder | None, others: Functions) -> None:
        super().__init__(decoder)
        self.memories = others.memories
        self._others = others

    def together(self) -> AbstractContextManager[None]:
        return self._others.together()


def joined_of(
    leaf: Leaf,
    join: Join,
    place: Place,
    offsets: ShardIndex,
    selection: Selection,
    configs: Sequence[DatasetConfig],
    members: Sequence[Source],
    *,
    trust_code: bool = False,
) -> Joined:
    """The join of a leaf, whose `place`, `offsets` and `selection` are the primary's; `configs`: of all members.

    Raises what `join_of` and `joiner_of` raise.
    """
    primary = _side(place.shown, offsets, selection, selection.digest(offsets))
    sides = [
        _side(member.dataset_path, member.offsets, member.selection, member.digest, nonmatch)
        for member, nonmatch in zip(members, join.nonmatch, strict=True)
    ]
    paths = (place.shown, *(member.dataset_path for member in members))
    layouts = (offsets.layouts, *(member.offsets.layouts for member in members))
    places = [place, *(member.place for member in members if member.place is not None)]
    data = [folder for each in places for folder in data_folders(each)]
    kinds = [(path, field_names(config, names)) for path, config, names in zip(paths, configs, layouts, strict=True)]
    joiner = joiner_of(join, kinds, leaf.where, trust_code=trust_code, data=data)  # what it refuses, it refuses at once
    return Joined(
        leaf,
        tuple(members),
        join_of(place.meta, primary, sides),
        joiner,
        _subflavors([config.subflavors for config in configs], [leaf, *join.members]),
    )


def _side(name: str, index: ShardIndex, selection: Selection, digest: str, nonmatch: Nonmatch = "error") -> Side:
    return Side(name, index, lambda: selection.rows(np.arange(selection.n)), digest, nonmatch)


def _subflavors(of_datasets: Sequence[Mapping[str, Any]], leaves: Sequence[Leaf]) -> dict[str, Any]:
    """Those of all members: what the blend file says over what a dataset.yaml says, and the primary over the rest."""
    merged: dict[str, Any] = {}
    for each in (*reversed(of_datasets), *(leaf.subflavors for leaf in reversed(leaves))):
        merged.update(each)
    return merged
