"""Code named by data is not run: no module is imported because a blend file, a dataset.yaml or a column names it, or
because it is in the current folder."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import children
from tests.loader.datasets import a_dataset
from tests.loader.running import make_training_loader, raising_worker_config, take_batches
from wdsctl.cli.main import main
from wdsctl.core.checkpoint.digests import add_digests
from wdsctl.core.columns.column_file import ColumnShard, column_path, find_column, read_column, write_column
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.inspect import inspect

EVIL = """\
import os, pathlib
with pathlib.Path(os.environ["RAN"]).open("a") as file:
    file.write(__name__ + "\\n")

def joined(*samples):
    return samples[0]

def number(sample):
    return 1
"""


@pytest.fixture
def import_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the attacker's modules write when they are imported. They are on Python's path."""
    monkeypatch.setenv("RAN", str(tmp_path / "ran"))
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "wds_evil.py").write_text(EVIL)
    (tmp_path / "modules" / "wds_evil_package").mkdir()
    (tmp_path / "modules" / "wds_evil_package" / "__init__.py").write_text(EVIL)
    (tmp_path / "modules" / "wds_evil_package" / "inner.py").write_text(EVIL)
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    return tmp_path / "ran"


@pytest.fixture
def dataset(tmp_path: Path) -> str:
    return a_dataset(tmp_path / "data", 12)


def first_sample(path: Any, **options: Any) -> Any:
    (sample,) = take_batches(
        make_training_loader(path, batch_size=None, worker_config=raising_worker_config(), **options), 1
    )
    return sample


@pytest.mark.parametrize(
    "joiner",
    [
        "sympy:sympify",
        "subprocess:Popen",
        "os:system",
        "builtins:exec",
        "wds_evil:joined",
        "wds_evil_package.inner:joined",
        "{__module__: wds_evil, __function__: joined}",
        "{__module__: subprocess, __class__: Popen}",
        "{__module__: megatron.energon, __function__: get_train_dataset}",
        "{__module__: wdsctl.core.columns.spec, __function__: find_python}",
    ],
)
def test_joiner_named_by_blend_file_is_not_run(joiner: str, dataset: str, import_log: Path, tmp_path: Path) -> None:
    blend = tmp_path / "blend.yaml"
    blend.write_text(f"splits:\n  train:\n    join:\n    - path: data\n    - path: data\n    joiner: {joiner}\n")

    with pytest.raises(UsageError, match="only runs with trust_code") as raised:
        first_sample(str(blend))

    assert (raised.value.code, raised.value.where) == ("WDS270", f"{blend}:6")
    assert not import_log.exists()
    assert not {"wds_evil", "wds_evil_package"} & set(sys.modules)
    assert not (Path(dataset) / ".wdsctl" / "joins").exists()  # the join is not computed before the check either


@pytest.mark.parametrize(
    "declaration",
    [
        "sample_type: wds_evil:Kept",
        "sample_type: wds_evil_package.inner:Kept",
        "sample_type: subprocess:Popen",
        "sample_type: {__module__: wds_evil, __class__: Kept}",
        "__module__: wds_evil\n__class__: Kept",
    ],
)
def test_sample_type_named_by_dataset_yaml_is_not_imported(declaration: str, dataset: str, import_log: Path) -> None:
    path = Path(dataset) / ".wdsctl" / "dataset.yaml"
    path.write_text(f"subflavors: {{a: 1}}\n{declaration}\nfield_map: {{text: txt}}\n")

    with pytest.raises(UsageError, match="only runs with trust_code") as raised:
        first_sample(dataset)

    assert raised.value.code == "WDS270"
    assert raised.value.where.startswith(f"{path}:")
    assert not import_log.exists()


def test_sample_type_of_join_member_is_not_imported(dataset: str, import_log: Path) -> None:
    (Path(dataset) / ".wdsctl" / "dataset.yaml").write_text("sample_type: wds_evil:Kept\nfield_map: {text: txt}\n")

    with pytest.raises(UsageError, match="only runs with trust_code"):
        first_sample({"join": {"a": {"path": dataset}, "b": {"path": dataset}}})

    assert not import_log.exists()


