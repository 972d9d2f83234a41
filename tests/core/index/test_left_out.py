"""Files beside shards that are in no sample are named, if they may hold labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import RecordingProgress, some_shards
from wdsctl.core.index.index import index

ROWS = '{"audio_filepath": "utt0.wav", "text": "so"}\n{"audio_filepath": "utt1.wav", "text": "it"}\n'


@pytest.mark.parametrize(
    ("name", "text", "is_named"),
    [
        ("tarred_audio_manifest.json", ROWS, True),
        ("labels.json", '[\n  {"key": "0", "label": 1}\n]', True),
        ("transcripts.txt", "utt0 so\nutt1 it\n", True),
        ("labels.csv", "key,label\n0,1\n", True),
        ("shard-000_stats.json", ROWS, False),
        ("README.txt", "this\nthat\n", False),
        ("info.json", '{\n  "count": 2\n}\n', False),
        ("count.json", '{"count": 2}\n', False),
    ],
)
def test_labels_next_to_shards_are_named_as_left_out(tmp_path: Path, name: str, text: str, is_named: bool) -> None:
    root = some_shards(tmp_path, 1)
    (tmp_path / name).write_text(text)
    progress = RecordingProgress()

    index(root, progress=progress)

    notes = [note for note in progress.notes if "left out" in note]
    assert notes == ([f"left out: 1 file that is no shard, such as {name}"] if is_named else [])
