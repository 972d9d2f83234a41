"""Start-up is fast: a command imports only the modules that it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.build import a_dataset
from tests.core.job_states import a_rank_state
from tests.core.media_files import a_wav
from wdsctl.core.index.index import index

HEAVY = ("torch", "sqlalchemy", "numpy", "PIL", "av", "yaml", "fsspec", "webdataset", "simplejpeg", "sqlite3")


def modules_after(*argv: str) -> set[str]:
    """The modules that a fresh interpreter has imported after `main(argv)`."""
    program = f"""
import sys
from wdsctl.cli.main import main
main({list(argv)!r})
print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()} | {n for n in done.stderr.split() if "wdsctl" in n}


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["--version"],
        ["explain", "WDS102"],
        ["prepare", "--help"],
        ["index", "--help"],
        ["split", "--help"],
        ["inspect", "--help"],
        ["validate", "--help"],
        ["convert", "--help"],
        ["export", "--help"],
        ["get", "--help"],
        ["ls", "--help"],
        ["trace", "--help"],
        ["checkpoint", "--help"],
        ["checkpoint", "info", "--help"],
    ],
)
def test_help_and_explain_import_no_heavy_modules(argv: list[str]) -> None:
    loaded = modules_after(*argv)
    assert loaded.isdisjoint(HEAVY)
    modules = {name for name in loaded if name.startswith("wdsctl.core.") and name.count(".") > 2}
    others = {name for name in modules if not name.endswith(".request")}  # requests declare the options
    packages = {".".join(name.split(".")[:3]) for name in others}
    names_only = {"wdsctl.core.convert", "wdsctl.core.media"}  # `parts` and `kinds`
    assert packages <= names_only | {"wdsctl.core.samples", "wdsctl.core.dataset", "wdsctl.core.split_rules"}
    assert "wdsctl.loader" not in loaded


def test_plain_option_values_need_no_pydantic(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.jsonl": b'{"a": 1}\n'})
    loaded = modules_after("index", root, "--workers", "2", "--exclude", "x*", "--missing", "drop", "--wait")
    assert loaded.isdisjoint({"pydantic", "sqlalchemy"})
    assert loaded.isdisjoint({"multiprocessing", "asyncio"})


def test_help_does_not_import_rich() -> None:
    assert "rich" not in modules_after("--help")


def test_checkpoint_info_does_not_import_torch(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    torch.save({"loader": a_rank_state(), "weights": torch.ones(3)}, path)

    loaded = modules_after("checkpoint", "info", str(path))

    assert loaded.isdisjoint(HEAVY)
    assert not any(name.startswith("wdsctl.loader") for name in loaded)


def test_inspect_imports_pyav_only_for_media(tmp_path: Path) -> None:
    texts = a_dataset(tmp_path / "texts", {"a.tar": {"1.txt": b"words"}})
    audio = a_dataset(tmp_path / "sounds", {"a.tar": {"1.wav": a_wav()}})
    for root in (texts, audio):
        index(root)

    loaded = modules_after("inspect", texts)
    assert loaded.isdisjoint({"av", "PIL", "torch", "numpy"})
    assert loaded.isdisjoint({"wdsctl.core.shards.scan_unit", "wdsctl.core.index.merge", "wdsctl.core.blend"})
    assert modules_after("inspect", audio) & {"av", "PIL", "torch"} == {"av"}


@pytest.mark.parametrize("name", ["a.jsonl", "a.tar"])
def test_first_index_imports_neither_sqlalchemy_nor_unused_modules(tmp_path: Path, name: str) -> None:
    shards: dict[str, Any] = {"a.tar": {"1.txt": b"words"}}
    if name == "a.jsonl":
        shards = dict.fromkeys((name, f"more/{name}"), b'{"a": 1}\n' * 5)
    root = a_dataset(tmp_path / "d", shards)

    loaded = modules_after("index", root, "--workers", "2")

    assert loaded.isdisjoint({"sqlalchemy", "yaml", "torch", "PIL", "av", "fsspec", "multiprocessing", "rich"})
    assert loaded.isdisjoint({"wdsctl.core.index.columns", "wdsctl.core.index.media", "wdsctl.core.split.reapply"})


def test_get_and_ls_import_neither_sqlalchemy_nor_numpy(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "d", {"a.tar": {"1.txt": b"words"}})
    index(root)
    for words in (["get", root, "1"], ["ls", root, "--samples"]):
        loaded = modules_after(*words)
        assert loaded.isdisjoint(set(HEAVY) - {"sqlite3"} | {"rich"})
        assert loaded.isdisjoint({"hashlib", "wdsctl.core.media.facts"})  # together a tenth of the start


def test_help_does_not_load_codes() -> None:
    program = """
import sys
from wdsctl.cli.main import main
main(["--help"])
codes = sys.modules.get("wdsctl.core.codes")
print(codes is None or codes.load_codes.cache_info().currsize == 0, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.strip() == "True"
