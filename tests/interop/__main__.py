"""`make interop`: try the examples of examples/integrations with each framework, and write the results to the docs.

Each framework is installed into its own environment, which shares torch and other packages with the current one.
A framework is tried at its newest version and at that of a year ago; then the adapter's tests run there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.trial import RANKS_RESUMED, ROOT, counts_epochs

PAGE = ROOT / "docs" / "frameworks.md"
ENVIRONMENTS = Path(sys.prefix) / "interop"
BEGIN, END = "<!-- interop: begin (written by `make interop`) -->", "<!-- interop: end -->"
TORCH = "torch"
_INSTALL_SECONDS, _TRIAL_SECONDS = 1800, 900


@dataclass(frozen=True, slots=True)
class Framework:
    """`packages`: what pip installs for each version; empty for a dependency of the project. `tests`: the tests of the
    adapter. `older_script`: the script for all versions but the newest, if they need another one."""

    name: str
    distribution: str
    script: str
    packages: tuple[tuple[str, ...], ...] = ((),)
    tests: str = ""
    older_script: str = ""

    def script_for(self, packages: tuple[str, ...]) -> str:
        return self.script if packages == self.packages[0] else self.older_script or self.script


FRAMEWORKS = (
    Framework("DistributedDataParallel", "torch", "train_ddp.py"),
    Framework("FSDP2, torch.distributed.checkpoint", "torch", "train_fsdp2.py", tests="test_dcp.py"),
    Framework(
        "Lightning",
        "lightning",
        "train_lightning.py",
        (("lightning==2.6.6",), ("lightning==2.5.6",)),
        "test_lightning.py",
    ),
    Framework("Accelerate", "accelerate", "train_accelerate.py", (("accelerate==1.15.0",), ("accelerate==1.11.0",))),
    Framework(
        "transformers",
        "transformers",
        "train_transformers.py",
        (("transformers==5.23.0", "accelerate==1.15.0"), ("transformers==4.57.1", "accelerate==1.11.0")),
        "test_transformers.py",
    ),
    Framework(
        "torchtitan",
        "torchtitan",
        "train_torchtitan.py",
        (("torchtitan==0.3.0", "triton"), ("torchtitan==0.2.0", "triton")),
        "test_torchtitan.py",
        "train_torchtitan_0_2.py",
    ),
    Framework(
        "NeMo AutoModel",
        "nemo-automodel",
        "train_nemo_automodel.py",
        (("nemo-automodel==0.7.0",), ("nemo-automodel==0.1.2",)),
        "test_torchdata.py",
    ),
    Framework("Ray Train", "ray", "train_ray.py", (("ray[train]==2.60.0",), ("ray[train]==2.51.1",))),
)


def try_framework(framework: Framework, packages: tuple[str, ...]) -> str:
    """Try one version; returns its row of the table."""
    version = packages[0].rpartition("==")[2] if packages else "-"
    try:
        python = make_environment(packages)
        version = _run([python, "-c", _VERSION, framework.distribution], 120).strip().partition("+")[0]
    except RuntimeError as error:
        return f"| {framework.name} | {version} | not tried | it does not install here: {_cell(str(error))} |"
    try:
        with tempfile.TemporaryDirectory(prefix="interop-") as folder:
            script = framework.script_for(packages)
            output = _run([python, "-m", "tests.interop.trial", script, folder], _TRIAL_SECONDS)
        trial = json.loads(output.splitlines()[-1])
        if trial["problem"]:
            return f"| {framework.name} | {version} | no | {_cell(trial['problem'])} |"
        if framework.tests:
            path = f"tests/loader/integrations/{framework.tests}"
            _run([python, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", path], _TRIAL_SECONDS)
    except RuntimeError as error:
        return f"| {framework.name} | {version} | no | it fails here: {_cell(str(error))} |"
    resumed = f"2 to {' and '.join(map(str, RANKS_RESUMED))}, after step {trial['resumed_at'] - 1}"
    within = "; within an epoch" if counts_epochs(script) else ""
    return f"| {framework.name} | {version} | {resumed}{within} | same losses |"


_VERSION = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"


def make_environment(packages: tuple[str, ...]) -> str:
    """The interpreter of an environment with these packages. Raises RuntimeError with pip's last line."""
    if not packages:
        return sys.executable
    folder = ENVIRONMENTS / re.sub(r"[^\w.]+", "-", packages[0])
    python = folder / "bin" / "python"
    if (folder / ".ready").exists():
        return str(python)
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)], 300)
    site = _run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], 60).strip()
    (Path(site) / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    constraint = folder / "constraint.txt"
    constraint.write_text(f"{TORCH}=={_run([sys.executable, '-c', _VERSION, TORCH], 60).partition('+')[0].strip()}\n")
    install = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "-c", str(constraint)]
    _run([str(python), *install, *packages], _INSTALL_SECONDS)
    (folder / ".ready").touch()
    return str(python)


def _run(command: list[str], timeout: int) -> str:
    """Run a command in the repository, and return its stdout. Raises RuntimeError with its last line."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    try:
        completed = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"no result after {timeout} s") from error
    if completed.returncode:
        sys.stderr.write(completed.stdout + completed.stderr)
        lines = [line for line in (completed.stdout + completed.stderr).splitlines() if line.strip()]
        raise RuntimeError(next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else "failed"))
    return completed.stdout


def _cell(text: str) -> str:
    """A text for a cell of a table, without paths of this machine."""
    plain = re.sub(r"\x1b\[[\d;]*m|\([A-Z]\w+ pid=\d+\)|\[rank\d+\]:", "", text)
    plain = re.sub(r"(/[\w.@+-]+){2,}", "...", plain).replace("|", "/").strip()
    return plain if len(plain) <= 160 else plain[:157] + "..."


def write_page(rows: Sequence[str], *, without: str = "") -> None:
    """Replace rows of the table in docs/frameworks.md, by framework and version, or add them.

    `without`: a framework whose other rows are removed.
    """
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    kept = [line for line in table.splitlines()[3:] if not (without and line.startswith(f"| {without} |"))]
    merged = {"|".join(line.split("|")[:3]): line for line in [*kept, *rows]}
    order = [framework.name for framework in FRAMEWORKS]
    lines = sorted(merged.values(), key=lambda line: order.index(line.split(" | ")[0].removeprefix("| ")))
    head = "| Framework | Version | Resumed on other ranks | Result |\n|---|---|---|---|\n"
    PAGE.write_text(f"{before}{BEGIN}\n{head}" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")


def main() -> None:
    names = list(dict.fromkeys(framework.distribution for framework in FRAMEWORKS))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("frameworks", nargs="*", metavar="NAME", help=f"by default all of: {', '.join(names)}")
    parser.add_argument("--newest", action="store_true", help="without the versions of a year ago")
    args = parser.parse_args()
    unknown = [name for name in args.frameworks if name not in names]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(names)}")
    for framework in FRAMEWORKS:
        if args.frameworks and framework.distribution not in args.frameworks:
            continue
        rows = []
        for packages in framework.packages[: 1 if args.newest else None]:
            rows.append(try_framework(framework, packages))
            sys.stdout.write(rows[-1] + "\n")
            sys.stdout.flush()
        write_page(rows, without="" if args.newest else framework.name)


if __name__ == "__main__":
    main()
