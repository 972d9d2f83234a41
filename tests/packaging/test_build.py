from __future__ import annotations

import email
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, Built
from tests.packaging.smoke import smoke
from wdsctl.core.version import VERSION

PACKAGE_FILES = {
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "wdsctl").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts and path.suffix in (".py", ".typed", ".sql", ".md", ".txt")
}


def test_wheel_of_sdist_contains_exactly_the_package(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        names = set(archive.namelist())
        changed = [name for name in names & PACKAGE_FILES if archive.read(name) != (ROOT / name).read_bytes()]
    assert changed == []
    info = f"wdsctl-{VERSION}.dist-info/"
    files = {name for name in names if not name.startswith(info)}
    readmes = {name for name in PACKAGE_FILES if name.endswith("README.md")}  # of subpackages, for readers of the code
    assert files == PACKAGE_FILES - readmes
    assert files >= {"wdsctl/py.typed", "wdsctl/core/codes.md"}
    assert [name for name in files if name.endswith(".sql")]
    assert "wdsctl/core/init/templates/loop.py.txt" in files
    assert f"{info}licenses/LICENSE" in names


def test_metadata_has_extras_and_no_torch_in_base(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"wdsctl-{VERSION}.dist-info/METADATA"))
    assert metadata["Version"] == VERSION
    assert metadata["Requires-Python"] == ">=3.10"
    needed = metadata.get_all("Requires-Dist") or []
    assert [each for each in needed if each.startswith("torch") and "extra" not in each] == []
    assert 'torch>=2.4; extra == "loader"' in needed
    assert set(metadata.get_all("Provides-Extra") or []) >= {"loader", "s3", "gcs", "azure", "parquet", "all", "dev"}


def test_sdist_contains_no_tests(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= set(names)
    assert [name for name in names if name.startswith(("tests", "benchmarks", "examples"))] == []


def test_installed_wheel_passes_smoke_test(built: Built, tmp_path: Path) -> None:
    """The wheel is installed outside the working tree without dependencies; this environment provides them."""
    pip = (sys.executable, "-m", "pip", "install", "-q")
    subprocess.run(
        [*pip, "--no-deps", "--no-compile", "--target", str(tmp_path / "site"), built.wheel], check=True, timeout=120
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYTHONSAFEPATH": "1"}
    location = subprocess.run(
        [sys.executable, "-c", "import wdsctl; print(wdsctl.__file__)"],
        check=True,
        capture_output=True,
        text=True,
        env=env,
        cwd=tmp_path,
    )
    assert location.stdout.startswith(str(tmp_path))
    smoke((sys.executable, "-m", "wdsctl"), tmp_path / "smoke", env)


@pytest.mark.slow
def test_pip_installs_wheel_in_new_environment_without_torch(built: Built, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=120)
    python = tmp_path / "venv" / "bin" / "python"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", built.wheel],
        check=True,
        timeout=280,
        env=env,
    )
    listed = subprocess.run([python, "-m", "pip", "list"], check=True, capture_output=True, text=True, env=env)
    names = {line.split()[0].lower() for line in listed.stdout.splitlines()}
    assert names.isdisjoint({"torch", "s3fs", "gcsfs", "adlfs", "webdataset", "pyarrow", "aiohttp"})

    smoke((str(tmp_path / "venv" / "bin" / "wdsctl"),), tmp_path / "smoke", env)
    result = subprocess.run(
        [python, "-c", "from wdsctl.loader import get_loader"], capture_output=True, text=True, env=env, check=False
    )
    assert "pip install 'wdsctl[loader]'" in result.stderr
