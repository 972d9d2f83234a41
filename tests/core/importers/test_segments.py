"""Rows that name parts of files. The parts are compared with slices of the samples that the test wrote."""

from __future__ import annotations

import csv
import io
import json
import math
import shlex
import wave
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.build import a_folder
from tests.core.formats import describe_source, open_error, read_errors, read_samples
from tests.loader.decoding.av.media import make_audio, make_video
from wdsctl.cli.main import main
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.dataset import Dataset

RATE = 16_000


def sound(seconds: float, seed: int = 0, *, channels: int = 1) -> np.ndarray[Any, np.dtype[np.int16]]:
    """(samples, channels)"""
    noise = np.random.default_rng(seed).integers(-9000, 9000, (round(seconds * RATE), channels))
    return noise.astype("<i2")


def wav(samples: np.ndarray[Any, Any]) -> bytes:
    target = io.BytesIO()
    with wave.open(target, "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    return target.getvalue()


def lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def table(rows: Sequence[Mapping[str, Any]]) -> bytes:
    target = io.StringIO()
    writer = csv.DictWriter(target, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return target.getvalue().encode()


def clips(samples: Mapping[str, Mapping[str, bytes]]) -> list[Any]:
    return [json.loads(parts["json"]).get("clip") for parts in samples.values()]


def nemo(root: Path, rows: Sequence[tuple[Any, ...]], *, seconds: float = 10) -> str:
    """A manifest of NeMo: (offset, duration) of one long file."""
    manifest = [
        {"audio_filepath": "audio/long.wav", "offset": offset, "duration": duration, "text": f"words {i}"}
        for i, (offset, duration) in enumerate(rows)
    ]
    a_folder(root, {"audio/long.wav": wav(sound(seconds)), "manifest.json": lines(manifest)})
    return str(root / "manifest.json")


PARTS = [(0.0, 2.5), (2.5, 3.0), (5.5, 4.5), (1.25, 3.3333)]  # the last one overlaps


@pytest.mark.parametrize("layout", ["", "polylithic"])
def test_loader_returns_the_part_that_a_row_names(tmp_path: Path, layout: Any) -> None:
    report = prepare(nemo(tmp_path / "raw", PARTS), str(tmp_path / "s"), PrepareRequest(layout=layout))
    assert report.field_map == {"audio": "wav", "text": "json[text]", "clip": "json[clip]"}
    found, whole = Dataset(str(tmp_path / "s")), sound(10)
    assert len(found) == len(PARTS)
    for i, (offset, duration) in enumerate(PARTS):
        first = round(offset * RATE)
        expected = whole[first : first + round(duration * RATE)].T
        assert np.array_equal(found[i].audio.get_audio().audio_clips[0].numpy(), expected)
        assert found[i].text == f"words {i}"
        assert found[i].audio.get_audio_duration() == pytest.approx(duration)


@pytest.mark.parametrize(
    ("columns", "rows", "expected"),
    [
        (("start", "end"), [(0, 2.5), ("2.5", 5)], [(0, 2.5), (2.5, 5)]),
        (("start_time", "end_time"), [("00:00:01.5", "00:00:03"), ("0:04", "0:06,25")], [(1.5, 3), (4, 6.25)]),
        (("time_start", "time_end"), [(1, 4), (4, 9.9)], [(1, 4), (4, 9.9)]),
        (("video_start", "video_end"), [(0.1, 0.3), (0.3, 7)], [(0.1, 0.3), (0.3, 7)]),
        (("begin", "end"), [(1, 4), (3, 6)], [(1, 4), (3, 6)]),
        (("onset", "offset"), [(1, 4), (3, 6)], [(1, 4), (3, 6)]),
        (("start_ms", "end_ms"), [(100, 4000), (4000, 9999)], [(0.1, 4), (4, 9.999)]),
        (("StartTime", "EndTime"), [(1, 4), (4, 6)], [(1, 4), (4, 6)]),
        (("offset", "duration"), [(0.1, 0.2), (None, 3), (4, None)], [(0.1, 0.3), (0, 3), (4, None)]),
        (("offset", "duration"), [(1, 4), (None, None)], [(1, 5), (0, None)]),
    ],
)
def test_columns_of_parts_are_known_by_name(
    tmp_path: Path, columns: tuple[str, str], rows: list[Any], expected: list[Any]
) -> None:
    named = [{"file": "a.wav", columns[0]: one, columns[1]: other, "text": "t"} for one, other in rows]
    a_folder(tmp_path, {"a.wav": wav(sound(10)), "rows.jsonl": lines(named)})
    found = clips(read_samples(tmp_path / "rows.jsonl"))
    assert [(clip["start"], clip["end"]) for clip in found] == expected


def test_pair_of_times_is_a_part(tmp_path: Path) -> None:
    rows = [{"video": "v.mp4", "timestamp": [0.5, 1.5], "sentence": "a"}, {"video": "v.mp4", "timestamp": [1, 2]}]
    a_folder(tmp_path, {"v.mp4": make_video("mp4", "h264"), "train.jsonl": lines(rows)})
    assert clips(read_samples(tmp_path / "train.jsonl")) == [{"start": 0.5, "end": 1.5}, {"start": 1, "end": 2}]


def test_table_of_csv_names_parts_of_videos(tmp_path: Path) -> None:
    """As ActivityNet and video grounding: one file, several moments, and the length of the whole file."""
    rows = [
        {"video": "v1.mp4", "start": 0.25, "end": 1.0, "duration": 2.5, "caption": "one"},
        {"video": "v1.mp4", "start": 1.0, "end": 2.5, "duration": 2.5, "caption": "two"},
        {"video": "v2.mp4", "start": 0.0, "end": 2.0, "duration": 2.5, "caption": "three"},
    ]
    video = make_video("mp4", "h264")
    a_folder(tmp_path / "raw", {"videos/v1.mp4": video, "videos/v2.mp4": video, "moments.csv": table(rows)})
    report = prepare(str(tmp_path / "raw"), str(tmp_path / "s"))
    assert report.sample_type == "VideoSample"
    found = Dataset(str(tmp_path / "s"))
    numbers = [range(6, 24), range(24, 60), range(48)]  # at 24 frames a second
    whole = decoded(video)
    for i, expected in enumerate(numbers):
        assert np.array_equal(found[i].video.get_video().video_clips[0].numpy(), whole[list(expected)])


def decoded(video: bytes) -> Any:
    """(frames, 3, height, width), as PyAV gives them from the start."""
    import av

    with av.open(io.BytesIO(video), "r") as file:
        frames = [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]
    return np.stack(frames).transpose(0, 3, 1, 2)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(0, 20), (20, 60)], [(0, 20), (20, 60)]),
        ([(0, 19), (20, 59)], [(0, 20), (20, 60)]),
    ],
)
def test_rows_tell_how_frames_are_counted(tmp_path: Path, rows: list[Any], expected: list[Any]) -> None:
    named = [{"file": "v.mp4", "start_frame": one, "end_frame": other, "text": "t"} for one, other in rows]
    video = make_video("mp4", "h264")
    a_folder(tmp_path / "raw", {"v.mp4": video, "rows.jsonl": lines(named)})
    prepare(str(tmp_path / "raw"), str(tmp_path / "s"))
    found, whole = Dataset(str(tmp_path / "s")), decoded(video)
    for i, (first, end) in enumerate(expected):
        assert np.array_equal(found[i].video.get_video().video_clips[0].numpy(), whole[first:end])


