"""`make matrix`: install the wheel with every available Python and torch, and test each.

For every Python on this machine from the declared minimum on: a new environment with the base, `prepare`, `inspect`,
`validate` and `doctor`; then for each version of torch the loader's first batch. Versions that cannot be tested are
listed with the reason. The exit code is 1 if one that was installed fails.

    python -m tests.packaging.matrix [--torch 2.4.0,2.13.0] [--cuda] [--only 3.10,3.12] [--minimum]
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.packaging.conftest import ROOT, build, copy_sources
from tests.packaging.smoke import SmokeFailed, first_batch, smoke

MINIMUM_MINOR = 10  # of Python 3; tests/packaging/test_matrix.py compares it with pyproject.toml
LATER_MINORS = 8  # number of versions after the minimum to look for
MINIMUM_TORCH = "2.4.0"

_VERSION_SCRIPT = "import platform, sys; print(sys.version_info[1], platform.python_version(), sys.implementation.name)"


class Attempt(NamedTuple):
    python: str
    torch: str  # empty: the base
    result: str  # ok, failed, or the reason for skipping it
    seconds: float = 0.0
    size_mb: int = 0  # of the environment


def find_pythons() -> dict[int, tuple[str, str]]:
    """Map minor versions to (interpreter, full version): the newest patch release of each, from PATH and pyenv."""
    found: dict[int, tuple[str, str]] = {}
    minors = range(MINIMUM_MINOR, MINIMUM_MINOR + LATER_MINORS)
    pyenv = os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")
    candidates = [
        *glob.glob(f"{pyenv}/versions/3.*/bin/python"),
        *(f"python3.{minor}" for minor in minors),
        sys.executable,
    ]
    for candidate in candidates:
        try:
            output = subprocess.run([candidate, "-c", _VERSION_SCRIPT], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):  # not on this machine, or a shim of pyenv without a version
            continue
        minor, version, implementation = output.stdout.split()
        is_newer = int(minor) not in found or _as_tuple(version) > _as_tuple(found[int(minor)][1])
        if int(minor) in minors and implementation == "cpython" and is_newer:
            found[int(minor)] = (candidate, version)
    return dict(sorted(found.items()))


def _as_tuple(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def torch_versions(python: str, env: Mapping[str, str]) -> list[str]:
    """Return the oldest, the pinned and the newest version of torch for a Python; pip chooses the newest."""
    listed = _pip(python, "index", "versions", "torch", env=env)
    offered = re.findall(r"\d+\.\d+\.\d+", next((line for line in listed.splitlines() if "Available" in line), ""))
    newest = str(_resolve(python, f"torch>={MINIMUM_TORCH}", env)["version"]).partition("+")[0]
    pins = re.findall(r"^torch==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    usable = sorted({each for each in offered if _as_tuple(each) >= _as_tuple(MINIMUM_TORCH)}, key=_as_tuple)
    return list(dict.fromkeys([*usable[:1], *(pin for pin in pins if pin in usable), newest]))


def reason_to_skip_torch(python: str, version: str, env: Mapping[str, str]) -> str:
    """Return why a torch is not installed; empty if the registry has a CPU build, which needs no CUDA packages."""
    try:
        metadata = _resolve(python, f"torch=={version}", env)
    except SmokeFailed as error:
        return f"not offered for this Python: {str(error)[:300]}"
    needed = [each for each in metadata.get("requires_dist", ()) if each.startswith(("nvidia-", "cuda-"))]
    return f"only a build for CUDA ({len(needed)} more packages); --cuda installs it" if needed else ""


def _resolve(python: str, requirement: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the metadata of what pip would install for a requirement, without installing it."""
    words = ("--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", "-", requirement)
    (item,) = json.loads(_pip(python, "install", *words, env=env))["install"]
    found: dict[str, Any] = item["metadata"]
    return found


def minimum_requirements() -> str:
    """Return the declared minimum of every package of the base as constraints: the last release of each series."""
    text = (ROOT / "pyproject.toml").read_text()
    base = text[text.index("\ndependencies = [") : text.index("[project.optional-dependencies]")]
    return "\n".join(f"{name}=={version}.*" for name, version in re.findall(r'"([a-z0-9]+)>=([0-9.]+)', base)) + "\n"


