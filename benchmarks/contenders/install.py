"""Installs wdsctl into a fresh environment with pip, as a user does, and says how large the environment is.

python -m benchmarks.contenders.install [--extra NAME] [--commit ID]
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from benchmarks.places import REPOSITORY


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--extra", default="")
    parser.add_argument("--commit", default="HEAD")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        sources, venv = Path(temporary, "sources"), Path(temporary, "venv")
        archive = subprocess.run(["git", "archive", given.commit], cwd=REPOSITORY, check=True, capture_output=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            for member in tar:  # the repository's own files
                tar.extract(member, sources)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        requirement = f"{sources}[{given.extra}]" if given.extra else str(sources)
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run(
            [venv / "bin" / "python", "-m", "pip", "install", "-q", "-c", REPOSITORY / "constraints.txt", requirement],
            check=True,
            env=env,
        )
        subprocess.run([venv / "bin" / "wdsctl", "--version"], check=True, env=env, stdout=subprocess.DEVNULL)
        packages = len(list(venv.glob("lib/python*/site-packages/*.dist-info")))
        blocks = sum(path.lstat().st_blocks for path in venv.rglob("*"))
    print(json.dumps({"environment_bytes": 512 * blocks, "packages": packages}))


if __name__ == "__main__":
    main()
