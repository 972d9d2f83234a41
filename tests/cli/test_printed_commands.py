"""Every command that an error prints works on the data that has provoked it, and loses nothing."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import shlex
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.build import a_folder
from tests.loader.decoding.av.media import make_video
from tests.printed import PLACEHOLDER, follow, unaccounted
from tests.public_datasets import picture
from wdsctl.cli.main import main
from wdsctl.core.codes import load_codes

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
    """`code`: of the first error. `files`: the data. `words`: the command line. `before`: one that has been run."""

    code: str
    files: Mapping[str, bytes]
    words: str = "prepare raw dest --no-input"
    before: str = ""


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
    "no_such_split": Case(
        "WDS211",
        {f"{i}.txt": b"a text" for i in range(12)},
        "convert set dest --split nope",
        "prepare raw set --no-input --shard-samples 1 --split 1,1",
    ),
    "no_split_yet": Case(
        "WDS211", {f"{i}.tar": a_tar({f"{i}.txt": b"a text"}) for i in range(12)}, "ls raw --split val", "index raw"
    ),
    "no_sample": Case("WDS004", {"a.tar": a_tar({"0.txt": b"a text"})}, "get raw 1", "index raw"),
    "no_catalog": Case("WDS301", {"a.tar": a_tar({"0.txt": b"a text"})}, "ls raw --samples"),
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
    if case.before:
        assert run(case.before.split())[0] == 0
    words = case.words.split()
    assert run(words)[1].count(f"[{case.code}]") >= 1, run(words)

    shutil.rmtree("dest", ignore_errors=True)
    for end in follow(run, words, Path("dest")):
        assert len(end.commands) > 1, end
        assert end.code in {0, 5}, end
        assert not unaccounted(Path("raw"), Path("dest"), end.output), end


def shard(*names: str) -> bytes:
    return a_tar({name: b"text of " + name.encode() for name in names})


LINES = b'{"text": "one"}\n'
#: Code -> a shard with this fault. The remedy of the code's page is `wdsctl repair DATASET DEST`.
DAMAGED = {
    "WDS102": ("a.tar", shard("0.txt", "1.txt", "2.txt")[: 512 * 5 + 3]),
    "WDS103": ("a.tar", shard("0.txt")[:1024] + b"\xff" * 512 + shard("1.txt", "2.txt")),
    "WDS104": ("a.tar", shard("0.txt", "1.txt", "0.json", "1.json")),
    "WDS105": ("a.tar", shard("0.txt", "1.txt")[:2048] + shard("0.txt")),
    "WDS107": ("a.tar", shard("0.txt")[:1024] + shard("0.txt", "0.json")),
    "WDS117": ("a.tar", shard("0.txt", "1.txt") + shard("2.txt")),
    "WDS122": ("a.jsonl", LINES + LINES[:-3]),
}


@pytest.mark.usefixtures("one_processor")
@pytest.mark.parametrize("code", DAMAGED)
def test_remedy_of_damaged_shards_ends_the_finding(code: str, run: Callable[[Sequence[str]], tuple[int, str]]) -> None:
    assert "`wdsctl repair DATASET DEST`" in load_codes()[code].remedy
    name, data = DAMAGED[code]
    a_folder(Path("raw"), {name: data})
    assert f"[{code}]" in run(["index", "raw"])[1]

    repaired, output = run(["repair", "raw", "dest"])

    assert repaired in {0, 5}
    assert repaired == 0 or "WDS130" in output or "WDS157" in output  # it names what is lost
    code_after, output = run(["index", "dest"])
    assert (code_after, code in output) == (0, False)


#: The words of the page of codes that stand for the user's own. Commands with other words in capitals are not run.
_OWN_WORDS = {"DATASET": "set", "SOURCE": "set", "SRC": "raw", "RAW": "raw", "RULE": "first-dot", "PREFIX": "0"}
#: Code -> why a command of its page is not run on a sound dataset.
NOT_RUN = {
    "WDS127": "the command names the user's own file",
    "WDS167": "shards of a format that is not read in place",
    "WDS166": "the target is one of the Hub, whose card needs features",
    "WDS217": "one of the shards of a larger dataset",
    "WDS224": "the file of a script would be in the current folder",
    "WDS245": "the keys of tars with other rules",
    "WDS248": "the keys of tars with other rules",
    "WDS256": "splits of whole shards",
    "WDS258": "folders named after splits",
    "WDS259": "a field that names splits",
    "WDS330": "the command ends in an expression of the user",
    "WDS331": "a view of the user",
    "WDS333": "a view of the user",
    "WDS343": "a store of polylithic datasets",
    "WDS450": "a planned job",
    "WDS451": "a planned job",
    "WDS452": "a planned job",
}
COMMANDS = [
    (code, command)
    for code, page in load_codes().items()
    for command in re.findall("`(wdsctl [^`]*)`", page.remedy)
    if code not in NOT_RUN
]


@pytest.mark.usefixtures("one_processor")
def test_commands_of_the_page_of_codes_run_on_sound_dataset(run: Callable[[Sequence[str]], tuple[int, str]]) -> None:
    files = {f"{i}.txt": b"text %d" % i for i in range(30)}
    a_folder(Path("raw"), files)
    run(["prepare", "raw", "sound", "--no-input", "--shard-samples", "5"])
    failed, done = [], set[str]()
    for code, command in COMMANDS:
        words = [_OWN_WORDS.get(word, word) for word in shlex.split(command)[1:]]
        if any(PLACEHOLDER.search(word.replace("DEST", "")) for word in words) or len(words) < 2 or command in done:
            continue
        done.add(command)
        shutil.rmtree("set", ignore_errors=True)
        shutil.rmtree("DEST", ignore_errors=True)
        shutil.copytree("sound", "set")
        exit_code, output = run(words)
        if exit_code not in {0, 1, 5}:
            failed.append((code, command, output))
    assert not failed, "\n".join(map(str, failed))
    assert len(done) > 20
    assert all("`wdsctl " in load_codes()[code].remedy for code in NOT_RUN)
