"""Commands that errors about tables print: they repeat the user's words, and work as they are."""

from __future__ import annotations

import shlex
import tarfile
from pathlib import Path

import pytest

from tests.build import a_folder
from tests.cli.conftest import Wdsctl

LIST = b"label,id,start\n" + b"".join(b"zumba,v%d,%d\n" % (i, 10 * i) for i in range(6))
CLIPS = {f"clips/v{i}_{10 * i:04}.jpg": b"\xff\xd8\xff\xe0 clip %d" % i for i in range(6)}


def read_shards(folder: Path) -> dict[str, dict[str, bytes]]:
    """Key -> name of each part -> its content, as Python's tarfile reads the shards."""
    found: dict[str, dict[str, bytes]] = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                key, _, part = member.name.partition(".")
                file = archive.extractfile(member)
                assert file is not None
                assert part not in found.setdefault(key, {})
                found[key][part] = file.read()
    return found


def commands_in(text: str) -> list[list[str]]:
    flat = " ".join(line.strip() for line in text.splitlines())
    return [shlex.split(part)[1:] for i, part in enumerate(flat.split("`")) if i % 2 and part.startswith("wdsctl ")]


@pytest.mark.parametrize("source", ["my data", "my data/list.csv"])
def test_printed_commands_work_as_printed(
    wdsctl: Wdsctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    a_folder(tmp_path / "my data", {"list.csv": LIST, **CLIPS})

    refused = wdsctl("prepare", source, "my shards", "--no-input", "--shard-samples", "2")

    assert (refused.code, "WDS239" in refused.stderr) == (3, True)
    joined, alone = commands_in(refused.stderr)
    assert joined[:6] == ["prepare", "my data/list.csv", "my shards", "--no-input", "--shard-samples", "2"]
    for number, command in enumerate((joined, alone)):
        command[2] = f"out {number}"
        assert wdsctl(*command).code == 0
    samples = read_shards(tmp_path / "out 0")
    assert sorted((parts["jpg"], parts["json"]) for parts in samples.values()) == sorted(
        (data, b'{"label":"zumba","id":"v%d","start":%d}' % (i, 10 * i)) for i, data in enumerate(CLIPS.values())
    )
    assert [set(parts) for parts in read_shards(tmp_path / "out 1").values()] == [{"json"}] * 6


@pytest.mark.parametrize(("table", "pictures"), [("meta/t.csv", "pictures"), ("meta/t.csv", "pictures/deep")])
def test_command_that_allows_folder_works_as_printed(
    wdsctl: Wdsctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, pictures: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    files = {f"{pictures}/a/{i}.jpg": b"\xff\xd8\xff\xe0 %d" % i for i in range(4)}
    rows = "file,caption\n" + "".join(f"{'deep/' if 'deep' in pictures else ''}a/{i}.jpg,a cat {i}\n" for i in range(4))
    a_folder(tmp_path / "raw", {table: rows.encode(), **files})

    refused = wdsctl("prepare", f"raw/{table}", "out", "--no-input")

    ((*command,),) = commands_in(refused.stderr)
    assert (refused.code, command[-1]) == (3, "base=raw/pictures")
    assert wdsctl(*command).code == 0
    for name, options in (("whole", ["raw"]), ("wide", [f"raw/{table}", "-O", "base=raw"])):
        assert wdsctl("prepare", options[0], name, "--no-input", *options[1:]).code == 0
        assert read_shards(tmp_path / name) == read_shards(tmp_path / "out")


@pytest.mark.parametrize("source", ["raw", "raw/meta/t.csv"])
def test_command_that_names_columns_works_as_printed(
    wdsctl: Wdsctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    files = {f"pictures/{i}.jpg": b"\xff\xd8\xff\xe0 %d" % i for i in range(4)}
    rows = "".join(f"{i}.jpg,a cat {i}\n" for i in range(4))
    a_folder(tmp_path / "raw", {"meta/t.csv": rows.encode(), **files})
    options = [] if source == "raw" else ["--option=base=raw"]

    refused = wdsctl("prepare", *options, source, "out", "--no-input")

    command, *_ = commands_in(refused.stderr)
    assert (refused.code, "WDS243" in refused.stderr) == (3, True)
    assert wdsctl(*command).code == 0
    assert {parts["jpg"]: parts["json"] for parts in read_shards(tmp_path / "out").values()} == {
        data: b'{"text":"a cat %d"}' % i for i, data in enumerate(files.values())
    }
