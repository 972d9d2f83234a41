from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.core.extras import EXTRA_OF_PACKAGE, install_command, require_packages
from wdsctl.core.inspect.doctor import BASE_PACKAGES
from wdsctl.core.storage.remote_errors import DRIVER_PACKAGES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Extras that wdsctl does not need itself: for development, for the examples, and those that combine others.
NON_RUNTIME_EXTRAS = ("all", "dev", "examples")
#: The packages that the project names; each is in the base or in an extra.
NAMED = {"typer", "rich", "webdataset", "pyyaml", "sqlalchemy", "fsspec", "s3fs", "torch", "pillow", "av"}


def names_of(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=; ]", each, maxsplit=1)[0] for each in requirements}


def test_extra_of_package_matches_pyproject() -> None:
    extras = PROJECT["optional-dependencies"]
    actual = {
        package: extra for extra in extras if extra not in NON_RUNTIME_EXTRAS for package in names_of(extras[extra])
    }
    assert actual == EXTRA_OF_PACKAGE
    assert extras["all"] == [f"wdsctl[{','.join(extra for extra in extras if extra not in NON_RUNTIME_EXTRAS)}]"]
    assert "wdsctl[all]" in extras["dev"]


def test_base_has_no_torch_and_every_named_package_is_listed() -> None:
    base = names_of(PROJECT["dependencies"])
    assert base.isdisjoint(EXTRA_OF_PACKAGE)
    assert base - {"tomli"} == set(BASE_PACKAGES)
    assert base | set(EXTRA_OF_PACKAGE) >= NAMED


def test_store_drivers_are_in_extra_of_their_scheme() -> None:
    for scheme, extra in (("s3", "s3"), ("gs", "gcs"), ("az", "azure"), ("https", "http")):
        assert install_command(DRIVER_PACKAGES[scheme]) == f"pip install 'wdsctl[{extra}]'"


def test_missing_package_is_reported_with_install_command() -> None:
    with pytest.raises(UsageError) as caught, require_packages("the loader"):
        raise ModuleNotFoundError("No module named 'torch'", name="torch.utils.data")
    assert (caught.value.code, caught.value.hint) == ("WDS236", "pip install 'wdsctl[loader]'")
    assert caught.value.message == "the loader needs torch, which is not installed"


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("x", name="mine"), ModuleNotFoundError("x"), ImportError("x", name="torch")]
)
def test_require_packages_passes_other_import_errors(error: ImportError) -> None:
    with pytest.raises(ImportError) as caught, require_packages("the loader"):
        raise error
    assert caught.value is error


BLOCK_PACKAGES = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None
import wdsctl
"""


def run_without(packages: str, program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCK_PACKAGES + program, packages, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)},
    )


def raw_folder(folder: Path) -> None:
    (folder / "raw").mkdir()
    for i in range(4):
        (folder / "raw" / f"{i}.txt").write_text(f"text {i}")


def test_core_functions_work_without_optional_packages(tmp_path: Path) -> None:
    raw_folder(tmp_path)
    program = """
folder = sys.argv[2]
wdsctl.prepare(f"{folder}/raw", f"{folder}/shards", split="1,1")
print(wdsctl.inspect(f"{folder}/shards").samples, wdsctl.validate(f"{folder}/shards", level="schema").findings)
wdsctl.convert(f"{folder}/shards", f"{folder}/other")
print(wdsctl.inspect(f"{folder}/other").samples)
"""
    completed = run_without(",".join(EXTRA_OF_PACKAGE), program, tmp_path)
    assert (completed.returncode, completed.stdout) == (0, "4 ()\n4\n"), completed.stderr


@pytest.mark.parametrize(
    ("program", "what"),
    [
        ("from wdsctl.loader import get_train_dataset", "wdsctl.loader.get_train_dataset needs torch"),
        ("import wdsctl.loader; wdsctl.loader.Batch", "wdsctl.loader.Batch needs torch"),
        ("wdsctl.loader.SampleDecoder", "wdsctl.loader.SampleDecoder needs torch"),
        ("wdsctl.Dataset(sys.argv[2])", "wdsctl.Dataset needs torch"),
    ],
)
def test_loader_without_torch_reports_install_command(tmp_path: Path, program: str, what: str) -> None:
    completed = run_without(
        "torch", f"\ntry:\n    {program}\nexcept wdsctl.WdsctlError as error:\n    print(error)", tmp_path
    )
    assert completed.stdout == f"WDS236: {what}, which is not installed\n  hint: pip install 'wdsctl[loader]'\n", (
        completed.stderr
    )


def test_as_webdataset_without_webdataset_reports_install_command(tmp_path: Path) -> None:
    completed = run_without(
        "webdataset",
        "\ntry:\n    wdsctl.loader.as_webdataset\nexcept wdsctl.WdsctlError as error:\n    print(error)",
        tmp_path,
    )
    assert "needs webdataset" in completed.stdout, completed.stderr
    assert "pip install 'wdsctl[loader]'" in completed.stdout


def test_star_import_of_loader_works_without_webdataset(tmp_path: Path) -> None:
    program = "\nfrom wdsctl.loader import *\nprint(get_loader.__name__, 'as_webdataset' in globals())"

    assert run_without("webdataset", program, tmp_path).stdout == "get_loader False\n"


def test_command_on_store_without_driver_reports_install_command(tmp_path: Path) -> None:
    for url, extra in (("s3://bucket/d", "s3"), ("http://127.0.0.1:9/d/", "http")):
        program = f"""
from wdsctl.cli.main import main
sys.exit(main(["index", "{url}", "--catalog", sys.argv[2] + "/c"]))
"""
        completed = run_without("s3fs,aiohttp", program, tmp_path)
        assert completed.returncode == 3
        assert "error[WDS406]" in completed.stderr
        assert f"pip install 'wdsctl[{extra}]'" in completed.stderr
        assert "Traceback" not in completed.stderr
