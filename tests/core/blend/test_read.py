from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.core.blend.trees import files
from wdsctl.core.blend import read_blend
from wdsctl.core.errors import InputError, UsageError


def test_a_dataset_is_a_blend_of_itself(tmp_path: Path) -> None:
    (leaf,) = read_blend(tmp_path / "shards", split_part="val").leaves

    assert (leaf.path, leaf.split_part) == (f"{tmp_path}/shards", "val")


def test_paths_in_code_begin_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files(tmp_path, main="path: a")

    assert read_blend("main.yaml") == read_blend({"path": "a"}) == read_blend("a") == read_blend({"path": Path("a")})


def test_a_blend_file_in_a_store_is_read_with_the_paths_beside_it() -> None:
    store = fsspec.filesystem("memory")
    store.pipe("/reading/main.yaml", b"blend: [{path: shards}, {path: sub/inner.yaml}]")
    store.pipe("/reading/sub/inner.yaml", b"path: ../b")

    plan = read_blend("memory://reading/main.yaml")

    assert [leaf.path for leaf in plan.leaves] == ["memory://reading/shards", "memory://reading/b"]


def test_a_blend_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the blend file does not exist"):
        read_blend(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"mode": "test"}, "mode: expected train or val"),
        ({"split_part": ""}, "split_part: expected a name"),
        ({"multiplier": 0}, "multiplier: expected a whole number"),
        ({"source": 5}, "expected a path or a mapping, found 5"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_blend(**({"source": "a"} | arguments))


def test_reading_a_blend_file_needs_no_torch_and_no_numpy(tmp_path: Path) -> None:
    main = files(tmp_path, main="blend: [{path: a}]")
    script = (
        "import sys; from wdsctl.core.blend import read_blend; read_blend(sys.argv[1]);"
        "print([name for name in ('torch', 'numpy', 'fsspec', 'sqlalchemy') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", script, str(main)], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
