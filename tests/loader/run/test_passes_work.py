"""Runs are made one by one or in bulk, by whoever asks for whichever of them: always of the same references."""

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
from wdsctl.loader.runtime.failures import Stats

SAMPLES = 90


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("runs")
    return [a_dataset(root / name, SAMPLES, shard_samples=11) for name in ("a", "b")]


def lying(paths: list[str], **options: Any) -> BaseDataset:
    return get_val_dataset(paths[0], split_part="train", batch_size=4, task_encoder=Raw(), **options)


def shuffled(paths: list[str], **options: Any) -> BaseDataset:
    return get_train_dataset(
        paths[0], repeat=False, batch_size=4, shuffle_buffer_size=16, task_encoder=Raw(), **options
    )


def together(paths: list[str], **options: Any) -> BaseDataset:
    blend = {"blend_epochized": [{"path": path, "repetitions": 1} for path in paths]}
    return get_train_dataset(blend, repeat=False, batch_size=4, shuffle_buffer_size=16, task_encoder=Raw(), **options)


KINDS = [lying, shuffled, together]


def opened(dataset: BaseDataset) -> tuple[Pipeline, BatchRanges]:
    streams = open_blend(dataset, None)
    order = streams.components[0].order
    return build_pipeline(dataset, streams, Bans()), BatchRanges(order.n * max(1, order.passes), 4)


def told(refs: Sequence[Any]) -> list[tuple[int, int, int]]:
    return [(source.number, block.passes[i], block.rows[i]) for source, block, i in refs]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_a_run_has_the_same_references_whichever_runs_were_asked_for_before(
    kind: Any, step: int, paths: list[str]
) -> None:
    pipeline, runs = opened(kind(paths))
    arm = pipeline.refs.components[0]
    one_by_one, ahead = BatchRangeRefs(arm, runs, runs.batches), BatchRangeRefs(arm, runs, step)

    for epoch in (0, 1):
        for number in [*range(0, runs.batches, step), 5, 2, 2, runs.batches - 1]:
            one_by_one.go_to(BatchRange(epoch, number))
            ahead.go_to(BatchRange(epoch, number))
            assert told(ahead.take(3)) + told(ahead.take(3)) == told(one_by_one.take(4))
            assert [told([ahead.lookup(pick)]) for pick in (1, 0)] == [
                told([one_by_one.lookup(pick)]) for pick in (1, 0)
            ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_runs_of_a_pass_have_every_sample_once(kind: Any, paths: list[str]) -> None:
    pipeline, runs = opened(kind(paths))
    refs, seen = BatchRangeRefs(pipeline.refs.components[0], runs, 1), []
    for number in range(runs.batches):
        refs.go_to(BatchRange(0, number))
        seen += told(refs.take(100))

    assert len(seen) == len(set(seen)) == runs.n


class Counting(BulkStage):
    """Notes how many samples each batch in bulk was to have."""

    asked: list[int] = []  # noqa: RUF012 - a stage has slots and no place of its own

    def make_batch(self, pieces: Sequence[SampleRefRange], stats: Stats) -> Any:
        self.asked.append(sum(stop - start for _, _, start, stop in pieces))
        return super().make_batch(pieces, stats)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_a_finite_pass_are_made_in_bulk(kind: Any, paths: list[str]) -> None:
    pipeline, runs = opened(kind(paths))
    Counting.asked.clear()
    bulk = BatchRangeRunner(
        replace(pipeline, bulk=Counting(4)), runs, step=1, is_tracing=True, reports_each_sample=False
    )
    by_hand = BatchRangeRunner(replace(pipeline, bulk=None), runs, step=1, is_tracing=True, reports_each_sample=False)

    for number in range(runs.batches):
        ours, theirs = bulk.run_task(BatchRange(0, number)), by_hand.run_task(BatchRange(0, number))
        assert [digest(batch) for batch in ours.batch] == [digest(batch) for batch in theirs.batch]
        assert list(ours.origins) == list(theirs.origins)
        assert (ours.stats.samples, ours.stats.batches) == (theirs.stats.samples, theirs.stats.batches)
    assert sum(Counting.asked) == runs.n


def test_after_a_death_every_sample_is_told_of(paths: list[str]) -> None:
    pipeline, runs = opened(lying(paths))
    Counting.asked.clear()
    careful = BatchRangeRunner(
        replace(pipeline, bulk=Counting(4)), runs, step=1, is_tracing=False, reports_each_sample=True
    )

    assert len(careful.run_task(BatchRange(0, 1)).batch) == 1
    assert Counting.asked == []


def test_a_run_that_cannot_be_made_in_bulk_is_made_of_its_samples(tmp_path: Path) -> None:
    path = a_dataset(
        tmp_path,
        20,
        parts=lambda i: {"txt": b"x", "json": json.dumps({"text": f"{i}"}).encode()},
        sample_type="CaptioningSample",
        field_map={"image": "txt", "caption": "json[text]"},
    )
    pipeline, runs = opened(lying([path]))
    work = BatchRangeRunner(pipeline, runs, step=1, is_tracing=False, reports_each_sample=False)

    (batch,) = work.run_task(BatchRange(0, 1)).batch

    assert batch.caption == ["4", "5", "6", "7"]