def test_commands_import_no_code_named_by_data(
    dataset: str, import_log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path(dataset) / ".wdsctl" / "dataset.yaml").write_text("sample_type: wds_evil:Kept\nfield_map: {text: txt}\n")
    blend = tmp_path / "blend.yaml"
    blend.write_text("splits:\n  train:\n    join: [{path: data}, {path: data}]\n    joiner: wds_evil:joined\n")
    for arguments in (
        ("inspect", dataset),
        ("inspect", str(blend)),
        ("validate", dataset, "--level", "schema"),
        ("validate", str(blend)),
        ("index", dataset, "--rebuild"),
        ("prepare", dataset, "--no-input"),
        ("split", dataset, "8,2"),
        ("convert", dataset, str(tmp_path / "out")),
    ):
        assert main(list(arguments)) in (0, 1, 5), capsys.readouterr().err
    assert not import_log.exists()
    assert not {"wds_evil", "wds_evil_package"} & set(sys.modules)


def plant_column(dataset: str, function: str) -> None:
    """Give the dataset a column that says that this function has computed it."""
    index(dataset, columns={"n": "tests.core.counting:words", "bytes": "chars:txt"})
    place = locate(dataset)
    column = find_column(place, "n", 1)
    facts = replace(column.facts, function=function, source="", summary=None)
    os.unlink(column_path(place, "n", 1))
    at, pieces = 0, []
    for i, (shard, samples, _) in enumerate(column.table.tolist()):
        digest = column.shard_digests.tobytes()[16 * i : 16 * (i + 1)]
        pieces.append(ColumnShard(shard, digest, 0, column.values[at : at + samples]))
        at += samples
    write_column(column_path(place, "n", 1), facts, iter(pieces))
    assert read_column(column_path(place, "n", 1)).facts.function == function


@pytest.mark.parametrize("function", ["wds_evil:number", "wds_evil_package.inner:number"])
def test_module_named_by_column_of_dataset_is_hashed_and_not_imported(
    dataset: str, import_log: Path, function: str
) -> None:
    plant_column(dataset, function)

    assert {each.name: each.state for each in inspect(dataset).columns} == {"n": "outdated", "bytes": "current"}
    assert f"{function}, a function that the dataset names" in index(dataset).findings[0].message
    assert not import_log.exists()


def test_huge_module_named_by_column_is_not_read(dataset: str, import_log: Path) -> None:
    plant_column(dataset, "wds_huge:number")
    huge = import_log.parent / "modules" / "wds_huge.py"
    huge.write_text(EVIL)
    os.truncate(huge, 1 << 40)

    assert {each.name: each.state for each in inspect(dataset).columns} == {"n": "current", "bytes": "current"}


def test_index_does_not_run_function_named_by_column_of_dataset(dataset: str, import_log: Path) -> None:
    plant_column(dataset, "wds_evil:number")
    a_dataset(Path(dataset), 40)
    report = index(dataset, rebuild=True)

    assert {each.name: each.state for each in report.columns} == {"n": "outdated", "bytes": "made"}
    assert "running wds_evil:number, a function that the dataset names" in report.findings[0].message
    assert not import_log.exists()


def plant_modules(folder: str) -> None:
    """Write modules of the attacker beside the shards, named like every module that wdsctl might import."""
    names = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions()}
    for name in names:
        if name.isidentifier() and name not in ("wdsctl", "__future__"):
            (Path(folder) / f"{name}.py").write_text(EVIL + "raise ImportError('evil')\n")


