"""Batches of LeRobot datasets: what LeRobot's own reader gives for each frame, in wdsctl's order."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.loader.running import digests, ids, rounds, saved_after, strict, taken
from tests.preparing import prepare_request
from tests.remote import uploaded
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
    made = (make_v21 if request.param == "v2.1" else make_v30)(root, has_images=True)
    prepare(made, None, prepare_request())
    return made


def training(root: str, rank: int = 0, world: int = 1, workers: int = 0, **options: Any) -> Loader:
    given = {"delta_timestamps": WINDOWS, "batch_size": 4, "shuffle_buffer_size": 8, **options}
    config = WorkerConfig(rank, world, num_workers=workers)
    return get_loader(get_train_dataset(root, worker_config=config, **given))


def samples(root: str, windows: Mapping[str, Sequence[float]] | None, **options: Any) -> list[Any]:
    dataset = get_val_dataset(
        root, split_part="train", delta_timestamps=windows, worker_config=strict(), batch_size=None, **options
    )
    return list(get_loader(dataset))


@pytest.mark.parametrize("windows", [WINDOWS, None], ids=["windows", "frames"])
def test_every_frame_is_what_lerobot_reads(robots: str, windows: dict[str, list[float]] | None) -> None:
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


def test_a_dataset_gives_frames_by_position_and_by_key(robots: str) -> None:
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
def test_a_resumed_training_goes_on_exactly(robots: str, workers: int) -> None:
    whole = digests(training(robots), 9)
    loader = training(robots, workers=workers)
    state = saved_after(loader, 4)
    resumed = training(robots, workers=2 - workers)
    resumed.load_state_dict(state)
    assert digests(resumed, 5) == whole[4:]


def test_ranks_have_the_batches_of_one_rank(robots: str) -> None:
    alone = taken(training(robots, lanes=4), 8)
    together = rounds([training(robots, rank, 2, lanes=4) for rank in range(2)], 4)
    assert sorted(map(repr, ids(alone))) == sorted(map(repr, ids(together)))


def test_a_window_is_of_the_episode_whatever_a_split_or_view_selects(robots: str) -> None:
    wide = samples(robots, {"index": [-5.0, 0, 5.0]})
    firsts = np.cumsum([0, *LENGTHS])
    for sample in wide:
        episode = int(sample["episode_index"])
        assert sample["index"].tolist() == [firsts[episode], int(sample["index"][1]), firsts[episode + 1] - 1]


def test_frames_may_be_bytes(robots: str) -> None:
    class Bytes(DefaultTaskEncoder[Any, Any, Any, Any]):
        decoder = SampleDecoder(image_decode="torchrgb8")

    as_bytes = samples(robots, None, task_encoder=Bytes())
    as_floats = samples(robots, None)
    assert as_bytes[3][CAMERAS[0]].dtype == torch.uint8
    assert torch.equal(as_bytes[3][CAMERAS[0]].float() / 255, as_floats[3][CAMERAS[0]])


@pytest.mark.parametrize(
    ("windows", "told"),
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
def test_windows_that_cannot_be_are_refused(robots: str, windows: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        taken(training(robots, delta_timestamps=windows), 1)


def test_a_larger_tolerance_takes_times_that_are_less_exact(robots: str) -> None:
    with pytest.raises(UsageError, match="multiple"):
        taken(training(robots, delta_timestamps={"action": [0.09995]}, tolerance_s=1e-5), 1)
    exact = samples(robots, {"action": [0.1]})
    rounded = samples(robots, {"action": [0.09995]})
    assert all(torch.equal(a["action"], b["action"]) for a, b in zip(exact, rounded, strict=True))


def test_other_windows_are_another_recipe(robots: str) -> None:
    state = saved_after(training(robots), 2)
    other = training(robots, delta_timestamps={"action": [0]})
    with pytest.raises(LoaderError):
        other.load_state_dict(state, strict=True)


def test_a_video_that_became_shorter_fails_its_samples_by_name(tmp_path: Path) -> None:
    root = make_v21(tmp_path / "set")
    prepare(root, None, prepare_request())
    path = Path(root) / f"videos/chunk-000/{CAMERAS[0]}/episode_000001.mp4"
    write_video(path, frame_pixels(0, 1, LENGTHS[1] - 2))
    with pytest.raises(SampleFailed, match=r"no frame of the video is at 0\.5") as error:
        samples(root, None)
    assert "episode_000001/000005" in error.value.where
    assert "episode_000001.mp4" in error.value.where


@pytest.mark.parametrize("path", ["../else.mp4", "/etc/hostname", "frames/link.mp4"])
def test_a_line_names_no_video_outside_of_the_dataset(tmp_path: Path, path: str) -> None:
    root = make_v21(tmp_path / "set")
    frames = Path(root) / "frames/chunk-000/episode_000000.jsonl"
    prepare(root, None, prepare_request())
    (tmp_path / "else.mp4").write_bytes(b"")
    (frames.parents[1] / "link.mp4").symlink_to(tmp_path / "else.mp4")
    first = frames.read_text().splitlines()[0]
    was = f"videos/chunk-000/{CAMERAS[0]}/episode_000000.mp4"
    frames.write_text(first.replace(was, path) + "\n")
    index(root)
    with pytest.raises(SampleFailed) as error:
        samples(root, None)
    assert error.value.code == "WDS552"


def test_videos_and_rows_are_read_at_a_url(robots: str) -> None:
    url = "faulty://store/robots"
    uploaded(robots, url, "*.jsonl")
    uploaded(robots, url, "*.mp4")
    uploaded(robots, url, "*.images")
    here = digests(training(robots, max_samples_per_sequence=8), 7)
    assert digests(training(url, catalog=f"{robots}/.wdsctl", max_samples_per_sequence=8), 7) == here


def test_a_video_at_another_rate_fails_where_no_frame_is_near(tmp_path: Path) -> None:
    root = make_v21(tmp_path / "set")
    prepare(root, None, prepare_request())
    path = Path(root) / f"videos/chunk-000/{CAMERAS[0]}/episode_000000.mp4"
    write_video(path, frame_pixels(0, 0, LENGTHS[0]), fps=FPS - 1)
    with pytest.raises(SampleFailed, match=r"no frame of the video is at 0\.1.*nearest frame is at"):
        samples(root, None)


def test_a_missing_video_is_named_and_not_called_a_store(tmp_path: Path) -> None:
    root = make_v21(tmp_path / "set")
    prepare(root, None, prepare_request())
    video = next(Path(root, "videos").rglob("episode_000000.mp4"))
    video.unlink()
    with pytest.raises(SampleFailed, match=r"the video 'videos/.*' is missing") as error:
        Dataset(root)["episode_000000/000000"]
    assert error.value.code == "WDS550"
    assert "validate" in error.value.hint
