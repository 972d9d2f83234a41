"""BatchRangeRefs returns the same references whether ranges are read one by one or in bulk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest
from wdsctl.loader import get_train_dataset, get_val_dataset
from wdsctl.loader.order.passes import BatchRanges
from wdsctl.loader.pipeline.bulk import BulkStage
from wdsctl.loader.pipeline.pipeline import Pipeline
from wdsctl.loader.plan.bans import Bans
from wdsctl.loader.plan.open_blend import open_blend
from wdsctl.loader.reading.source import SampleRefRange
from wdsctl.loader.recipe.dataset import BaseDataset
from wdsctl.loader.run.batch_ranges import BatchRange, BatchRangeRefs, BatchRangeRunner
from wdsctl.loader.run.build import build_pipeline
from wdsctl.loader.runtime.stats import Stats

SAMPLES = 90


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("runs")
    return [a_dataset(root / name, SAMPLES, shard_samples=11) for name in ("a", "b")]


def validation_dataset(paths: list[str], **options: Any) -> BaseDataset:
    return get_val_dataset(paths[0], split_part="train", batch_size=4, task_encoder=Raw(), **options)


def shuffled_dataset(paths: list[str], **options: Any) -> BaseDataset:
    return get_train_dataset(
        paths[0], repeat=False, batch_size=4, shuffle_buffer_size=16, task_encoder=Raw(), **options
    )


def blended_dataset(paths: list[str], **options: Any) -> BaseDataset:
    blend = {"blend_epochized": [{"path": path, "repetitions": 1} for path in paths]}
    return get_train_dataset(blend, repeat=False, batch_size=4, shuffle_buffer_size=16, task_encoder=Raw(), **options)


KINDS = [validation_dataset, shuffled_dataset, blended_dataset]


def open_pipeline(dataset: BaseDataset) -> tuple[Pipeline, BatchRanges]:
    streams = open_blend(dataset, None)
    order = streams.components[0].order
    return build_pipeline(dataset, streams, Bans()), BatchRanges(order.n * max(1, order.passes), 4)


def positions_of(refs: Sequence[Any]) -> list[tuple[int, int, int]]:
    return [(source.number, block.passes[i], block.rows[i]) for source, block, i in refs]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_batch_range_refs_are_independent_of_ranges_read_before(kind: Any, step: int, paths: list[str]) -> None:
    pipeline, batch_ranges = open_pipeline(kind(paths))
    component = pipeline.refs.components[0]
    one_by_one, in_steps = (
        BatchRangeRefs(component, batch_ranges, batch_ranges.batches),
        BatchRangeRefs(component, batch_ranges, step),
    )

    for epoch in (0, 1):
        for number in [*range(0, batch_ranges.batches, step), 5, 2, 2, batch_ranges.batches - 1]:
            one_by_one.go_to(BatchRange(epoch, number))
            in_steps.go_to(BatchRange(epoch, number))
            assert positions_of(in_steps.take(3)) + positions_of(in_steps.take(3)) == positions_of(one_by_one.take(4))
            assert [positions_of([in_steps.lookup(pick)]) for pick in (1, 0)] == [
                positions_of([one_by_one.lookup(pick)]) for pick in (1, 0)
            ]


@pytest.mark.parametrize("kind", KINDS)
def test_batch_ranges_of_a_pass_cover_every_sample_once(kind: Any, paths: list[str]) -> None:
    pipeline, batch_ranges = open_pipeline(kind(paths))
    refs, seen = BatchRangeRefs(pipeline.refs.components[0], batch_ranges, 1), []
    for number in range(batch_ranges.batches):
        refs.go_to(BatchRange(0, number))
        seen += positions_of(refs.take(100))

    assert len(seen) == len(set(seen)) == batch_ranges.n


class Counting(BulkStage):
    """Records the size of each batch that is built in bulk."""

    sizes: list[int] = []  # noqa: RUF012 - a stage has slots and no place of its own

    def make_batch(self, pieces: Sequence[SampleRefRange], stats: Stats) -> Any:
        self.sizes.append(sum(stop - start for _, _, start, stop in pieces))
        return super().make_batch(pieces, stats)


@pytest.mark.parametrize("kind", KINDS)
def test_batch_range_runner_builds_batches_in_bulk(kind: Any, paths: list[str]) -> None:
    pipeline, batch_ranges = open_pipeline(kind(paths))
    Counting.sizes.clear()
    bulk = BatchRangeRunner(
        replace(pipeline, bulk=Counting(4)), batch_ranges, step=1, is_tracing=True, reports_each_sample=False
    )
    singly = BatchRangeRunner(
        replace(pipeline, bulk=None), batch_ranges, step=1, is_tracing=True, reports_each_sample=False
    )

    for number in range(batch_ranges.batches):
        bulk_result, single_result = bulk.run_task(BatchRange(0, number)), singly.run_task(BatchRange(0, number))
        assert [digest(batch) for batch in bulk_result.batch] == [digest(batch) for batch in single_result.batch]
        assert list(bulk_result.origins) == list(single_result.origins)
        assert (bulk_result.stats.samples, bulk_result.stats.batches) == (
            single_result.stats.samples,
            single_result.stats.batches,
        )
    assert sum(Counting.sizes) == batch_ranges.n


def test_reports_each_sample_disables_bulk_batches(paths: list[str]) -> None:
    pipeline, batch_ranges = open_pipeline(validation_dataset(paths))
    Counting.sizes.clear()
    runner = BatchRangeRunner(
        replace(pipeline, bulk=Counting(4)), batch_ranges, step=1, is_tracing=False, reports_each_sample=True
    )

    assert len(runner.run_task(BatchRange(0, 1)).batch) == 1
    assert Counting.sizes == []


def test_batch_range_runner_builds_batch_from_samples_without_bulk(tmp_path: Path) -> None:
    path = a_dataset(
        tmp_path,
        20,
        parts=lambda i: {"txt": b"x", "json": json.dumps({"text": f"{i}"}).encode()},
        sample_type="CaptioningSample",
        field_map={"image": "txt", "caption": "json[text]"},
    )
    pipeline, batch_ranges = open_pipeline(validation_dataset([path]))
    runner = BatchRangeRunner(pipeline, batch_ranges, step=1, is_tracing=False, reports_each_sample=False)

    (batch,) = runner.run_task(BatchRange(0, 1)).batch

    assert batch.caption == ["4", "5", "6", "7"]