def _pip(python: str, *words: str, env: Mapping[str, str]) -> str:
    result = subprocess.run(
        [python, "-m", "pip", *words], capture_output=True, text=True, env=dict(env), timeout=1800, check=False
    )
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise SmokeFailed(f"pip {words[0]} failed: {' '.join(lines)[:1500]}")
    return result.stdout


def try_python(
    interpreter: str, version: str, wheel: Path, folder: Path, options: argparse.Namespace
) -> Iterator[Attempt]:
    """Test the base, then each torch, in one environment."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    python = str(folder / "venv" / "bin" / "python")
    constraints = ROOT / "constraints.txt"
    if options.minimum:
        constraints = folder / "minimum.txt"
        constraints.parent.mkdir(parents=True)
        constraints.write_text(minimum_requirements())
    start = time.monotonic()
    try:
        subprocess.run([interpreter, "-m", "venv", str(folder / "venv")], check=True, capture_output=True)
        _pip(python, "install", "--quiet", "--upgrade", "pip", env=env)
        _pip(python, "install", "--quiet", "-c", str(constraints), str(wheel), env=env)
        seconds = time.monotonic() - start
        shards = smoke((str(folder / "venv" / "bin" / "wdsctl"),), folder / "smoke", env)
    except (SmokeFailed, subprocess.SubprocessError) as error:
        yield Attempt(version, "", f"failed: {error}")
        return
    yield Attempt(version, "", "ok", seconds, _size_mb(folder / "venv"))
    for torch in options.torch or torch_versions(python, env):
        reason = reason_to_skip_torch(python, torch, env)
        if reason and not (options.cuda and "--cuda" in reason):
            yield Attempt(version, torch, reason)
            continue
        start = time.monotonic()
        try:
            _pip(python, "install", "--quiet", f"torch=={torch}", "webdataset", env=env)
            seconds = time.monotonic() - start
            first_batch(python, shards, env)
            yield Attempt(version, torch, "ok", seconds, _size_mb(folder / "venv"))
        except (SmokeFailed, subprocess.SubprocessError) as error:
            yield Attempt(version, torch, f"failed: {error}", time.monotonic() - start)


def _size_mb(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*")) // 10**6


def missing_pythons(pythons: Mapping[int, tuple[str, str]]) -> list[str]:
    """Return the Python versions that pyproject.toml declares and this machine lacks."""
    stated = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    return [f"3.{minor}" for minor in stated if int(minor) not in pythons]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.matrix")
    words = lambda text: text.split(",") if text else []  # noqa: E731 - two options split alike
    parser.add_argument(
        "--torch", type=words, default=[], help="such as 2.4.0,2.13.0 [default: oldest, pinned, newest]"
    )
    parser.add_argument("--only", type=words, default=[], help="such as 3.10,3.12 [default: all]")
    parser.add_argument("--cuda", action="store_true", help="install builds for CUDA, several gigabytes each")
    parser.add_argument("--minimum", action="store_true", help="the declared minimum of the base's packages")
    options = parser.parse_args(argv)
    pythons = find_pythons()
    with tempfile.TemporaryDirectory(prefix="wdsctl-matrix-") as temporary:
        folder = Path(temporary)
        wheel = build(copy_sources(folder / "sources"), folder / "dist").wheel
        attempts = [Attempt(version, "", "no such interpreter on this machine") for version in missing_pythons(pythons)]
        for each in attempts:
            print_row(each)
        for minor, (interpreter, version) in pythons.items():
            if options.only and f"3.{minor}" not in options.only:
                continue
            for each in try_python(interpreter, version, wheel, folder / f"3.{minor}", options):
                attempts.append(each)
                print_row(each)
    return 1 if any(each.result.startswith("failed") for each in attempts) else 0


def print_row(each: Attempt) -> None:
    target = f"torch {each.torch}" if each.torch else "base"
    cost = f"{each.seconds:6.0f} s {each.size_mb:6,} MB" if each.size_mb else " " * 18
    sys.stdout.write(f"Python {each.python:8} {target:14} {cost}  {each.result}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
