from __future__ import annotations

from dataclasses import replace

from tests.cli.conftest import Show
from tests.core.job_states import a_pass_state, a_rank_state, job
from wdsctl.cli.commands.checkpoint import render_checkpoint_diff, render_checkpoint_info, render_redistribute
from wdsctl.core.checkpoint.checkpoint import CheckpointDiffReport, CheckpointInfoReport, RedistributeReport, StateEntry
from wdsctl.core.checkpoint.files import SkippedFile
from wdsctl.core.checkpoint.state import check_state, merge_states
from wdsctl.core.checkpoint.summary import LaneDifference, summarize_state

WHOLE = CheckpointInfoReport(
    states=(StateEntry(path="state.json", key="loader", facts=summarize_state(merge_states(job(4))), problem=""),),
    passed_over=(),
    job=summarize_state(merge_states(job(4))),
    missing=(),
    alike=(1, 2, 4, 8),
    problem="",
)
WRITTEN = RedistributeReport(
    states=4,
    world=4,
    ranks=6,
    step=40,
    lanes=8,
    splits_into=24,
    files=("new/0.json", "new/1.json"),
    size_bytes=1792,
    dry_run=False,
)
SPLIT = (
    "the files are identical: on 6 ranks, 8 lanes are split into 24; no sample is repeated or missed, "
    "but batches are composed differently"
)
DIFFERENT = CheckpointDiffReport(
    first="a",
    second="b",
    tier="order",
    order=("seed: 1 in the first, 2 in the second",),
    recipe=(),
    place=("world: 4 in the first, 2 in the second",),
    bans=(),
    steps=-1,
    lanes=(LaneDifference(lane=0, draws=1200, other=1204), LaneDifference(lane=1, draws=None, other=3)),
    is_same=False,
)


def test_merged_state_is_rendered_as_one_row_with_facts(render_piped: Show) -> None:
    assert render_piped(render_checkpoint_info(WHOLE)) == [
        "file        key     rank  of  step  lanes  pending     size   budget",
        "state.json  loader   all   4    40      8       32  1.8 KiB  3.3 KiB",
        "",
        "  job       training of 4 ranks, step 40 (batches of all ranks)",
        "  drawn     1,308 samples",
        "  lanes     8",
        "  sources   3, generation 1, 3",
        "  buffered  32 positions in pack, group",
        "  banned    0 samples",
        "  order     order_version 1, split train, samples 1000, seed 7, lanes 8, sources [3]",
        "  recipe    37a38053740e2180a2a425ad794af5d3",
        "",
        "any number of ranks can resume; with the same global batches: 1, 2, 4, 8",
    ]


def test_empty_values_of_order_are_omitted(render_piped: Show) -> None:
    assert WHOLE.job is not None
    report = replace(WHOLE, job=replace(WHOLE.job, order={"split": "train", "weights": "", "seed": 0}))

    assert "  order     split train, seed 0" in render_piped(render_checkpoint_info(report))


def test_problems_are_rendered_with_file_name(render_piped: Show) -> None:
    broken = StateEntry(path="rank1.pt", key="", facts=None, problem="the state is damaged: 'drawn' is '40'")
    skipped = (SkippedFile("model.pt", "made by code"),)
    report = replace(WHOLE, states=(broken,), passed_over=skipped, job=None, missing=(0,), problem=broken.problem)

    lines = render_piped(render_checkpoint_info(report))

    assert "rank1.pt: the state is damaged: 'drawn' is '40'" in lines
    assert "skipped model.pt: made by code" in lines
    assert lines[-1].startswith("a job cannot resume from these states together: ")


def test_pass_without_lanes_is_rendered_without_lane_figures(render_piped: Show) -> None:
    facts = summarize_state(check_state(a_pass_state()))
    line = StateEntry(path="val.json", key="", facts=facts, problem="")

    lines = render_piped(render_checkpoint_info(replace(WHOLE, states=(line,), job=facts, alike=())))

    assert "  job      validation, pass 0 of 1 rank, step 4 (batches of all ranks)" in lines
    assert not any(line.startswith("  lanes") for line in lines)
    assert lines[-1] == "any number of ranks can resume"


def test_complete_pass_and_training_pass_are_labelled(render_piped: Show) -> None:
    complete = summarize_state(check_state(a_pass_state(end="passed")))
    training = summarize_state(check_state(a_rank_state(**{"pass": 2})))
    lines = [
        line for job in (complete, training) for line in render_piped(render_checkpoint_info(replace(WHOLE, job=job)))
    ]

    assert "  job      validation, pass 0 (complete) of 1 rank, step 4 (batches of all ranks)" in lines
    assert "  job       training, pass 2 of 1 rank, step 40 (batches of all ranks)" in lines


def test_long_list_of_states_is_truncated_with_count(render_piped: Show) -> None:
    line = StateEntry(path="x.json", key="", facts=summarize_state(check_state(a_rank_state())), problem="")

    assert "... and 44 more (--json lists them all)" in render_piped(
        render_checkpoint_info(replace(WHOLE, states=(line,) * 64))
    )


def test_redistribute_lists_written_files_and_effect(render_piped: Show) -> None:
    assert render_piped(render_redistribute(WRITTEN)) == [
        "4 states of 4 ranks at step 40: wrote 1.8 KiB to",
        "  new/0.json",
        "  new/1.json",
        SPLIT,
    ]
    same = render_piped(render_redistribute(replace(WRITTEN, ranks=2, splits_into=8, dry_run=True)))
    assert "would write" in same[0]
    assert same[-1] == "the files are identical: 2 ranks resume with the same global batches"
    assert (
        render_piped(render_redistribute(replace(WRITTEN, ranks=0)))[-1]
        == "every rank of a job of any size can resume from it"
    )


def test_differences_are_rendered_by_tier_with_effect(render_piped: Show) -> None:
    assert render_piped(render_checkpoint_diff(DIFFERENT)) == [
        "order (a job with one order refuses the state of the other)",
        "  seed: 1 in the first, 2 in the second",
        "place (which rank saved the state, and its lanes: no effect on resuming)",
        "  world: 4 in the first, 2 in the second",
        "steps: the second state is 1 step behind",
        "",
        "lane  first  second  difference",
        "   0  1,200   1,204          +4",
        "   1   none       3",
    ]