def run_in(folder: str | Path, arguments: tuple[str, ...], *, module: bool = False, **env: str) -> Any:
    console = (str(Path(sys.executable).with_name("wdsctl")),)
    command = (sys.executable, "-m", "wdsctl") if module else console
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(
        (*command, *arguments),
        cwd=folder,
        env=environment | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("index", ".", "--rebuild", "--workers", "2", "--hash"),
        ("index", ".", "--column", "bytes=size:txt", "--column", "letters=chars:txt", "--workers", "2"),
        ("validate", ".", "--level", "content", "--workers", "2"),
        ("convert", ".", "../out", "--workers", "2"),
        ("prepare", ".", "--no-input", "--workers", "2"),
    ],
)
def test_commands_import_nothing_from_dataset_in_current_folder(
    arguments: tuple[str, ...], dataset: str, import_log: Path
) -> None:
    a_dataset(Path(dataset), 80)
    plant_modules(dataset)
    result = run_in(dataset, arguments)

    assert (result.returncode, import_log.exists()) == (0, False), (
        import_log.exists() and import_log.read_text(),
        result.stderr,
    )


def test_python_m_wdsctl_imports_nothing_from_current_folder(dataset: str, import_log: Path) -> None:
    a_dataset(Path(dataset), 80)
    for name in ("typer", "rich", "numpy", "yaml", "click", "json", "multiprocessing"):
        (Path(dataset) / f"{name}.py").write_text(EVIL)
    result = run_in(dataset, ("index", ".", "--rebuild", "--workers", "2"), module=True)

    assert (result.returncode, import_log.exists()) == (0, False), result.stderr


def test_column_function_in_dataset_folder_needs_trust_code(dataset: str, import_log: Path, tmp_path: Path) -> None:
    (Path(dataset) / "lengths.py").write_text(EVIL)
    arguments = ("index", ".", "--column", "n=lengths:number")
    result = run_in(dataset, arguments)

    assert (result.returncode, "WDS271" in result.stderr, import_log.exists()) == (2, True, False), result.stderr
    assert "(lengths.py)" in result.stderr  # the module in the current folder
    assert run_in(dataset, (*arguments, "--trust-code")).returncode == 0
    assert import_log.exists()


def test_column_function_may_come_from_current_folder(dataset: str, import_log: Path, tmp_path: Path) -> None:
    (tmp_path / "lengths.py").write_text(EVIL)

    assert run_in(tmp_path, ("index", "data", "--column", "n=lengths:number")).returncode == 0
    assert import_log.exists()


def test_column_function_on_pythonpath_imports_nothing_from_current_folder(
    dataset: str, import_log: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my_lengths.py").write_text("def number(sample):\n    return 3\n")
    (tmp_path / "downloads").mkdir()
    plant_modules(str(tmp_path / "downloads"))
    arguments = ("index", dataset, "--column", "n=my_lengths:number")
    result = run_in(tmp_path / "downloads", arguments, PYTHONPATH=str(tmp_path / "mine"))

    assert (result.returncode, import_log.exists()) == (0, False), result.stderr


def test_spawned_workers_import_nothing_from_current_folder(dataset: str, import_log: Path) -> None:
    for name in ("json", "multiprocessing", "numpy", "torch", "wds_evil", "socket"):
        (Path(dataset) / f"{name}.py").write_text(EVIL)
    script = import_log.parent / "train.py"
    script.write_text(
        "from wdsctl.loader import get_loader, get_train_dataset, WorkerConfig\n"
        "if __name__ == '__main__':\n"
        "    for method in ('spawn', 'forkserver'):\n"
        "        workers = WorkerConfig(0, 1, num_workers=1, start_method=method)\n"
        "        dataset = get_train_dataset('.', batch_size=4, worker_config=workers)\n"
        "        with get_loader(dataset) as loader:\n"
        "            print(len(next(iter(loader)).txt))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    result = children.run(
        (sys.executable, str(script)),
        parent="training",  # the workers are fresh processes
        cwd=dataset,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert (result.returncode, result.stdout, import_log.exists()) == (0, "4\n4\n", False), result.stderr


def test_load_state_dict_imports_no_code_named_by_state(dataset: str, import_log: Path) -> None:
    loader = make_training_loader(dataset)
    take_batches(loader, 1)
    state = loader.state_dict()
    state["plan"]["recipe"] = "wds_evil:joined"

    with pytest.warns(UserWarning, match="other hooks"):
        make_training_loader(dataset).load_state_dict(add_digests(state))

    assert not import_log.exists()
