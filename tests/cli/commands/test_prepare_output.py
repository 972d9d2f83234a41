from __future__ import annotations

from tests.cli.conftest import Show
from tests.cli.reports import FINDINGS, a_folder_report, a_prepare_report, an_index_report
from wdsctl.cli.commands.prepare import prepare_renderer, render_prepare
from wdsctl.core.importers import CHOSEN_BY_USER, IMPORT_FORMATS
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.source import RejectedFormat, SourceFormat


def test_prepare_prints_results_by_phase(render_piped: Show) -> None:
    assert render_piped(render_prepare(a_prepare_report())) == [
        "photos -> shards",
        "  write  1,204,332 samples in 5,029 shards, 40.0 GiB (12 written, 5,017 kept)",
        "         problems: 3 incomplete samples, 2 stray files",
        "         a/0042: no json",
        "         b/stray",
        "         c: no jpg",
        "         ... and 2 more",
        "  index  5,029 shards, 1,204,332 samples, 40.0 GiB (12 added, 1 changed, 5,016 unchanged)",
        "         shards/.wdsctl/catalog.sqlite",
        "  type   CaptioningSample: image=jpg, caption=json[caption] (confidence 97 %)",
        "         1,000 of 1,000 samples have an image in jpg",
        "         not VQASample: no question in json",
        "         shards/.wdsctl/dataset.yaml",
        "  split  by shard, seed 0",
        "         split  share  shards  samples",
        "         train   80 %   4,023  963,465",
        "         val     20 %   1,006  240,867",
    ]


def test_prepare_prints_type_of_existing_dataset_yaml(render_piped: Show) -> None:
    kept = a_prepare_report(detection=None, sample_type="ImageSample", field_map={"image": "jpg,png"})
    assert "  why    ImageSample: image=jpg,png (from dataset.yaml)" in render_piped(render_prepare(kept))


def test_up_to_date_prepare_prints_one_line(render_piped: Show) -> None:
    report = a_prepare_report(up_to_date=True, index=an_index_report(up_to_date=True))
    assert render_piped(render_prepare(report)) == ["shards: up to date (5,029 shards, 1,204,332 samples, 40.0 GiB)"]


def test_up_to_date_prepare_prints_differences_from_folder(render_piped: Show) -> None:
    folder = a_folder_report(vanished=2, stale=3)
    lines = render_piped(
        render_prepare(a_prepare_report(up_to_date=True, index=an_index_report(up_to_date=True), folder=folder))
    )
    missing = "2 samples stay in their shards although their files are missing"
    assert lines[1].endswith(f"{missing}, 3 shards are unchanged although their files have changed")


def test_prepare_prints_dropped_and_new_samples(render_piped: Show) -> None:
    folder = a_folder_report(dropped=tuple(f"a{i}" for i in range(12)), added=13)
    lines = render_piped(render_prepare(a_prepare_report(folder=folder)))
    assert "  dropped  12 samples: a0, a1, a2, a3, a4, a5, a6, a7, a8, a9 and 2 more (--json has all)" in lines
    assert "  new      13 samples in new shards" in lines


def test_prepare_prints_that_renamed_samples_are_in_shards_twice(render_piped: Show) -> None:
    """If samples have lost their files and others are new, files may have been renamed."""
    lines = {
        (vanished, added): "\n".join(
            render_piped(render_prepare(a_prepare_report(folder=a_folder_report(vanished=vanished, added=added))))
        )
        for vanished, added in ((3, 3), (3, 0), (0, 3))
    }
    advice = "if you renamed files, the shards have their samples under both names; `--missing drop --dry-run` lists"
    assert "3 samples stay in their shards although their files are missing" in lines[3, 3]
    assert "3 samples in new shards" in lines[3, 3]
    assert [advice in text for text in lines.values()] == [True, False, False]


def test_first_prepare_does_not_call_all_samples_new(render_piped: Show) -> None:
    folder = a_folder_report(samples=60, added=60, kept=0)
    assert "new shards" not in "\n".join(render_piped(render_prepare(a_prepare_report(folder=folder))))


def test_prepare_of_tars_prints_no_folder_phase(render_piped: Show) -> None:
    report = a_prepare_report(source="tars", dest="tars", from_folder=False, folder=None, split=None, detection=None)
    lines = render_piped(render_prepare(report))
    assert lines[0] == "tars"
    assert len(lines) == 3


def test_prepare_dry_run_prints_that_nothing_is_written(render_piped: Show) -> None:
    report = a_prepare_report(dry_run=True, folder=a_folder_report(dry_run=True))
    lines = render_piped(render_prepare(report))
    assert lines[0] == "photos -> shards (dry run: nothing is written)"
    assert "would" in lines[1]


def test_prepare_dry_run_of_folder_prints_no_catalog(render_piped: Show) -> None:
    report = a_prepare_report(dry_run=True, index=None, detection=None, split=None)
    assert len(render_piped(render_prepare(report))) == 7


def test_prepare_labels_sample_type_given_by_user(render_piped: Show) -> None:
    options = PrepareRequest(sample_type="TextSample", field_map={"text": "json[caption]"})
    lines = render_piped(prepare_renderer(options)(a_prepare_report()))
    assert "  type   TextSample: text=json[caption] (chosen by the user)" in lines
    assert not [line for line in lines if "1,000 of 1,000" in line]


def test_prepare_omits_problems_if_there_are_none(render_piped: Show) -> None:
    report = a_prepare_report(folder=a_folder_report(incomplete=0, strays=0, examples=()))
    assert not [line for line in render_piped(render_prepare(report)) if "problems" in line]


def test_prepare_names_list_of_left_out_files(render_piped: Show) -> None:
    folder = a_folder_report(left_out_list="shards/.wdsctl/left-out.tsv")
    line = "shards/.wdsctl/left-out.tsv lists all samples and files that were left out"
    assert f"         {line}" in render_piped(render_prepare(a_prepare_report(folder=folder)))
    assert f"  {line}" in render_piped(render_prepare(a_prepare_report(folder=folder, up_to_date=True)))


def test_prepare_prints_findings_last(render_piped: Show) -> None:
    lines = render_piped(render_prepare(a_prepare_report(index=an_index_report(findings=FINDINGS))))
    assert lines[17] == "found: 1 error, 1,204 warnings, 3 notes"


def test_prepare_output_fits_80_columns(render_on_terminal: Show) -> None:
    assert max(map(len, render_on_terminal(render_prepare(a_prepare_report())))) <= 80


def test_prepare_explain_lists_rejected_formats(render_piped: Show) -> None:
    form = SourceFormat(
        "imagefolder", "folders", (RejectedFormat("folder", "raw files"), RejectedFormat("csv", "a table"))
    )
    explained = "\n".join(render_piped(render_prepare(a_prepare_report(form=form), explain=True)))
    brief = "\n".join(render_piped(render_prepare(a_prepare_report(form=form))))
    chosen = a_prepare_report(form=SourceFormat("coco", CHOSEN_BY_USER))
    named = "\n".join(render_piped(render_prepare(chosen, explain=True)))

    assert all(f"not {name}: " in explained for name in IMPORT_FORMATS if name != "imagefolder")
    assert "not imagefolder" not in explained
    assert "not coco: does not look like " in explained
    assert ("not folder: raw files" in brief, "not csv" in brief, "not coco" in brief) == (True, False, False)
    assert "not csv" not in named
