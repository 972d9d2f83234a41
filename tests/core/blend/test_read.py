from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.core.blend.trees import write_files
from wdsctl.core.blend import read_blend
from wdsctl.core.errors import InputError, UsageError


def test_read_blend_of_dataset_has_one_leaf(tmp_path: Path) -> None:
    (leaf,) = read_blend(tmp_path / "shards", split_part="val").leaves

    assert (leaf.path, leaf.split_part) == (f"{tmp_path}/shards", "val")


def test_read_blend_resolves_paths_from_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, main="path: a")

    assert read_blend("main.yaml") == read_blend({"path": "a"}) == read_blend("a") == read_blend({"path": Path("a")})


def test_read_blend_resolves_paths_in_store() -> None:
    store = fsspec.filesystem("memory")
    store.pipe("/reading/main.yaml", b"blend: [{path: shards}, {path: sub/inner.yaml}]")
    store.pipe("/reading/sub/inner.yaml", b"path: ../b")

    plan = read_blend("memory://reading/main.yaml")

    assert [leaf.path for leaf in plan.leaves] == ["memory://reading/shards", "memory://reading/b"]


def test_read_blend_reports_missing_file(tmp_path: Path) -> None:
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
def test_read_blend_refuses_invalid_arguments(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_blend(**({"source": "a"} | arguments))


def test_read_blend_imports_neither_torch_nor_numpy(tmp_path: Path) -> None:
    main = write_files(tmp_path, main="blend: [{path: a}]")
    script = (
        "import sys; from wdsctl.core.blend import read_blend; read_blend(sys.argv[1]);"
        "print([name for name in ('torch', 'numpy', 'fsspec', 'sqlalchemy') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", script, str(main)], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
