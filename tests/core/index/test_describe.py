from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import Told, some_shards
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.dataset.split_rules import SplitRule
from wdsctl.core.errors import DatasetError
from wdsctl.core.index.index import index
from wdsctl.core.index.write_dataset_yaml import SampleTypeRequest, set_aside_broken_config, write_dataset_yaml
from wdsctl.core.split.split import split_by_ratios

BROKEN = "sample_type: [\n"


def an_indexed(root: Path) -> DatasetLocation:
    index(some_shards(root, 10))
    return locate(str(root))


def test_a_broken_dataset_yaml_is_refused_unless_another_is_asked_for(tmp_path: Path) -> None:
    place, told = an_indexed(tmp_path), Told()
    Path(place.dataset_yaml).write_text(BROKEN)

    with pytest.raises(DatasetError) as caught:
        set_aside_broken_config(place, SampleTypeRequest(), told)
    assert (caught.value.code, Path(place.dataset_yaml).read_text(), told.notes) == ("WDS220", BROKEN, [])


@pytest.mark.parametrize("asked", [SampleTypeRequest(redetect=True), SampleTypeRequest(sample_type="CrudeSample")])
def test_a_broken_dataset_yaml_is_set_aside_and_the_split_goes_into_the_new_one(
    tmp_path: Path, asked: SampleTypeRequest
) -> None:
    place, told = an_indexed(tmp_path), Told()
    split_by_ratios(place.root, {"train": 8, "val": 2})
    for n in (1, 2):
        Path(place.dataset_yaml).write_text(BROKEN)
        set_aside_broken_config(place, asked, told)
        _, is_new = write_dataset_yaml(place, 1, asked, told)

        assert is_new
        assert Path(f"{place.dataset_yaml}.broken-{n}").read_text() == BROKEN
        assert f"dataset.yaml.broken-{n}" in told.notes[n - 1]
        assert load_config(place.dataset_yaml).split == SplitRule({"train": 8, "val": 2}, "shard", 0)


def test_a_file_that_is_there_is_left_alone_unless_another_is_asked_for(tmp_path: Path) -> None:
    place = an_indexed(tmp_path)
    Path(place.dataset_yaml).write_text("sample_type: CrudeSample  # mine\n")
    set_aside_broken_config(place, SampleTypeRequest(), Told())

    assert write_dataset_yaml(place, 1, SampleTypeRequest(), Told()) == (None, False)
    assert Path(place.dataset_yaml).read_text() == "sample_type: CrudeSample  # mine\n"


def test_another_description_leaves_no_code_beside_its_field_map(tmp_path: Path) -> None:
    place = an_indexed(tmp_path)
    Path(place.dataset_yaml).write_text("sample_type: TextSample\nsample_loader: a.py:f\npart_filter: [txt]\n")

    write_dataset_yaml(place, 1, SampleTypeRequest(redetect=True), Told())

    assert load_config(place.dataset_yaml).sample_loader == ""
    assert load_config(place.dataset_yaml).part_filter == ()