def test_unknown_count_of_frames_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"file": "v.mp4", "start_frame": 5, "end_frame": 20}, {"file": "v.mp4", "start_frame": 30, "end_frame": 40}]
    a_folder(tmp_path / "raw", {"v.mp4": make_video("mp4", "h264"), "rows.jsonl": lines(rows)})
    commands = printed_commands(["prepare", str(tmp_path / "raw"), str(tmp_path / "s"), "--no-input"], "WDS265", capsys)
    assert len(commands) == 3
    starts = []
    for i, command in enumerate(commands):
        words = [word if word != str(tmp_path / "s") else str(tmp_path / f"s{i}") for word in command]
        assert main(words) == 0
        starts.append(json.loads(Dataset(str(tmp_path / f"s{i}"), decode=False)[0]["json"])["clip"])
    assert [tuple(each.values()) for each in starts] == [(5, 20), (5, 21), (4, 20)]


def printed_commands(words: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The commands of the hint of an error."""
    assert main(words) != 0
    text = capsys.readouterr().err
    assert code in text
    hint = " ".join(text[text.index("help:") :].split())
    return [shlex.split(each)[1:] for each in hint.split("`")[1::2] if each.startswith("wdsctl ")]


def kinetics(root: Path, rows: Sequence[tuple[float, float, float]]) -> str:
    """Clips that are cut already: (time_start, time_end, seconds of the file)."""
    named = [{"clip": f"c{i}.wav", "time_start": a, "time_end": b, "label": "x"} for i, (a, b, _) in enumerate(rows)]
    files = {f"c{i}.wav": wav(sound(seconds, i)) for i, (_, _, seconds) in enumerate(rows)}
    a_folder(root, {**files, "train.csv": table(named)})
    return str(root)


def test_files_that_are_cut_already_stay_whole(tmp_path: Path) -> None:
    path = kinetics(tmp_path, [(0, 3, 3), (20, 23, 3.02), (41, 44, 2.7)])
    samples = read_samples(path)
    assert all("clip_range" not in json.loads(parts["json"]) for parts in samples.values())
    (note,) = [each for each in describe_source(path).findings if each.code == "WDS265"]
    assert "cut already" in note.message
    with_clips = read_errors(path, {"segments": "range"})
    assert {i: error.code for i, error in with_clips.items()} == {1: "WDS175", 2: "WDS175"}


def test_column_called_clip_keeps_its_name(tmp_path: Path) -> None:
    rows = [{"clip": "a.wav", "start": 1, "end": 2, "text": "t"}, {"clip": "a.wav", "start": 2, "end": 4, "text": "t"}]
    a_folder(tmp_path / "raw", {"a.wav": wav(sound(5)), "rows.jsonl": lines(rows)})
    report = prepare(str(tmp_path / "raw"), str(tmp_path / "s"))
    assert report.field_map["clip"] == "json[clip_range]"


def test_ranges_outside_of_the_files_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = kinetics(tmp_path / "raw", [(20, 30, 3), (41, 80, 4), (5, 70, 2)])
    commands = printed_commands(["prepare", path, str(tmp_path / "s"), "--no-input"], "WDS265", capsys)
    assert main([*commands[0], "--accept-type"]) == 0  # the label is not in the batch
    assert len(Dataset(str(tmp_path / "s"))) == 3
    assert open_error(path).code == "WDS265"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((9.0, 1.2), "ends after the end of its file"),
        ((12.0, 1.0), "begins after the end of its file"),
        ((-0.5, 1.0), "before the start of the file"),
        ((3.0, 0.0), "has no length"),
        ((3.0, -1.0), "ends before it begins"),
        ((math.nan, 1.0), "not a time"),
        (("soon", 1.0), "not a time"),
        ((True, 1.0), "not a time"),
        (([1], 1.0), "not a time"),
        (("1e999", 1.0), "not a time"),
        ((f"{'9' * 5000}:00:00", 1.0), "not a time"),
        ((f"{'9' * 400}:00:00", 1.0), "not a time"),
    ],
)
def test_row_without_a_part_is_refused(tmp_path: Path, row: Any, words: str) -> None:
    path = nemo(tmp_path / "raw", [*PARTS, row])
    errors = read_errors(path)
    assert {i: error.code for i, error in errors.items()} == {len(PARTS): "WDS175"}
    assert words in errors[len(PARTS)].message
    assert errors[len(PARTS)].where.endswith(f":{len(PARTS) + 1}")
    report = prepare(path, str(tmp_path / "s"))
    assert report.conversion is not None
    assert report.conversion.failed == 1
    assert [(each.severity, each.count) for each in report.conversion.findings if each.code == "WDS175"] == [
        ("error", 1)
    ]
    assert len(Dataset(str(tmp_path / "s"))) == len(PARTS)


def test_end_is_rounded(tmp_path: Path) -> None:
    path = nemo(tmp_path / "raw", [(0.0, 4.06), (4, 0.05)], seconds=4)
    assert list(read_errors(path)) == [1]
    path = nemo(tmp_path / "whole", [(0, 5), (1, 4), (1, 3)], seconds=4.6)
    prepare(path, str(tmp_path / "s"))
    found = Dataset(str(tmp_path / "s"))
    assert [found[i].audio.get_audio().audio_clips[0].shape[1] for i in range(3)] == [73600, 57600, 48000]


def test_duration_alone_is_metadata(tmp_path: Path) -> None:
    rows = [{"audio": f"{i}.wav", "duration": 1.5, "text": "t"} for i in range(3)]
    a_folder(tmp_path, {**{f"{i}.wav": wav(sound(2, i)) for i in range(3)}, "rows.jsonl": lines(rows)})
    assert clips(read_samples(tmp_path)) == [None] * 3


def test_pictures_have_no_parts(tmp_path: Path) -> None:
    rows = [{"image": f"{i}.jpg", "start": 0, "end": 5, "text": "t"} for i in range(3)]
    a_folder(tmp_path, {**{f"{i}.jpg": b"\xff\xd8\xff\xe0" for i in range(3)}, "rows.jsonl": lines(rows)})
    assert clips(read_samples(tmp_path)) == [None] * 3
    error = open_error(tmp_path, {"segments": "range"})
    assert isinstance(error, UsageError)
    assert "no effect" in error.message


def test_option_gives_whole_files(tmp_path: Path) -> None:
    path = nemo(tmp_path, PARTS)
    found = read_samples(path, {"segments": "whole"})
    assert clips(found) == [None] * len(PARTS)
    assert all(parts["wav"] == wav(sound(10)) for parts in found.values())
    assert isinstance(open_error(path, {"segments": "half"}), UsageError)


@pytest.mark.parametrize("channels", [1, 2])
def test_cut_wav_has_exactly_its_samples(tmp_path: Path, channels: int) -> None:
    path = nemo(tmp_path, PARTS)
    whole = sound(10, channels=channels)
    (tmp_path / "audio" / "long.wav").write_bytes(wav(whole))
    found = read_samples(path, {"segments": "cut"})
    assert [parts["wav"] for parts in found.values()] == [
        wav(whole[round(offset * RATE) : round(offset * RATE) + round(duration * RATE)]) for offset, duration in PARTS
    ]
    assert clips(found) == [None] * len(PARTS)
    assert [json.loads(parts["json"])["offset"] for parts in found.values()] == [offset for offset, _ in PARTS]


def test_cut_reaches_shards_and_both_layouts(tmp_path: Path) -> None:
    path, whole = nemo(tmp_path / "raw", PARTS), sound(10)
    for layout in ("monolithic", "polylithic"):
        dest = str(tmp_path / layout)
        request = PrepareRequest(layout=layout, format_options={"segments": "cut"})
        prepare(path, dest, request)
        found = Dataset(dest)
        for i, (offset, duration) in enumerate(PARTS):
            first = round(offset * RATE)
            expected = whole[first : first + round(duration * RATE)].T
            assert np.array_equal(found[i].audio.get_audio().audio_clips[0].numpy(), expected)


def test_cut_of_large_parts_copies_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wdsctl.core.importers.common.source.LARGE_PART_BYTES", 1000)
    path, whole = nemo(tmp_path / "raw", PARTS), sound(10)
    prepare(path, str(tmp_path / "s"), PrepareRequest(format_options={"segments": "cut"}))
    first = Dataset(str(tmp_path / "s"), decode=False)[1]["wav"]
    assert first == wav(whole[40_000:88_000])


def test_compressed_audio_is_not_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"audio": "a.flac", "offset": 0.5, "duration": 1}, {"audio": "a.flac", "offset": 1.5, "duration": 1}]
    a_folder(tmp_path / "raw", {"a.flac": make_audio("flac", "flac"), "rows.jsonl": lines(rows)})
    words = ["prepare", str(tmp_path / "raw"), str(tmp_path / "s"), "--no-input", "-O", "segments=cut"]
    (command,) = printed_commands(words, "WDS265", capsys)
    assert main(command) == 0
    assert Dataset(str(tmp_path / "s"))[1].audio.get_audio().audio_clips[0].shape[1] == 44_100


def test_several_files_a_row_are_not_guessed(tmp_path: Path) -> None:
    rows = [{"a": "a.wav", "b": "b.wav", "start": i, "end": i + 1} for i in range(3)]
    a_folder(tmp_path, {"a.wav": wav(sound(5)), "b.wav": wav(sound(5)), "rows.jsonl": lines(rows)})
    error = open_error(tmp_path)
    assert isinstance(error, DatasetError)
    assert error.code == "WDS265"
    assert len(read_samples(tmp_path, {"segments": "whole"})) == 3


def test_type_without_clips_is_warned_of(tmp_path: Path) -> None:
    path = nemo(tmp_path / "raw", PARTS)
    report = prepare(path, str(tmp_path / "s"), PrepareRequest(sample_type="CrudeSample"))
    assert report.index is not None
    assert [each.severity for each in report.index.findings if each.code == "WDS265"] == ["warning"]
    report = prepare(path, str(tmp_path / "s"), PrepareRequest(sample_type="AudioSample"))
    assert report.index is not None
    assert not [each for each in report.index.findings if each.code == "WDS265"]


def test_tables_of_two_splits_may_have_other_columns(tmp_path: Path) -> None:
    """The second table has whole files: its rows have no range, and keep their ends."""
    parts = [{"audio": "a.wav", "offset": i, "duration": 1.5, "text": "t"} for i in range(3)]
    whole = [{"audio": "b.wav", "text": "t"}]
    files = {"a.wav": wav(sound(5)), "b.wav": wav(sound(2, 1)), "train.jsonl": lines(parts), "val.jsonl": lines(whole)}
    found = read_samples(a_folder(tmp_path, files))
    assert sorted(clips(found), key=str) == [
        {"start": 0, "end": 1.5},
        {"start": 0, "end": None},
        {"start": 1, "end": 2.5},
        {"start": 2, "end": 3.5},
    ]


def test_schema_finds_bad_clips(tmp_path: Path) -> None:
    values: Iterator[Any] = iter(
        [{"start": 0, "end": 1}, {"start": 3, "end": 9}, {"start": 2, "end": 1}, {"start": "a", "end": 1}, {"from": 1}]
    )
    files = {f"{i}.json": json.dumps({"text": "t", "clip": clip}).encode() for i, clip in enumerate(values)}
    a_folder(tmp_path / "raw", {**files, **{f"{i}.wav": wav(sound(2, i)) for i in range(5)}})
    request = PrepareRequest(
        sample_type="AudioSample", field_map={"audio": "wav", "text": "json[text]", "clip": "json[clip]"}
    )
    prepare(str(tmp_path / "raw"), str(tmp_path / "s"), request)
    from wdsctl.api import validate

    report = validate(str(tmp_path / "s"), level="schema")
    assert sum(each.count for each in report.findings if each.code == "WDS175") == 4


def test_template_of_cut_files_keeps_them_whole(tmp_path: Path) -> None:
    """As Kinetics: the name of a file has the range, and some clips are longer than it."""
    rows = [{"label": "x", "youtube_id": f"id{i}", "time_start": i, "time_end": i + 2} for i in range(4)]
    files = {f"train/id{i}_{i:06}_{i + 2:06}.wav": wav(sound(2 if i else 4, i)) for i in range(4)}
    a_folder(tmp_path, {**files, "train.csv": table(rows)})
    template = "train/{youtube_id}_{time_start:06}_{time_end:06}.wav"
    found = read_samples(tmp_path / "train.csv", {"files": template})
    assert clips(found) == [None] * 4
    assert [len(parts["wav"]) for parts in found.values()] == [len(data) for data in files.values()]


def test_slices_of_other_recordings_stay_whole(tmp_path: Path) -> None:
    """As UrbanSound8K and AudioSet: short files with the range that they had in others."""
    ranges = [(0.0, 0.3), (58.5, 59.5), (1.2, 1.5), (30, 34)]
    rows = [{"slice_file_name": f"{i}.wav", "start": a, "end": b, "class": "x"} for i, (a, b) in enumerate(ranges)]
    files = {f"{i}.wav": wav(sound(b - a, i)) for i, (a, b) in enumerate(ranges)}
    a_folder(tmp_path, {**files, "slices.csv": table(rows)})
    assert clips(read_samples(tmp_path)) == [None] * 4


def test_object_called_clip_may_be_another_one(tmp_path: Path) -> None:
    rows = [{"audio": f"{i}.wav", "text": "t", "clip": {"start": 1, "score": 0.3}} for i in range(3)]
    a_folder(tmp_path / "raw", {**{f"{i}.wav": wav(sound(2, i)) for i in range(3)}, "rows.jsonl": lines(rows)})
    report = prepare(str(tmp_path / "raw"), str(tmp_path / "s"))
    assert report.field_map == {"audio": "wav", "text": "json[text]"}


def test_clip_in_json_needs_no_table(tmp_path: Path) -> None:
    files = {f"{i}.json": json.dumps({"text": "t", "clip": {"start": i, "end": i + 1}}).encode() for i in range(3)}
    a_folder(tmp_path / "raw", {**files, **{f"{i}.wav": wav(sound(4, i)) for i in range(3)}})
    prepare(str(tmp_path / "raw"), str(tmp_path / "s"))
    found = Dataset(str(tmp_path / "s"))
    for i in range(3):
        expected = sound(4, i)[i * RATE : (i + 1) * RATE].T
        assert np.array_equal(found[i].audio.get_audio().audio_clips[0].numpy(), expected)


def test_rows_of_parquet_name_parts(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    a_folder(tmp_path / "raw", {"a.wav": wav(sound(10))})
    columns = {"path": ["a.wav"] * 2, "start": [0.5, 2.0], "end": [2.0, 4.0], "text": ["one", "two"]}
    pq.write_table(pa.table(columns), tmp_path / "raw" / "rows.parquet")
    found = read_samples(tmp_path / "raw")
    assert clips(found) == [{"start": 0.5, "end": 2.0}, {"start": 2.0, "end": 4.0}]


def test_parts_come_from_several_workers(tmp_path: Path) -> None:
    path = nemo(tmp_path / "raw", [(i / 10, 0.5) for i in range(90)])
    index = PrepareRequest().index
    request = PrepareRequest(index=replace(index, workers=2), shard_samples=10)
    prepare(path, str(tmp_path / "s"), request)
    found, whole = Dataset(str(tmp_path / "s")), sound(10)
    assert len(found) == 90
    by_words = {found[i].text: found[i].audio.get_audio().audio_clips[0].numpy() for i in range(90)}
    for i in range(90):
        assert np.array_equal(by_words[f"words {i}"], whole[i * 1600 : i * 1600 + 8000].T)


@pytest.mark.parametrize(
    "row", [{"start_sample": 16_000, "end_sample": 32_000}, {"start": 1.5}, {"offset": 3, "speaker": 4}]
)
def test_starts_without_a_range_are_warned_of(tmp_path: Path, row: dict[str, Any]) -> None:
    rows = [{"audio": "a.wav", **row, "text": f"{i}"} for i in range(3)]
    a_folder(tmp_path, {"a.wav": wav(sound(10)), "rows.jsonl": lines(rows)})
    assert clips(read_samples(tmp_path)) == [None] * 3
    (found,) = [each for each in describe_source(tmp_path).findings if each.code == "WDS265"]
    assert found.severity == "warning"
    assert "each row has its whole file" in found.message


def test_tables_that_name_parts_by_other_columns_stop(tmp_path: Path) -> None:
    one = [{"audio": "a.wav", "start": i, "end": i + 1, "text": "t"} for i in range(3)]
    other = [{"audio": "a.wav", "offset": i, "duration": 2, "text": "t"} for i in range(3)]
    a_folder(tmp_path, {"a.wav": wav(sound(10)), "train.jsonl": lines(one), "val.jsonl": lines(other)})
    error = open_error(tmp_path)
    assert error.code == "WDS265"
    assert "offset and duration, or start and end" in error.message
    assert clips(read_samples(tmp_path, {"segments": "whole"})) == [None] * 6


def test_folder_with_a_manifest_of_nemo_is_prepared(tmp_path: Path) -> None:
    """NeMo calls its lines of JSON `manifest.json`."""
    nemo(tmp_path / "raw", PARTS)
    assert main(["prepare", str(tmp_path / "raw"), str(tmp_path / "s")]) == 0
    assert len(Dataset(str(tmp_path / "s"))) == len(PARTS)


def test_crops_and_pages_stay_values(tmp_path: Path) -> None:
    rows = [{"image": f"{i}.jpg", "crop": [0, 0, 5, 5], "page": i, "boxes": [[0, 0, 1, 1]]} for i in range(3)]
    a_folder(tmp_path, {**{f"{i}.jpg": b"\xff\xd8\xff\xe0" for i in range(3)}, "rows.jsonl": lines(rows)})
    notes = {use.name: use.note for use in describe_source(tmp_path).field_uses}
    assert "the whole file" in notes["crop"]
    assert "the whole file" in notes["page"]
    assert notes["boxes"] == ""
