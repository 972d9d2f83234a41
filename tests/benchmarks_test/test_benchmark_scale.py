"""The parts of the scale benchmarks: their corpora, their budgets, and the checks that a figure must pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import plans_bench, sources_bench, states_bench, view_bench
from benchmarks.contenders.plans import check, plan
from benchmarks.contenders.states import budget, count_rebuilt_samples
from benchmarks.many_sources import COUNTS, ensure_sources
from benchmarks.targets import TARGETS
from wdsctl.core.checkpoint.addresses import encode_address
from wdsctl.loader import DefaultTaskEncoder, get_train_dataset
from wdsctl.loader.lanes.rank_lanes import new_layout
from wdsctl.loader.loader import get_loader

if TYPE_CHECKING:
    from pathlib import Path


class Raw(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = None


def test_sources_share_samples_and_are_ready_for_training(tmp_path: Path) -> None:
    roots = ensure_sources(2, tmp_path, samples=40)

    keys = set()
    for root in roots:
        with get_loader(get_train_dataset(str(root), batch_size=20, task_encoder=Raw(), repeat=False)) as loader:
            keys |= {key for batch in loader for key in batch.__key__}
    assert keys == {f"{number:09d}" for number in range(40)}


def test_ensure_sources_keeps_complete_sources(tmp_path: Path) -> None:
    (root,) = ensure_sources(1, tmp_path, samples=4)
    (root / "mark").touch()

    assert ensure_sources(1, tmp_path, samples=4) == [root]
    assert (root / "mark").exists()


@pytest.mark.parametrize("components", [1, 7])
def test_plan_without_files_passes_its_check(components: int) -> None:
    stage = plan(10**6, components)

    check(stage, stage.open(new_layout(8).lanes[3]).take(2000))


def test_check_fails_for_sample_drawn_twice() -> None:
    stage = plan(10**6, 1)
    refs = stage.open(new_layout(8).lanes[0]).take(500)

    with pytest.raises(SystemExit, match="twice"):
        check(stage, [*refs, *refs])


def test_check_fails_for_wrong_component_shares() -> None:
    stage = plan(10**6, 2)
    refs = stage.open(new_layout(8).lanes[0]).take(500)

    with pytest.raises(SystemExit, match="off its share"):
        check(stage, [ref for ref in refs if ref[0].number == 0])


def test_budget_counts_lanes_sources_and_pending_samples() -> None:
    assert budget(lanes=2, sources=10, pending=3) == 1024 + 2 * 256 + 10 * 16 + 3 * 8


@pytest.mark.parametrize(
    ("pack", "expected"),
    [
        ({"upstream": [92, 1], "packs": 2, "emitted": 1}, {5, 6, 7, 93, 94, 95, 96, 97, 98, 99}),
        ({"upstream": [93, 0], "packs": 1, "emitted": 0}, {5, 6, 7, 93, 94, 95, 96, 97, 98, 99}),
        ({"upstream": [100, 0], "packs": 0, "emitted": 0}, {5, 6, 7, 98}),
    ],
    ids=["a buffer under way", "the same from a pick that was not begun", "a buffer that is over"],
)
def test_resume_recomputes_distinct_pending_samples_of_next_lane(pack: dict[str, Any], expected: set[int]) -> None:
    waiting = "".join(map(encode_address, [{"samples": [5, 6, 98], "step": 0}, {"samples": [6], "step": 1}, 7]))
    here = {"draws": 100, "stream": {"upstream": {"upstream": pack, "waiting": waiting}, "emitted": 0}}
    other = {
        "draws": 900,
        "stream": {"upstream": {"upstream": {**pack, "upstream": [0, 0]}, "waiting": ""}, "emitted": 0},
    }

    state = {"batches_drawn": 7, "first_batch": 4, "lanes": 2, "cursors": {"0": other, "1": here}}

    assert count_rebuilt_samples(state) == len(expected)


def test_resume_recomputes_nothing_for_lane_without_pending_samples() -> None:
    cursor = {"draws": 5, "stream": {"upstream": [5, 0], "emitted": 0}}

    assert count_rebuilt_samples({"batches_drawn": 0, "first_batch": 0, "lanes": 1, "cursors": {"0": cursor}}) == 0


def test_scale_targets_name_existing_rows_and_contenders() -> None:
    rows = {
        "sources": {
            sources_bench.title(mode): {sources_bench.name(count) for count in COUNTS} for mode in sources_bench.MODES
        },
        "plans": {
            plans_bench.title(components): {plans_bench.name(size) for size in plans_bench.SIZES}
            for components in plans_bench.COMPONENTS
        },
        "states": {states_bench.TITLE: {name for name, _, _ in states_bench.SHAPES}},
        "view": {view_bench.OPEN_TITLE: {*view_bench.VIEWS, view_bench.WHOLE}},
    }
    targets = [target for target in TARGETS if target.subject in rows]

    assert targets
    for target in targets:
        assert {target.entry, *target.rivals} <= rows[target.subject][target.row]
