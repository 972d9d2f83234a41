"""What data names is not run: no module is imported because a blend file, a dataset.yaml or a column says so, or
because it lies in the folder that one stands in."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import a_dataset
from tests.loader.running import strict, taken, training_of
from wdsctl.core.columns.column_file import ColumnShard, column_path, find_column, read_column, write_column
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import index

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
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a module of the attacker's leaves when it is imported. It lies where Python finds it."""
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


def first(path: Any, **options: Any) -> Any:
    (sample,) = taken(training_of(path, batch_size=None, worker_config=strict(), **options), 1)
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
def test_a_joiner_that_a_blend_file_names_is_not_run(joiner: str, dataset: str, ran: Path, tmp_path: Path) -> None:
    blend = tmp_path / "blend.yaml"
    blend.write_text(f"splits:\n  train:\n    join:\n    - path: data\n    - path: data\n    joiner: {joiner}\n")

    with pytest.raises(UsageError, match="only runs with trust_code") as raised:
        first(str(blend))

    assert (raised.value.code, raised.value.where) == ("WDS270", f"{blend}:6")
    assert not ran.exists()
    assert not {"wds_evil", "wds_evil_package"} & set(sys.modules)
    assert not (Path(dataset) / ".wdsctl" / "joins").exists()  # nor is the join computed before


@pytest.mark.parametrize(
    "named",
    [
        "sample_type: wds_evil:Kept",
        "sample_type: wds_evil_package.inner:Kept",
        "sample_type: subprocess:Popen",
        "sample_type: {__module__: wds_evil, __class__: Kept}",
        "__module__: wds_evil\n__class__: Kept",
    ],
)
def test_a_sample_type_that_dataset_yaml_names_is_not_imported(named: str, dataset: str, ran: Path) -> None:
    path = Path(dataset) / ".wdsctl" / "dataset.yaml"
    path.write_text(f"subflavors: {{a: 1}}\n{named}\nfield_map: {{text: txt}}\n")

    with pytest.raises(UsageError, match="only runs with trust_code") as raised:
        first(dataset)

    assert raised.value.code == "WDS270"
    assert raised.value.where.startswith(f"{path}:")
    assert not ran.exists()


def test_a_sample_type_of_a_member_of_a_join_is_not_imported(dataset: str, ran: Path) -> None:
    (Path(dataset) / ".wdsctl" / "dataset.yaml").write_text("sample_type: wds_evil:Kept\nfield_map: {text: txt}\n")

    with pytest.raises(UsageError, match="only runs with trust_code"):
        first({"join": {"a": {"path": dataset}, "b": {"path": dataset}}})

    assert not ran.exists()


def test_commands_that_need_no_code_import_none(dataset: str, ran: Path, tmp_path: Path) -> None:
    (Path(dataset) / ".wdsctl" / "dataset.yaml").write_text("sample_type: wds_evil:Kept\nfield_map: {text: txt}\n")
    blend = tmp_path / "blend.yaml"
    blend.write_text("splits:\n  train:\n    join: [{path: data}, {path: data}]\n    joiner: wds_evil:joined\n")
    for words in (
        ("inspect", dataset),
        ("inspect", str(blend)),
        ("validate", dataset, "--level", "schema"),
        ("validate", str(blend)),
        ("index", dataset, "--rebuild"),
        ("prepare", dataset, "--no-input"),
        ("split", dataset, "8,2"),
        ("convert", dataset, str(tmp_path / "out")),
    ):
        done = ran_in(tmp_path, words, PYTHONPATH=str(tmp_path / "modules"))
        assert done.returncode in (0, 1, 5), done.stderr
    assert not ran.exists()


def test_a_column_that_the_dataset_brings_is_not_worked_out_by_its_function(dataset: str, ran: Path) -> None:
    index(dataset, columns={"n": "tests.core.counting:words", "bytes": "chars:txt"})
    place = locate(dataset)
    column = find_column(place, "n", 1)
    facts = replace(column.facts, function="wds_evil:number", source="", summary=None)
    os.unlink(column_path(place, "n", 1))
    at, pieces = 0, []
    for i, (shard, samples, _) in enumerate(column.table.tolist()):
        mark = column.shard_digests.tobytes()[16 * i : 16 * (i + 1)]
        pieces.append(ColumnShard(shard, mark, 0, column.values[at : at + samples]))
        at += samples
    write_column(column_path(place, "n", 1), facts, iter(pieces))
    assert read_column(column_path(place, "n", 1)).facts.function == "wds_evil:number"

    a_dataset(Path(dataset), 40)
    report = index(dataset, rebuild=True)

    assert {each.name: each.state for each in report.columns} == {"n": "outdated", "bytes": "made"}
    assert "running wds_evil:number, a function that the dataset names" in report.findings[0].message
    assert not ran.exists()


