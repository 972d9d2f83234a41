"""Speech with transcripts."""

from __future__ import annotations

import json
from pathlib import Path

from tests.build import a_folder
from tests.core.formats import describe_source, description_findings, open_error, read_errors, read_samples
from tests.loader.decoding.av.media import make_audio
from wdsctl import Dataset
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert


def a_librispeech(root: Path, **more: bytes) -> str:
    files = {
        f"LibriSpeech/{split}/84/12/84-12-000{i}.flac": b"%d" % i for split in ("train-clean-100",) for i in (0, 1)
    }
    files |= {"LibriSpeech/dev-other/9/1/9-1-0000.flac": b"9"}
    files |= {
        "LibriSpeech/train-clean-100/84/12/84-12.trans.txt": b"84-12-0000 GO ON\n84-12-0001 I'M HERE\n",
        "LibriSpeech/dev-other/9/1/9-1.trans.txt": "9-1-0000 é A\n".encode(),
        "LibriSpeech/SPEAKERS.TXT": b"84 | F\n",
    }
    return a_folder(root, {**files, **more})


def an_ljspeech(root: Path, table: bytes = b'LJ-1|He said "one" in 1.|He said "one" in one.\n') -> str:
    return a_folder(root, {"metadata.csv": table, "wavs/LJ-1.wav": make_audio("wav", "pcm_s16le", seconds=0.1)})


def test_librispeech_transcripts_belong_to_audio_in_same_folder(tmp_path: Path) -> None:
    root = a_librispeech(tmp_path / "raw")

    actual = read_samples(root)

    assert importers.best_importer(root)[0].name == "speech"
    assert [(key.rpartition("/")[2], parts["txt"].decode(), parts["flac"]) for key, parts in actual.items()] == [
        ("9-1-0000", "é A", b"9"), ("84-12-0000", "GO ON", b"0"), ("84-12-0001", "I'M HERE", b"1"),
    ]  # fmt: skip
    facts = [json.loads(parts["json"]) for parts in actual.values()]
    assert facts[1] == {"id": "84-12-0000", "speaker": "84", "chapter": "12"}
    assert description_findings(root) == []
    (converted,) = convert([root], str(tmp_path / "made")).datasets
    assert (converted.sample_type, converted.splits) == ("TranscriptionSample", {"train": 2, "val": 1})


def test_transcript_without_audio_fails_and_audio_without_transcript_is_reported(tmp_path: Path) -> None:
    folder = "LibriSpeech/train-clean-100/84/12"
    text = b"84-12-0000 GO ON\n84-12-0007 GONE\n84-12-0001\nx\xff y\n84-12-0001  \n"
    root = a_librispeech(tmp_path, **{f"{folder}/84-12.trans.txt": text, f"{folder}/84-12-0002.flac": b"2"})

    assert {sample_index: error.code for sample_index, error in read_errors(root, form="speech").items()} == {
        2: "WDS231", 3: "WDS232", 4: "WDS124",
    }  # fmt: skip
    assert description_findings(root) == [("WDS148", "warning", 1), ("WDS239", "error", 1)]


def test_ljspeech_table_has_original_and_normalized_text(tmp_path: Path) -> None:
    root = an_ljspeech(tmp_path / "raw")

    actual = read_samples(root)

    assert importers.best_importer(root)[0].name == "speech"
    assert json.loads(actual["wavs/LJ-1"]["json"]) == {
        "id": "LJ-1", "text": 'He said "one" in 1.', "normalized_text": 'He said "one" in one.',
    }  # fmt: skip
    assert convert([root], str(tmp_path / "made")).datasets[0].sample_type == "TranscriptionSample"
    sample = Dataset(str(tmp_path / "made"))[0]
    assert sample.text == 'He said "one" in one.'


def test_table_with_header_or_commas_is_not_ljspeech(tmp_path: Path) -> None:
    for number, table in enumerate((b"id|text\nLJ-1|a\n", b"LJ-1,a\n", b"")):
        root = an_ljspeech(tmp_path / str(number), table)
        assert "speech" not in [importer.name for importer, _ in importers.find_importers(root)]


def test_description_names_parts_of_transcripts_and_ids(tmp_path: Path) -> None:
    uses = {use.name: use.becomes for use in describe_source(a_librispeech(tmp_path)).field_uses}

    assert uses["*.trans.txt"] == "txt"
    assert (uses["SPEAKERS.TXT"], uses["ids"]) == ("", "json[id], json[speaker], json[chapter]")


def test_folder_without_transcripts_is_refused(tmp_path: Path) -> None:
    assert open_error(a_folder(tmp_path, {"a.wav": b""}), form="speech").code == "WDS003"
