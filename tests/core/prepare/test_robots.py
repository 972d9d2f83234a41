"""`prepare` of LeRobot datasets works in place, keeps episodes together, and adds new episodes later."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.prepare_requests import prepare_request
from tests.robots import CAMERAS, IN_TABLES, LENGTHS, make_v21, make_v30
from wdsctl import Dataset
from wdsctl.core.dataset.config import dump_config, load_config, parse_config
from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.loader import get_loader, get_val_dataset


def keys(root: str, split: str) -> list[str]:
    return [sample["__key__"] for sample in Dataset(root, split=split)]


def contents(root: str) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}


def test_lerobot_dataset_is_prepared_in_place_without_changing_its_files(tmp_path: Path) -> None:
    root = make_v30(tmp_path / "set")
    before = contents(root)
    report = prepare(root, None, prepare_request())
    after = contents(root)
    assert report.robot is not None
    assert (report.robot.episodes, report.robot.frames, report.robot.videos, report.robot.written) == (3, 28, 4, 2)
    assert report.index is not None
    assert report.index.samples == sum(LENGTHS)
    assert {name: after[name] for name in before} == before
    new = {name for name in after if name not in before and not name.startswith(".wdsctl")}
    assert new == {"frames/chunk-000/file-000.jsonl", "frames/chunk-000/file-001.jsonl"}


def test_second_run_writes_nothing(tmp_path: Path) -> None:
    root = make_v21(tmp_path / "set", cameras=())
    prepare(root, None, prepare_request(split={"train": 2, "val": 1}))
    second = prepare(root, None, prepare_request(split={"train": 2, "val": 1}))
    assert second.robot is not None
    assert second.robot.written == 0
    assert second.up_to_date


def test_frames_of_an_episode_are_in_one_split(tmp_path: Path) -> None:
    root = make_v30(tmp_path / "set", lengths=(5, 4, 3, 6, 2, 5), cameras=())
    prepare(root, None, prepare_request(split={"train": 1, "val": 1}))
    train, val = ({key.split("/")[0] for key in keys(root, name)} for name in ("train", "val"))
    assert train
    assert val
    assert not train & val
    report = prepare(root, None, prepare_request(split={"train": 1, "test": 1}, allow_split_changes=True))
    assert report.split is not None
    assert {split.name for split in report.split.splits} == {"train", "test"}


def test_new_episodes_are_added(tmp_path: Path) -> None:
    small, large = (
        make_v21(tmp_path / name, lengths, cameras=()) for name, lengths in (("a", (4, 5)), ("b", (4, 5, 6)))
    )
    prepare(small, None, prepare_request())
    for name in ("meta", "data"):
        shutil.copytree(Path(large) / name, Path(small) / name, dirs_exist_ok=True)
    report = prepare(small, None, prepare_request())
    assert report.robot is not None
    assert (report.robot.written, report.robot.tables) == (1, 3)
    assert len(keys(small, "train")) == 15


def test_frames_of_missing_table_are_refused(tmp_path: Path) -> None:
    large = make_v21(tmp_path / "a", (4, 5, 6), cameras=())
    prepare(large, None, prepare_request())
    small = make_v21(tmp_path / "b", (4, 5), cameras=())
    shutil.copytree(Path(small) / "meta", Path(large) / "meta", dirs_exist_ok=True)
    with pytest.raises(InputError, match=r"frames/chunk-000/episode_000002.jsonl belongs to no table"):
        prepare(large, None, prepare_request())


def test_dry_run_checks_tables_and_writes_nothing(tmp_path: Path) -> None:
    root = make_v21(tmp_path / "set", cameras=CAMERAS[:1])
    before = contents(root)
    report = prepare(root, None, prepare_request(dry_run=True))
    assert report.robot is not None
    assert report.robot.frames == sum(LENGTHS)
    assert contents(root) == before
    (Path(root) / "data/chunk-000/episode_000002.parquet").write_bytes(b"PAR1")
    with pytest.raises(DatasetError, match="damaged"):
        prepare(root, None, prepare_request(dry_run=True))


def test_dropped_features_are_absent_and_must_stay_dropped(tmp_path: Path) -> None:
    root = make_v21(tmp_path / "set", cameras=CAMERAS[:1])
    prepare(root, None, prepare_request(format_options={"drop": f"{CAMERAS[0]},action"}))
    sample = next(iter(get_loader(get_val_dataset(root, split_part="train", batch_size=None))))
    assert "action" not in sample
    assert CAMERAS[0] not in sample
    with pytest.raises(InputError, match="describes other frames"):
        prepare(root, None, prepare_request())


def test_inapplicable_options_are_refused(tmp_path: Path) -> None:
    root = make_v21(tmp_path / "set", cameras=())
    with pytest.raises(UsageError, match="prepared in place"):
        prepare(root, str(tmp_path / "dest"), prepare_request())
    with pytest.raises(UsageError, match="--sample-type does not apply"):
        prepare(root, None, prepare_request(sample_type="TextSample"))
    with pytest.raises(UsageError, match="no option 'key'"):
        prepare(root, None, prepare_request(format_options={"key": "x"}))
    with pytest.raises(UsageError, match="tolerance_s=x"):
        prepare(root, None, prepare_request(format_options={"tolerance_s": "x"}))


def test_tolerance_option_accepts_jittering_timestamps(tmp_path: Path) -> None:
    root = make_v21(tmp_path / "set", cameras=(), fps=3)
    path = Path(root) / "meta/info.json"
    info = json.loads(path.read_text())
    path.write_text(json.dumps(info | {"fps": 3.001}))
    with pytest.raises(DatasetError, match="not evenly spaced"):
        prepare(root, None, prepare_request())
    prepare(root, None, prepare_request(format_options={"tolerance_s": "0.01"}))


def test_sequences_section_of_dataset_yaml_round_trips_and_is_checked(tmp_path: Path) -> None:
    root = make_v21(tmp_path / "set")
    prepare(root, None, prepare_request())
    config = load_config(f"{root}/.wdsctl/dataset.yaml")
    assert config.sequences is not None
    assert config.sequences.features[CAMERAS[0]] == "video"
    assert parse_config(dump_config(config)) == config
    for text, message in (
        ("sequences: {fps: 0}", "fps: expected a positive number, found 0"),
        ("sequences: {fps: 3, features: {a: float31}}", "a: expected a dtype"),
        ("sequences: {rate: 3}", "unknown key 'rate'"),
    ):
        with pytest.raises(DatasetError, match=message):
            parse_config(f"sample_type: CrudeSample\n{text}\n")
    with pytest.raises(DatasetError, match="the sample type is TextSample"):
        parse_config("sample_type: TextSample\nfield_map: {text: txt}\nsequences: {fps: 3}\n")


def image_files(root: str) -> list[Path]:
    return sorted(Path(root, "frames").rglob("*.images"))


def test_images_in_tables_are_copied_once(tmp_path: Path) -> None:
    root = make_v30(tmp_path / "set", cameras=(), has_images=True)
    report = prepare(root, None, prepare_request())
    assert report.robot is not None
    assert [use.becomes for use in report.robot.fields if use.name == IN_TABLES] == ["image"]
    before = [(path, path.stat().st_mtime_ns) for path in image_files(root)]
    assert len(before) == 2
    second = prepare(root, None, prepare_request())
    assert second.up_to_date
    assert [(path, path.stat().st_mtime_ns) for path in image_files(root)] == before


def test_changed_images_replace_their_file(tmp_path: Path) -> None:
    root = make_v21(tmp_path / "set", cameras=(), has_images=True)
    prepare(root, None, prepare_request())
    first, *others = image_files(root)
    path = Path(root, "data/chunk-000/episode_000000.parquet")
    table = pq.read_table(path)
    images = table[IN_TABLES].to_pylist()
    column = pa.array(images[::-1], table.schema.field(IN_TABLES).type)
    pq.write_table(table.set_column(table.schema.get_field_index(IN_TABLES), IN_TABLES, column), path)
    report = prepare(root, None, prepare_request())
    assert report.robot is not None
    assert report.robot.written == 1
    assert first not in image_files(root)
    assert set(others) < set(image_files(root))
    assert len(image_files(root)) == len(others) + 1
    sample = Dataset(root)["episode_000000/000000"]
    last = np.asarray(Image.open(io.BytesIO(images[-1]["bytes"]))).transpose(2, 0, 1).astype(np.float32) / 255
    np.testing.assert_array_equal(sample[IN_TABLES].numpy(), last)


@pytest.mark.parametrize(
    ("column", "code", "message"),
    [
        (pa.array([{"bytes": None, "path": "a.png"}] * LENGTHS[0]), "WDS233", "names the image 'a.png'"),
        (pa.array([b"x"] * (LENGTHS[0] - 1) + [None]), "WDS233", "has no image in a row"),
        (pa.array(["a.png"] * LENGTHS[0]), "WDS234", "has the type string"),
    ],
)
def test_column_without_images_is_refused_before_writing(tmp_path: Path, column: Any, code: str, message: str) -> None:
    root = make_v21(tmp_path / "set", cameras=(), has_images=True)
    path = Path(root, "data/chunk-000/episode_000000.parquet")
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.schema.get_field_index(IN_TABLES), IN_TABLES, column), path)
    with pytest.raises(DatasetError, match=message) as error:
        prepare(root, None, prepare_request())
    assert error.value.code == code
    assert not image_files(root)