def planted(folder: str) -> None:
    """Modules of the attacker's beside the shards, by the name of everything that wdsctl might import."""
    names = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions()}
    for name in names:
        if name.isidentifier() and name not in ("wdsctl", "__future__"):
            (Path(folder) / f"{name}.py").write_text(EVIL + "raise ImportError('evil')\n")


def ran_in(folder: str | Path, words: tuple[str, ...], *, module: bool = False, **env: str) -> Any:
    console = (str(Path(sys.executable).with_name("wdsctl")),)
    command = (sys.executable, "-m", "wdsctl") if module else console
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(
        (*command, *words), cwd=folder, env=kept | env, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(
    "words",
    [
        ("index", ".", "--rebuild", "--workers", "2", "--hash"),
        ("index", ".", "--column", "bytes=size:txt", "--column", "letters=chars:txt", "--workers", "2"),
        ("validate", ".", "--level", "content", "--workers", "2"),
        ("convert", ".", "../out", "--workers", "2"),
        ("prepare", ".", "--no-input", "--workers", "2"),
    ],
)
def test_commands_import_nothing_from_the_dataset_that_they_are_run_in(
    words: tuple[str, ...], dataset: str, ran: Path
) -> None:
    a_dataset(Path(dataset), 80)
    planted(dataset)
    done = ran_in(dataset, words)

    assert (done.returncode, ran.exists()) == (0, False), (ran.exists() and ran.read_text(), done.stderr)


def test_python_m_imports_nothing_from_the_dataset_either(dataset: str, ran: Path) -> None:
    a_dataset(Path(dataset), 80)
    for name in ("typer", "rich", "numpy", "yaml", "click", "json", "multiprocessing"):
        (Path(dataset) / f"{name}.py").write_text(EVIL)
    done = ran_in(dataset, ("index", ".", "--rebuild", "--workers", "2"), module=True)

    assert (done.returncode, ran.exists()) == (0, False), done.stderr


def test_a_function_of_a_column_does_not_come_from_the_dataset(dataset: str, ran: Path, tmp_path: Path) -> None:
    (Path(dataset) / "lengths.py").write_text(EVIL)
    words = ("index", ".", "--column", "n=lengths:number")
    done = ran_in(dataset, words)

    assert (done.returncode, "WDS271" in done.stderr, ran.exists()) == (2, True, False), done.stderr
    assert "(lengths.py)" in done.stderr  # beside which it was run
    assert ran_in(dataset, (*words, "--trust-code")).returncode == 0
    assert ran.exists()


def test_a_function_of_a_column_may_come_from_ones_own_folder(dataset: str, ran: Path, tmp_path: Path) -> None:
    (tmp_path / "lengths.py").write_text(EVIL)

    assert ran_in(tmp_path, ("index", "data", "--column", "n=lengths:number")).returncode == 0
    assert ran.exists()


def test_a_column_of_a_module_that_is_elsewhere_imports_nothing_from_the_current_folder(
    dataset: str, ran: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my_lengths.py").write_text("def number(sample):\n    return 3\n")
    (tmp_path / "downloads").mkdir()
    planted(str(tmp_path / "downloads"))
    words = ("index", dataset, "--column", "n=my_lengths:number")
    done = ran_in(tmp_path / "downloads", words, PYTHONPATH=str(tmp_path / "mine"))

    assert (done.returncode, ran.exists()) == (0, False), done.stderr


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_fresh_workers_import_nothing_from_the_current_folder(start_method: str, dataset: str, ran: Path) -> None:
    for name in ("json", "multiprocessing", "numpy", "torch", "wds_evil", "socket"):
        (Path(dataset) / f"{name}.py").write_text(EVIL)
    script = ran.parent / "train.py"
    script.write_text(
        "from wdsctl.loader import get_loader, get_train_dataset, WorkerConfig\n"
        "if __name__ == '__main__':\n"
        f"    workers = WorkerConfig(0, 1, num_workers=1, start_method={start_method!r})\n"
        "    dataset = get_train_dataset('.', batch_size=4, worker_config=workers)\n"
        "    with get_loader(dataset) as loader:\n"
        "        print(len(next(iter(loader)).txt))\n"
    )
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        (sys.executable, str(script)), cwd=dataset, env=kept, capture_output=True, text=True, check=False, timeout=120
    )

    assert (done.returncode, ran.exists()) == (0, False), done.stderr


def test_a_state_of_a_training_names_no_code_that_is_imported(dataset: str, ran: Path) -> None:
    loader = training_of(dataset)
    taken(loader, 1)
    state = loader.state_dict()
    state["plan"]["recipe"] = "wds_evil:joined"

    with pytest.warns(UserWarning, match="other hooks"):
        training_of(dataset).load_state_dict(state)

    assert not ran.exists()
