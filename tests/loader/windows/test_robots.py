"""Batches of LeRobot datasets have the frames of LeRobot's own reader, in wdsctl's order."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.loader.running import digests, ids, raising_worker_config, save_state_after, take_batches, take_rounds
from tests.prepare_requests import prepare_request
from tests.remote import upload_shards
from tests.robots import CAMERAS, FPS, IN_TABLES, LENGTHS, RobotReader, frame_pixels, make_v21, make_v30, write_video
from wdsctl import Dataset
from wdsctl.core.errors import LoaderError, SampleFailed, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import prepare
from wdsctl.loader import (
    DefaultTaskEncoder,
    Loader,
    SampleDecoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
)

pytestmark = pytest.mark.usefixtures("faulty_store")

WINDOWS: dict[str, list[float]] = {
    "action": [0, 0.1, 0.2, 0.3],
    "observation.state": [-0.2],
    "next.done": [-0.1, 0.5],
    "timestamp": [-0.1, 0.0, 0.1],
    CAMERAS[0]: [-0.3, -0.1, 0.0, 0.8],
    CAMERAS[1]: [0.1],
    IN_TABLES: [-0.1, 0.0],
}


@pytest.fixture(scope="module", params=["v2.1", "v3.0"])
def robots(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("robots") / "set"
    path = (make_v21 if request.param == "v2.1" else make_v30)(root, has_images=True)
    prepare(path, None, prepare_request())
    return path


def training(root: str, rank: int = 0, world: int = 1, workers: int = 0, **options: Any) -> Loader:
    settings = {"delta_timestamps": WINDOWS, "batch_size": 4, "shuffle_buffer_size": 8, **options}
    config = WorkerConfig(rank, world, num_workers=workers)
    return get_loader(get_train_dataset(root, worker_config=config, **settings))


def samples(root: str, windows: Mapping[str, Sequence[float]] | None, **options: Any) -> list[Any]:
    dataset = get_val_dataset(
        root,
        split_part="train",
        delta_timestamps=windows,
        worker_config=raising_worker_config(),
        batch_size=None,
        **options,
    )
    return list(get_loader(dataset))


@pytest.mark.parametrize("windows", [WINDOWS, None], ids=["windows", "frames"])
def test_every_frame_equals_that_of_lerobot_reader(robots: str, windows: dict[str, list[float]] | None) -> None:
    reader = RobotReader(robots)
    found = samples(robots, windows)
    assert len(found) == sum(LENGTHS)
    for i, sample in enumerate(found):
        expected = reader.item(i, windows or {})
        assert {name for name in sample if not name.startswith("__")} == expected.keys()
        for name, values in expected.items():
            if name == "task":
                assert sample[name] == values
            else:
                assert sample[name].numpy().dtype == values.dtype, name
                np.testing.assert_array_equal(sample[name].numpy(), values, err_msg=f"{i} {name}")


def test_dataset_returns_frames_by_position_and_key(robots: str) -> None:
    reader = RobotReader(robots)
    frames = Dataset(robots, delta_timestamps=WINDOWS)
    i = LENGTHS[0] + 2
    copy = pickle.loads(pickle.dumps(frames))  # noqa: S301 - our own
    for sample in (frames[i], frames["episode_000001/000002"], copy[i]):
        for name, values in reader.item(i, WINDOWS).items():
            if name != "task":
                np.testing.assert_array_equal(sample[name].numpy(), values, err_msg=name)
    assert Dataset(robots, crude=True)[i]["json"]["frame_index"] == 2
    with pytest.raises(UsageError, match="needs decoded frames"):
        Dataset(robots, crude=True, delta_timestamps=WINDOWS)


def test_batches_stack_windows_and_pads(robots: str) -> None:
    batch = next(iter(training(robots)))
    assert batch["action"].shape == (4, 4, 2)
    assert batch["action_is_pad"].dtype == torch.bool
    assert batch[CAMERAS[0]].shape == (4, 4, 3, 32, 48)
    assert len(batch["task"]) == 4
    assert batch["__key__"][0].startswith("episode_00000")


@pytest.mark.parametrize("workers", [0, 2])
def test_training_on_windows_resumes_exactly(robots: str, workers: int) -> None:
    whole = digests(training(robots), 9)
    loader = training(robots, workers=workers)
    state = save_state_after(loader, 4)
    resumed = training(robots, workers=2 - workers)
    resumed.load_state_dict(state)
    assert digests(resumed, 5) == whole[4:]


def test_two_ranks_have_samples_of_one_rank(robots: str) -> None:
    alone = take_batches(training(robots, lanes=4), 8)
    joint = take_rounds([training(robots, rank, 2, lanes=4) for rank in range(2)], 4)
    assert sorted(map(repr, ids(alone))) == sorted(map(repr, ids(joint)))


def test_window_is_clamped_to_its_episode(robots: str) -> None:
    wide = samples(robots, {"index": [-5.0, 0, 5.0]})
    firsts = np.cumsum([0, *LENGTHS])
    for sample in wide:
        episode = int(sample["episode_index"])
        assert sample["index"].tolist() == [firsts[episode], int(sample["index"][1]), firsts[episode + 1] - 1]


def test_decoder_can_return_frames_as_bytes(robots: str) -> None:
    class Bytes(DefaultTaskEncoder[Any, Any, Any, Any]):
        decoder = SampleDecoder(image_decode="torchrgb8")

    as_bytes = samples(robots, None, task_encoder=Bytes())
    as_floats = samples(robots, None)
    assert as_bytes[3][CAMERAS[0]].dtype == torch.uint8
    assert torch.equal(as_bytes[3][CAMERAS[0]].float() / 255, as_floats[3][CAMERAS[0]])


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ({"action": [0, 0.05]}, "0.05 s is no multiple of 1/10 s"),
        ({"acton": [0]}, "no feature 'acton'"),
        ({"task": [0]}, "no feature 'task'"),
        ({"action": []}, r"delta_timestamps\['action'\] is \[\]"),
        ({"action": 0.1}, "is 0.1"),
        ({"action": [float("nan")]}, "no number of seconds"),
        ([0.1], r"is \[0.1\]"),
    ],
)
def test_invalid_delta_timestamps_are_refused(robots: str, windows: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        take_batches(training(robots, delta_timestamps=windows), 1)


def test_larger_tolerance_accepts_less_exact_times(robots: str) -> None:
    with pytest.raises(UsageError, match="multiple"):
        take_batches(training(robots, delta_timestamps={"action": [0.09995]}, tolerance_s=1e-5), 1)
    exact = samples(robots, {"action": [0.1]})
    rounded = samples(robots, {"action": [0.09995]})
    assert all(torch.equal(a["action"], b["action"]) for a, b in zip(exact, rounded, strict=True))


def test_state_of_other_windows_is_refused(robots: str) -> None:
    state = save_state_after(training(robots), 2)
    other = training(robots, delta_timestamps={"action": [0]})
    with pytest.raises(LoaderError):
        other.load_state_dict(state, strict=True)


def test_shortened_video_fails_with_sample_key_and_file(tmp_path: Path) -> None:
    root = make_v21(tmp_path / "set")
    prepare(root, None, prepare_request())
    path = Path(root) / f"videos/chunk-000/{CAMERAS[0]}/episode_000001.mp4"
    write_video(path, frame_pixels(0, 1, LENGTHS[1] - 2))
    with pytest.raises(SampleFailed, match=r"no frame of the video is at 0\.5") as error:
        samples(root, None)
    assert "episode_000001/000005" in error.value.where
    assert "episode_000001.mp4" in error.value.where


@pytest.mark.parametrize("path", ["../else.mp4", "/etc/hostname", "frames/link.mp4"])
def test_video_path_outside_dataset_is_refused(tmp_path: Path, path: str) -> None:
    root = make_v21(tmp_path / "set")
    frames = Path(root) / "frames/chunk-000/episode_000000.jsonl"
    prepare(root, None, prepare_request())
    (tmp_path / "else.mp4").write_bytes(b"")
    (frames.parents[1] / "link.mp4").symlink_to(tmp_path / "else.mp4")
    first = frames.read_text().splitlines()[0]
    original = f"videos/chunk-000/{CAMERAS[0]}/episode_000000.mp4"
    frames.write_text(first.replace(original, path) + "\n")
    index(root)
    with pytest.raises(SampleFailed) as error:
        samples(root, None)
    assert error.value.code == "WDS552"


def test_videos_and_rows_are_read_from_url(robots: str) -> None:
    url = "faulty://store/robots"
    upload_shards(robots, url, "*.jsonl")
    upload_shards(robots, url, "*.mp4")
    upload_shards(robots, url, "*.images")
    expected = digests(training(robots, max_samples_per_sequence=8), 7)
    assert digests(training(url, catalog=f"{robots}/.wdsctl", max_samples_per_sequence=8), 7) == expected


def test_video_with_other_rate_fails_where_no_frame_is_near(tmp_path: Path) -> None:
    root = make_v21(tmp_path / "set")
    prepare(root, None, prepare_request())
    path = Path(root) / f"videos/chunk-000/{CAMERAS[0]}/episode_000000.mp4"
    write_video(path, frame_pixels(0, 0, LENGTHS[0]), fps=FPS - 1)
    with pytest.raises(SampleFailed, match=r"no frame of the video is at 0\.1.*nearest frame is at"):
        samples(root, None)


def test_missing_video_is_reported_by_name(tmp_path: Path) -> None:
    root = make_v21(tmp_path / "set")
    prepare(root, None, prepare_request())
    video = next(Path(root, "videos").rglob("episode_000000.mp4"))
    video.unlink()
    with pytest.raises(SampleFailed, match=r"the video 'videos/.*' is missing") as error:
        Dataset(root)["episode_000000/000000"]
    assert error.value.code == "WDS550"
    assert "validate" in error.value.hint
