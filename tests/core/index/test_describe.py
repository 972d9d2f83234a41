from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import RecordingProgress, some_shards, split_by_ratios
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.errors import DatasetError
from wdsctl.core.index.index import index
from wdsctl.core.index.write_dataset_yaml import SampleTypeRequest, set_aside_broken_config, write_dataset_yaml
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.split_rules.rule import SplitRule

BROKEN = "sample_type: [\n"


def make_indexed_dataset(root: Path) -> DatasetLocation:
    index(some_shards(root, 10))
    return locate(str(root))


def run_write_dataset_yaml(
    place: DatasetLocation, request: SampleTypeRequest, progress: Progress = SILENT_PROGRESS
) -> tuple[object, bool]:
    with OpenDataset(place) as dataset:
        return write_dataset_yaml(dataset, 1, request, progress)


def test_broken_dataset_yaml_is_refused_without_sample_type_request(tmp_path: Path) -> None:
    place, progress = make_indexed_dataset(tmp_path), RecordingProgress()
    Path(place.config_path).write_text(BROKEN)

    with pytest.raises(DatasetError) as caught:
        set_aside_broken_config(OpenDataset(place), SampleTypeRequest(), progress)
    assert (caught.value.code, Path(place.config_path).read_text(), progress.notes) == ("WDS220", BROKEN, [])


@pytest.mark.parametrize(
    "type_request", [SampleTypeRequest(redetect=True), SampleTypeRequest(sample_type="CrudeSample")]
)
def test_broken_dataset_yaml_is_set_aside_and_new_one_gets_split(
    tmp_path: Path, type_request: SampleTypeRequest
) -> None:
    place, progress = make_indexed_dataset(tmp_path), RecordingProgress()
    split_by_ratios(place.root, {"train": 8, "val": 2})
    for n in (1, 2):
        Path(place.config_path).write_text(BROKEN)
        set_aside_broken_config(OpenDataset(place), type_request, progress)
        _, is_new = run_write_dataset_yaml(place, type_request, progress)

        assert is_new
        assert Path(f"{place.config_path}.broken-{n}").read_text() == BROKEN
        assert f"dataset.yaml.broken-{n}" in progress.notes[n - 1]
        assert load_config(place.config_path).split == SplitRule({"train": 8, "val": 2}, "shard", 0)


def test_existing_dataset_yaml_is_kept_without_sample_type_request(tmp_path: Path) -> None:
    place = make_indexed_dataset(tmp_path)
    Path(place.config_path).write_text("sample_type: CrudeSample  # mine\n")
    set_aside_broken_config(OpenDataset(place), SampleTypeRequest(), RecordingProgress())

    assert run_write_dataset_yaml(place, SampleTypeRequest()) == (None, False)
    assert Path(place.config_path).read_text() == "sample_type: CrudeSample  # mine\n"


def test_redetect_removes_sample_loader_and_part_filter(tmp_path: Path) -> None:
    place = make_indexed_dataset(tmp_path)
    Path(place.config_path).write_text("sample_type: TextSample\nsample_loader: a.py:f\npart_filter: [txt]\n")

    run_write_dataset_yaml(place, SampleTypeRequest(redetect=True))

    assert load_config(place.config_path).sample_loader == ""
    assert load_config(place.config_path).part_filter == ()
