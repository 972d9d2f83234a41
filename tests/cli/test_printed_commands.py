"""Every command that an error prints works on the data that has provoked it, and loses nothing."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.build import a_folder
from tests.loader.decoding.av.media import make_video
from tests.printed import follow, unaccounted
from tests.public_datasets import picture
from wdsctl.cli.main import main

PICTURES = {f"{i}.jpg": picture(i) for i in range(4)}


def table(head: str, form: str, count: int = 4) -> bytes:
    return "".join(f"{line}\n" for line in [head, *(form.format(i=i) for i in range(count))] if line).encode()


def tsv(head: str, form: str) -> bytes:
    return table(head, form).replace(b",", b"\t")


def a_tar(files: Mapping[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return data.getvalue()


def lists(**names: str) -> bytes:
    return json.dumps(
        {name: [{"file": form.format(i=i), "note": f"{name}{i:04}"} for i in range(4)] for name, form in names.items()}
    ).encode()


def below(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": data for name, data in files.items()}


class Case(NamedTuple):
    """`code`: of the first error. `files`: the data. `words`: the command line. `codes`: of the whole chain."""

    code: str
    files: Mapping[str, bytes]
    words: str = "prepare raw dest --no-input"


CASES = {
    "table_without_dest": Case("WDS001", {"t.csv": table("id,text", "{i},line number {i}")}, "prepare raw/t.csv"),
    "rows_with_media_without_dest": Case(
        "WDS001",
        {**PICTURES, "t.jsonl": table("", '{{"image": "{i}.jpg", "text": "a line {i}"}}')},
        "prepare raw/t.jsonl",
    ),
    "shards_with_dest": Case(
        "WDS001", {"a.jpg": picture(9), "a.tar": a_tar({"0.txt": b"a first text", "1.txt": b"a second text"})}
    ),
    "archive_among_files": Case("WDS001", {**PICTURES, "0.tar.gz": gzip.compress(a_tar({"8.jpg": b"eight"}))}),
    "files_in_place": Case("WDS003", {**PICTURES}, "index raw"),
    "compressed_shards": Case("WDS113", {"a.tar.gz": gzip.compress(a_tar({"0.txt": b"a first text"}))}, "index raw"),
    "incomplete_samples": Case("WDS201", {**PICTURES, **{f"{i}.txt": b"a text" for i in range(3)}}),
    "unsure_type": Case(
        "WDS221", {**PICTURES, "t.csv": table("file,label,caption", "{i}.jpg,{i},a small picture {i}")}
    ),
    "unsure_type_with_options": Case(
        "WDS221",
        {**below("p", PICTURES), "t/t.csv": table("file,label,caption", "{i}.jpg,{i},a small picture {i}")},
        "prepare raw/t/t.csv dest -O base=raw/p --shard-samples 2",
    ),
    "files_outside": Case(
        "WDS230",
        {**below("pictures", PICTURES), "t/t.csv": table("file,note", "{i}.jpg,note{i}")},
        "prepare raw/t/t.csv dest",
    ),
    "two_formats": Case(
        "WDS235", {f"{kind}/{i}.jpg": picture(10 * k + i) for k, kind in enumerate(("cat", "dog")) for i in range(3)}
    ),
    "rows_that_name_nothing": Case(
        "WDS239",
        {**{f"clip_{i}_{i}0.jpg": picture(i) for i in range(4)}, "t.csv": table("a,b,note", "{i},{i}0,note{i}")},
    ),
    "no_header": Case("WDS243", {**PICTURES, "t.csv": table("", "{i}.jpg,note{i}")}),
    "no_header_after_options": Case(
        "WDS243",
        {**PICTURES, "t.tsv": tsv("", "{i}.jpg,note{i}")},
        "prepare --shard-samples 2 raw/t.tsv dest --split train=1,val=1",
    ),
    "several_lists": Case("WDS244", {**PICTURES, "a.json": lists(images="{i}.jpg", notes="no file")}),
    "several_tables": Case(
        "WDS252",
        {
            **PICTURES,
            "a.csv": table("file,first", "{i}.jpg,first{i}"),
            "b.csv": table("file,first", "{i}.jpg,second{i}"),
        },
    ),
    "parts_of_files": Case(
        "WDS265",
        {
            "v.mp4": make_video("mp4", "h264"),
            "t.csv": b"file,start_frame,end_frame,note\nv.mp4,5,20,first\nv.mp4,30,40,second\n",
        },
    ),
    "keys_twice": Case(
        "WDS340", {"t.jsonl": table("", '{{"id": "same", "text": "a line {i}"}}')}, "convert raw/t.jsonl dest -O key=id"
    ),
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[str]], tuple[int, str]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")

    def call(words: Sequence[str]) -> tuple[int, str]:
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = main([*words])
        return code, output.getvalue()

    return call


@pytest.mark.usefixtures("one_processor")
@pytest.mark.parametrize("name", CASES)
def test_printed_commands_end_well_and_lose_nothing(name: str, run: Callable[[Sequence[str]], tuple[int, str]]) -> None:
    case = CASES[name]
    a_folder(Path("raw"), case.files)
    words = case.words.split()
    assert run(words)[1].count(f"[{case.code}]") >= 1, run(words)

    shutil.rmtree("dest", ignore_errors=True)
    for end in follow(run, words, Path("dest")):
        assert len(end.commands) > 1, end
        assert end.code in {0, 5}, end
        assert not unaccounted(Path("raw"), Path("dest"), end.output), end
