from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.build import a_dataset, some_shards
from tests.cli.conftest import Stream, Wdsctl
from wdsctl.cli.commands.ls import listing_document, write_entries
from wdsctl.cli.output import PartialDocument
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.ls import DatasetListing, ListedShard, ListingEntry


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = a_dataset(tmp_path / "d", {"a.tar": {"x/1.jpg": b"12", "x/1.txt": b"3"}, "b.tar": {"new\nline.txt": b"4"}})
    index(root)
    return root


def test_ls_prints_one_name_per_line(wdsctl: Wdsctl, root: str) -> None:
    assert wdsctl("ls", root).stdout == "a.tar\nb.tar\n"
    assert wdsctl("ls", root, "x/", "--parts").stdout == "x/1.jpg\nx/1.txt\n"
    assert wdsctl("ls", root, "--samples", "-0").stdout == "x/1\0new\nline\0"


@pytest.mark.parametrize(
    ("arguments", "header", "first"),
    [
        ((), "bytes samples status shard", "10,240 1 ok a.tar"),
        (("x", "--samples"), "bytes position shard key", "3 0 a.tar x/1"),
        (("x", "--parts"), "bytes offset shard part", "2 512 a.tar x/1.jpg"),
    ],
)
def test_ls_long_begins_with_column_headers(
    wdsctl: Wdsctl, root: str, arguments: tuple[str, ...], header: str, first: str
) -> None:
    lines = wdsctl("ls", root, *arguments, "-l").stdout.splitlines()

    assert [" ".join(line.split()) for line in lines[:2]] == [header, first]
    size = first.split(maxsplit=1)[0]
    assert lines[0].index("bytes") + len("bytes") == lines[1].index(size) + len(size)
    (alone,) = wdsctl("ls", root, *arguments, "-l", "-0").stdout.split("\0")[:1]
    assert alone.split() == first.split()
    assert wdsctl("ls", root, "none", *arguments[1:], "-l").stdout == ""


def test_ls_escapes_control_characters_on_terminal(wdsctl: Wdsctl, root: str) -> None:
    result = wdsctl("ls", root, "new", "--samples", stdout=Stream(is_terminal=True))
    assert result.stdout == "$'new\\nline'\n"


def test_ls_json_document_has_every_entry(wdsctl: Wdsctl, root: str) -> None:
    document = wdsctl("ls", root, "--parts", "--json").document
    assert (document["schema"], document["command"], document["what"]) == (1, "ls", "parts")
    assert [entry["name"] for entry in document["entries"]] == ["x/1.jpg", "x/1.txt", "new\nline.txt"]
    assert wdsctl("ls", root, "none", "--json").document["entries"] == []


@pytest.mark.parametrize("number", [1, 60])
def test_write_entries_completes_document_with_error_after_first_entry(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def entries() -> Iterator[ListingEntry]:
        yield from (ListedShard(path=f"{i}.tar", size_bytes=1, samples=1, status="ok") for i in range(number))
        raise CatalogError("it ends here", hint="create it again", where="here")

    stdout = Stream()
    monkeypatch.setattr(sys, "stdout", stdout)
    with pytest.raises(PartialDocument, match="it ends here"):
        write_entries(listing_document(DatasetListing("d", "shards", entries(), iter(()))))
    answer = json.loads(stdout.getvalue())
    assert len(answer["entries"]) == number
    assert answer["error"] == {"code": "WDS300", "message": "it ends here", "where": "here", "hint": "create it again"}


def test_ls_exits_with_3_if_nothing_matches(wdsctl: Wdsctl, root: str) -> None:
    assert (wdsctl("ls", root, "none").code, wdsctl("ls", root, "--samples", "--parts").code) == (3, 2)
    assert wdsctl("ls", root, "--split", "val").code == 3
    advice = f"search the samples: `wdsctl ls {root} none --samples`"
    assert wdsctl("ls", root, "none").stderr == f"no shard begins with 'none'; {advice}\n"
    assert wdsctl("ls", root, "none", "--samples").stderr == "no sample begins with 'none'\n"
    assert wdsctl("ls", root, "none", "--quiet").stderr == ""


def test_ls_handles_pipe_closed_by_head(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2, 3000)
    index(root)
    command = f"{sys.executable} -m wdsctl ls {root} --samples | head -2"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("000000\n000001\n", "")
