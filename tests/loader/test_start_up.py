"""Modules that the loader imports, observed in a new interpreter."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import wdsctl.loader
from tests.loader.datasets import a_dataset, numbered

ROOT = Path(__file__).parents[2]

RUN = """
import sys
from itertools import islice
from wdsctl.loader import DefaultTaskEncoder, get_loader, get_train_dataset
loader = get_loader(get_train_dataset(sys.argv[1], batch_size=4))
for batch in islice(loader, 10):
    loader.save_state_rank()
loader.load_state_dict(loader.state_dict())
"""
IMPORTED = "\nprint(*sorted({name.split('.')[0] for name in sys.modules}))"


def run_python(program: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), 30, parts=numbered)


@pytest.mark.parametrize(
    "module",
    [
        "wdsctl.loader",
        "wdsctl.loader.order.shuffle",
        "wdsctl.loader.lanes.rank_lanes",
        "wdsctl.loader.lanes.lane_order",
        "wdsctl.loader.order.passes",
        "wdsctl.loader.lanes.mixture",
        "wdsctl.loader.packing",
        "wdsctl.loader.packing.options",
        "wdsctl.loader.packing.plan",
    ],
)
def test_order_blend_and_packing_modules_import_without_torch(module: str) -> None:
    imported = run_python(f"import sys\nimport {module}{IMPORTED}").split()

    assert not {"torch", "PIL", "av", "sqlalchemy", "typer", "rich"} & set(imported)


def test_training_imports_neither_command_line_nor_sqlalchemy(dataset: str) -> None:
    imported = run_python(RUN + IMPORTED, dataset).split()

    assert "torch" in imported
    assert not {"sqlalchemy", "typer", "rich", "click", "webdataset", "fsspec", "s3fs", "av"} & set(imported)


def test_exported_names_exist_and_are_not_modules() -> None:
    for name in wdsctl.loader.__all__:
        assert type(getattr(wdsctl.loader, name)).__name__ != "module", name
    assert dir(wdsctl.loader) == sorted(wdsctl.loader.__all__)


def test_exported_names_have_modules_and_imports_for_type_checkers() -> None:
    names = set(wdsctl.loader.__all__)
    tree = ast.parse(Path(wdsctl.loader.__file__).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)]
    imported = [alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]

    assert {*wdsctl.loader._MODULE_OF, *wdsctl.loader._CORE_MODULE_OF} == names
    assert sorted(imported) == sorted(names)


def test_star_import_provides_every_exported_name() -> None:
    program = "from wdsctl.loader import *\nimport wdsctl.loader as it\nprint(set(it.__all__) - set(globals()))"

    assert run_python(program).strip() == "set()"


def test_exported_names_differ_from_module_names() -> None:
    modules = {path.stem for path in Path(wdsctl.loader.__file__).parent.iterdir()}

    assert not modules & set(wdsctl.loader.__all__), "whichever is imported last would win"


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = wdsctl.loader.nothing
    with pytest.raises(ImportError):
        import_module("wdsctl.loader.nothing")
