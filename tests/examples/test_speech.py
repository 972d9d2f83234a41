"""The example of a transcription training: its data, its batches by duration, and its resume."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import children
from tests.docs.pages import ROOT, blocks
from tests.examples.loading import EXAMPLES, load_script
from wdsctl.cli.main import main
from wdsctl.loader import get_loader, get_train_dataset, get_val_dataset
from wdsctl.loader.packing import Buckets


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("speech") / "data"
    assert load_script("speech", "make_speech").main([str(folder), "--samples", "60"]) == 0
    return folder


@pytest.fixture(scope="module")
def dataset(data: Path) -> str:
    shards = str(data.parent / "shards")
    for command in (
        ["prepare", str(data / "transcripts.csv"), shards, "--split", "8,2", "--media", "--no-input"],
        ["index", shards, "--column", "ms=media:wav:duration_ms"],
    ):
        assert main(command) == 0
    return shards


def test_make_speech_is_reproducible(data: Path, tmp_path: Path) -> None:
    load_script("speech", "make_speech").main([str(tmp_path), "--samples", "60"])

    def content(folder: Path) -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    assert content(tmp_path) == content(data)


def test_every_transcript_has_its_recording(data: Path, dataset: str) -> None:
    speech = load_script("speech", "train_speech")
    with open(data / "transcripts.csv", encoding="utf-8", newline="") as file:
        truth = {row["audio"].removesuffix(".wav"): row["text"] for row in csv.DictReader(file)}

    found: dict[str, tuple[str, int]] = {}
    for split in ("train", "val"):
        for sample in get_loader(get_val_dataset(dataset, split_part=split, task_encoder=speech.Encoder())):
            text = " ".join(speech.WORDS[word - 1] for word in sample.words.tolist())
            found[sample.__key__] = text, len(sample.sound)

    assert {key: text for key, (text, _) in found.items()} == truth
    for key, (_, length) in found.items():
        assert 44 + 2 * length == (data / f"{key}.wav").stat().st_size


def test_recordings_of_batch_belong_to_one_bucket(dataset: str) -> None:
    speech = load_script("speech", "train_speech")
    buckets = Buckets(of="ms", edges=speech.EDGES_MS, max_tokens=speech.BATCH_MS)
    stream = get_train_dataset(dataset, task_encoder=speech.Encoder(), buckets=buckets)

    with get_loader(stream) as loader:
        batches: list[Any] = [batch for _, batch in zip(range(12), loader, strict=False)]

    for batch in batches:
        milliseconds = (1000 * batch.sound_length / speech.RATE).tolist()
        (edge,) = {sum(each > edge for edge in speech.EDGES_MS) for each in milliseconds}
        assert len(batch.sound) * speech.EDGES_MS[edge] <= speech.BATCH_MS
    assert len({len(batch.sound) for batch in batches}) > 1


def test_training_resumes_with_same_losses(
    dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def steps_of(*arguments: str) -> list[str]:
        capsys.readouterr()
        assert load_script("speech", "train_speech").main([dataset, "--save-every", "2", *arguments]) == 0
        return [line for line in capsys.readouterr().out.splitlines() if line.startswith("step")]

    truth = steps_of("--steps", "5", "--checkpoint", "one.pt")
    first = steps_of("--steps", "3", "--checkpoint", "two.pt")
    second = steps_of("--steps", "5", "--checkpoint", "two.pt", "--workers", "1")

    assert first == truth[:3]
    assert second == truth[2:]


def test_page_shows_code_of_example() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (EXAMPLES / "speech").glob("*.py"))
    page_blocks = [block for block in blocks(ROOT / "docs" / "speech.md") if block.language == "python"]

    assert page_blocks
    for block in page_blocks:
        missing = [line for line in block.text.splitlines() if line.strip() and line.strip() not in code]
        assert missing == [], str(block)


@pytest.mark.slow
def test_make_demo_speech_succeeds() -> None:
    completed = children.run(
        [sys.executable, str(EXAMPLES / "demo_speech.py"), "--steps", "60"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        parent="training",
    )

    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert completed.stdout.count("yes: ") == 2
