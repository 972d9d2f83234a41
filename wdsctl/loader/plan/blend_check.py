"""The loader's part of `wdsctl validate --level load` for the entries of a blend: can their samples be in one batch?

The check of a dataset sees neither samples of other datasets nor joined ones, so some samples of each entry are loaded
here.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from wdsctl.core.errors import Finding, WdsctlError
from wdsctl.core.samples.types import CRUDE
from wdsctl.core.validate.load import BATCH_SIZE, UNSHUFFLED_SPLITS, KindCount
from wdsctl.loader.joins.source import JoinedSource
from wdsctl.loader.plan.components import open_source_ranges
from wdsctl.loader.plan.incompatible_sources import (
    IncompatibleSourcesError,
    check_compatible,
    incompatible_error,
    source_label,
)
from wdsctl.loader.plan.load_check import SampleKind, batch_error, conflict_findings, field_kinds
from wdsctl.loader.plan.open_sources import SourceOpener
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.recipe.dataset import get_train_dataset, read_blend_plan
from wdsctl.loader.runtime.failures import FATAL_ERRORS

LOADED_SAMPLES = 256  # of each entry; chosen at random, or every second sample would hide the others


def find_blend_conflicts(path: str, split: str) -> list[Finding]:
    """See `wdsctl.core.validate.load`."""
    dataset = get_train_dataset(path, batch_size=BATCH_SIZE, split_part=split)
    opener = SourceOpener(dataset, None)
    try:
        plan = read_blend_plan(dataset)
        always = {i for segment in plan.schedule for i, weight in enumerate(segment.weights) if weight}
        for number, entry in enumerate(plan.components):
            if entry.weight or number in always:
                open_source_ranges(entry, opener.open)
        sources = [source for source in opener.sources if not (source.is_member or _needs_cooker(source))]
        return _conflicts(sources, split)
    except WdsctlError as error:
        message = f"split {split!r}: the loader refuses the blend: {error.message}; {error.hint}"
        return [Finding(code=error.code, severity="error", message=message)]
    finally:
        for source in opener.sources:
            source.close()


def _needs_cooker(source: SplitSource) -> bool:
    """Whether only a cooker can make use of the samples, as only it reads stores: nobody batches them as they are."""
    return bool(source.aux) and source.sample_type == CRUDE


def _conflicts(sources: Sequence[SplitSource], split: str) -> list[Finding]:
    findings = []
    kinds: dict[SampleKind, SplitSource] = {}
    for source in reversed(sources):
        counts = _load_kinds(source)
        if isinstance(source, JoinedSource):  # the check of a dataset judges the samples of others
            findings += conflict_findings(split, counts, batch_error, loaded=" loaded")
        if counts:
            kinds[max(counts, key=lambda kind: counts[kind].samples)] = source
    try:
        check_compatible(sources)
        for (one, first), (other, second) in combinations(reversed(kinds.items()), 2):
            if reason := batch_error(one, other):
                raise incompatible_error(source_label(first), source_label(second), reason)
    except IncompatibleSourcesError as error:
        # A validation reads one entry after the other, so only a batch at a border has samples of both.
        findings.append(
            Finding(
                code=error.code,
                severity="warning" if split in UNSHUFFLED_SPLITS else "error",
                message=f"split {split!r}: {error.message}; {error.hint}",
            )
        )
    return findings


def _load_kinds(source: SplitSource) -> dict[SampleKind, KindCount]:
    """The kinds of some samples, with shard and key of the first one of each. Leaves out samples that cannot be loaded:
    the checks of their datasets report them."""
    positions = np.sort(np.random.default_rng(0).permutation(source.n)[:LOADED_SAMPLES]).astype(np.int64)
    block = source.block(positions, np.zeros_like(positions))
    counts: dict[SampleKind, KindCount] = {}
    for i in range(len(positions)):
        for memory in source.memories:
            memory.begin(1)  # of the previous sample
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of decoders, about metadata
                sample = source.load(block, i)
        except FATAL_ERRORS:
            raise
        except Exception:  # noqa: BLE001, S112 - a training leaves the sample out; a joiner may raise anything
            continue
        kind = type(sample), field_kinds(sample)
        shard = f"{source.dataset_path}/{source.offsets.shards[block.shards[i]].path}"
        before = counts.get(kind) or KindCount(0, (shard, block.keys[i]))
        counts[kind] = KindCount(before.samples + 1, before.first)
    return counts
