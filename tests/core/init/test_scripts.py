"""Each script runs as written in a separate process: it trains, saves, resumes at the right step and validates."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import wdsctl
from tests import children
from tests.core.init.datasets import SOURCES, make_dataset
from tests.robots import CAMERAS, make_v30
from wdsctl.core.init.init import init

#: One thread: on a machine with few processors, more threads would wait for one another.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(folder: Path, *options: str, ranks: int = 1, is_fresh: bool = False) -> str:
    """What the script prints, in a fork of a process that has imported torch, or in a fresh Python."""
    script = [str(folder / "train.py"), *options]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    command = [sys.executable, *launcher, *script]
    start = subprocess.run if is_fresh else partial(children.run, parent="training")
    result = start(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return str(result.stdout)


def losses(output: str) -> dict[int, float]:
    return {int(step): float(loss) for step, loss in re.findall(r"^step (\d+)  loss (\S+)$", output, re.MULTILINE)}


def write(tmp_path: Path, name: str, split: str = "train=2,val=1") -> Path:
    root = make_dataset(tmp_path / "data set", name, split=split)
    report = init(root, str(tmp_path / "run"), box_format="xywh" if name == "detect" else None)
    assert report.kind == name.split(maxsplit=1)[0]
    return tmp_path / "run"


def check_trains_and_resumes(folder: Path) -> None:
    options = ("--workers", "0", "--batch-size", "2")  # the models of default size take seconds for larger batches
    first = run(folder, "--steps", "2", *options)
    assert list(losses(first)) == [1, 2]
    assert re.search(r"^step 2  validation loss \d+\.\d+$", first, re.MULTILINE)
    assert "0 failed" in first
    second = run(folder, "--steps", "4", *options)
    assert second.startswith("resumed after step 2 ")
    assert list(losses(second)) == [4]
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "blend.yaml", "checkpoint.pt", "train.py"]


@pytest.mark.parametrize("name", SOURCES)
def test_script_trains_and_resumes(name: str, tmp_path: Path) -> None:
    check_trains_and_resumes(write(tmp_path, name))


@pytest.mark.parametrize("has_video", [True, False])
def test_robot_script_trains_and_resumes(has_video: bool, tmp_path: Path) -> None:
    root = make_v30(tmp_path / "robot", cameras=CAMERAS if has_video else ())
    wdsctl.prepare(root, split="train=2,val=1", workers=1)
    report = init(root, str(tmp_path / "run"))
    assert (report.kind, report.val_split) == ("robot", "val")
    check_trains_and_resumes(tmp_path / "run")


def test_resumed_run_has_same_losses_as_uninterrupted_run(tmp_path: Path) -> None:
    folder = write(tmp_path, "text")
    options = ("--every", "1", "--workers", "1", "--batch-size", "2")
    whole = losses(run(folder, "--steps", "4", *options, "--checkpoint", str(tmp_path / "whole.pt")))
    parts = losses(run(folder, "--steps", "2", *options)) | losses(run(folder, "--steps", "4", *options))
    assert whole == parts
    assert list(whole) == [1, 2, 3, 4]


def test_script_without_validation_split_only_trains(tmp_path: Path) -> None:
    folder = write(tmp_path, "classify", split="train=1")
    assert "val:" not in (folder / "blend.yaml").read_text().replace("# ", "")
    output = run(folder, "--steps", "2", "--workers", "0", is_fresh=True)
    assert list(losses(output)) == [1, 2]
    assert "validation" not in output


def test_polylithic_script_trains(tmp_path: Path) -> None:
    wdsctl.convert(make_dataset(tmp_path / "data", "vlm"), tmp_path / "poly", layout="polylithic", media="png")
    init(str(tmp_path / "poly"), str(tmp_path / "run"))
    output = run(tmp_path / "run", "--steps", "1", "--workers", "0", "--batch-size", "2")
    assert "step 1  validation loss" in output
    assert "0 failed" in output


def test_script_trains_on_two_ranks_and_resumes_on_one(tmp_path: Path) -> None:
    folder = write(tmp_path, "vlm")
    output = run(folder, "--steps", "2", "--workers", "0", "--batch-size", "2", ranks=2)
    assert list(losses(output)) == [1, 2]  # only the first rank prints
    assert "resumed after step 2" in run(folder, "--steps", "3", "--workers", "0", "--batch-size", "2")


def test_script_refuses_checkpoint_of_other_data(tmp_path: Path) -> None:
    folder = write(tmp_path, "captions")
    run(folder, "--steps", "1", "--workers", "0")
    make_dataset(tmp_path / "other", "captions", split="train=1")
    blend = folder / "blend.yaml"
    blend.write_text(blend.read_text().replace("data set", "other"))
    result = children.run(
        [sys.executable, str(folder / "train.py")],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        parent="training",
    )
    assert result.returncode == 1
    assert result.stderr.startswith("error: WDS501")


@pytest.mark.parametrize("options", [("--steps", "0"), ("--workers", "-1")])
def test_script_refuses_invalid_options(options: tuple[str, ...], tmp_path: Path) -> None:
    folder = write(tmp_path, "classify")
    result = children.run(
        [sys.executable, str(folder / "train.py"), *options],
        capture_output=True,
        text=True,
        check=False,
        parent="training",
    )
    assert result.returncode == 2
    assert "must be at least" in result.stderr
