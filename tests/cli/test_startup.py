"""Start-up is part of the design: help comes at once, because it loads nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.build import a_dataset
from tests.core.films import a_wav
from tests.core.job_states import a_rank_state
from wdsctl.core.index.index import index

HEAVY = ("torch", "sqlalchemy", "numpy", "PIL", "av", "yaml", "fsspec", "webdataset", "simplejpeg", "sqlite3")


def modules_after(*argv: str) -> set[str]:
    """What a fresh interpreter has loaded after `main(argv)`."""
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
        ["inspect", "--help"],
        ["get", "--help"],
        ["ls", "--help"],
        ["trace", "--help"],
        ["checkpoint", "--help"],
        ["checkpoint", "info", "--help"],
    ],
)
def test_help_and_explain_load_nothing_heavy(argv: list[str]) -> None:
    loaded = modules_after(*argv)
    assert loaded.isdisjoint(HEAVY)
    rooms = {".".join(name.split(".")[:3]) for name in loaded if name.startswith("wdsctl.") and name.count(".") > 2}
    assert rooms <= {"wdsctl.cli.commands", "wdsctl.core.samples", "wdsctl.core.dataset"}
    assert "wdsctl.loader" not in loaded


def test_plain_values_are_taken_without_pydantic(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.jsonl": b'{"a": 1}\n'})
    loaded = modules_after("index", root, "--workers", "2", "--exclude", "x*", "--missing", "drop", "--wait")
    assert loaded.isdisjoint({"pydantic", "sqlalchemy"})
    assert loaded.isdisjoint({"multiprocessing", "asyncio"})


def test_help_draws_nothing_with_rich() -> None:
    assert "rich" not in modules_after("--help")


def test_checkpoints_are_read_without_torch(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    torch.save({"loader": a_rank_state(), "weights": torch.ones(3)}, path)

    loaded = modules_after("checkpoint", "info", str(path))

    assert loaded.isdisjoint(HEAVY)
    assert not any(name.startswith("wdsctl.loader") for name in loaded)


def test_inspect_loads_pyav_and_pillow_for_media_alone(tmp_path: Path) -> None:
    texts = a_dataset(tmp_path / "texts", {"a.tar": {"1.txt": b"words"}})
    sounds = a_dataset(tmp_path / "sounds", {"a.tar": {"1.wav": a_wav()}})
    for root in (texts, sounds):
        index(root)

    loaded = modules_after("inspect", texts)
    assert loaded.isdisjoint({"av", "PIL", "torch", "numpy"})
    assert loaded.isdisjoint({"wdsctl.core.shards.scan_unit", "wdsctl.core.index.merge", "wdsctl.core.blend"})
    assert modules_after("inspect", sounds) & {"av", "PIL", "torch"} == {"av"}


@pytest.mark.parametrize("name", ["a.jsonl", "a.tar"])
def test_a_first_index_loads_no_database_layer_and_nothing_of_what_nobody_asked_for(tmp_path: Path, name: str) -> None:
    shards: dict[str, Any] = {"a.tar": {"1.txt": b"words"}}
    if name == "a.jsonl":
        shards = dict.fromkeys((name, f"more/{name}"), b'{"a": 1}\n' * 5)
    root = a_dataset(tmp_path / "d", shards)

    loaded = modules_after("index", root, "--workers", "2")

    assert loaded.isdisjoint({"sqlalchemy", "yaml", "torch", "PIL", "av", "fsspec", "multiprocessing", "rich"})
    assert loaded.isdisjoint({"wdsctl.core.index.columns", "wdsctl.core.index.media", "wdsctl.core.split.reapply"})


def test_get_and_ls_need_no_database_layer_and_no_arrays(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "d", {"a.tar": {"1.txt": b"words"}})
    index(root)
    for words in (["get", root, "1"], ["ls", root, "--samples"]):
        assert modules_after(*words).isdisjoint(set(HEAVY) - {"sqlite3"} | {"rich"})


def test_help_does_not_read_the_text_of_codes() -> None:
    program = """
import sys
from wdsctl.cli.main import main
main(["--help"])
codes = sys.modules.get("wdsctl.core.codes")
print(codes is None or codes.load_codes.cache_info().currsize == 0, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.strip() == "True"
