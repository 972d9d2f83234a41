"""Commands and trainings on a hostile dataset access nothing outside of it; strace, if available, checks that."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.build import a_dataset, samples

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None
    or subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, check=False).returncode != 0,
    reason="strace is not here, or may not trace",
)

_CALLS = "trace=%file,connect,sendto,execve,ftruncate,fchmod,fchown"
_OPEN_CALL = re.compile(r"open(?:at2?)?\(.*\) = \d+<([^>]*)>")
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
_CHANGES = re.compile(r"\b(unlink|rename|mkdir|rmdir|symlink|link|chmod|chown|truncate|utime\w*|mknod)\w*\(")
_TEXTS = re.compile(r'"((?:[^"\\]|\\.)*)"')
_AT = re.compile(r"(?:AT_FDCWD|\d+)<([^>]*)>, \"((?:[^\"\\]|\\.)*)\"")

LOADING = """
import sys
from wdsctl.loader import WorkerConfig, get_loader, get_train_dataset, reraise_exception
path, workers = sys.argv[1], int(sys.argv[2])
dataset = get_train_dataset(path, batch_size=2, worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers))
with get_loader(dataset) as loader:
    for number, batch in enumerate(loader):
        if number == 99:
            break
print("done")
"""


class World:
    """A folder for the dataset and everything writable, and one outside with files to steal and to destroy."""

    def __init__(self, tmp_path: Path) -> None:
        self.inside, self.outside = tmp_path / "inside", tmp_path / "outside"
        self.inside.mkdir()
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text("the canary")
        (self.outside / "secret.jpg").write_text("the canary")
        a_dataset(self.outside / "shards", {"secret.tar": samples(0, 4)})
        self.home = self.inside / "home"
        self.home.mkdir()
        self.temporary = tempfile.mkdtemp()  # a short path, since names of sockets have at most 107 bytes

    def run(self, *arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of wdsctl, or a program, and fail if it accesses anything outside."""
        log = self.inside / "strace.log"
        program = [sys.executable, "-c", code] if code else [sys.executable, "-m", "wdsctl"]
        environment = {
            **os.environ,
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "TMPDIR": self.temporary,
            "PYTHONDONTWRITEBYTECODE": "1",
            "WDSCTL_ALLOW_PATH": "",
        }
        environment.pop("COVERAGE_PROCESS_START", None)
        tracing = ["strace", "-f", "-y", "-qq", "-e", _CALLS, "-e", "signal=none", "-s", "4096", "-o", str(log)]
        result = subprocess.run(
            [*tracing, *program, *arguments], capture_output=True, text=True, env=environment, timeout=300, check=False
        )
        wrong = [line for line in log.read_text(errors="replace").splitlines() if self._is_wrong(line)]
        assert not wrong, "\n".join(wrong[:5])
        assert "the canary" not in result.stdout + result.stderr
        return result

    def _is_wrong(self, line: str) -> bool:
        call = line.split(maxsplit=1)[-1]
        if call.startswith("execve(") and " = 0" in call:
            return not call.startswith((f'execve("{sys.executable}"', f'execve("{os.path.realpath(sys.executable)}"'))
        if call.startswith(("connect(", "sendto(")):
            return "AF_INET" in call and " = -1" not in call
        if " = -1 " in call or "= ?" in call:
            return False
        if found := _OPEN_CALL.search(call):
            return self._is_outside(found[1]) or (bool(_WRITES.search(call)) and not self._may_write(found[1]))
        if _CHANGES.match(call):
            paths = [os.path.join(folder, name) for folder, name in _AT.findall(call)] or _TEXTS.findall(call)
            return not all(self._may_write(path) for path in paths)
        return False

    def _is_outside(self, path: str) -> bool:
        return path == str(self.outside) or path.startswith(f"{self.outside}/")

    def _may_write(self, path: str) -> bool:
        allowed = (
            str(self.inside),
            self.temporary,
            "/dev/",
            "/proc/self",
            "/memfd:",
            "pipe:",
            "socket:",
            "anon_inode:",
            "/proc/",
        )
        return os.path.normpath(path).startswith(allowed) or path in ("", ".")

    def is_untouched(self) -> bool:
        remaining = sorted(str(path.relative_to(self.outside)) for path in self.outside.rglob("*"))
        return remaining == ["secret.jpg", "secret.txt", "shards", "shards/secret.tar"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    shutil.rmtree(world.temporary)


def a_raw_folder(world: World) -> Path:
    """Create a raw folder of ten samples with every kind of link out of the folder."""
    raw = world.inside / "raw"
    raw.mkdir()
    for i in range(10):
        (raw / f"{i}.txt").write_text(f"text {i}")
    (raw / "stolen.txt").symlink_to(world.outside / "secret.txt")
    (raw / "again.txt").symlink_to("../../outside/secret.txt")
    (raw / "folder").symlink_to(world.outside)
    (raw / "slash").symlink_to("/")
    (raw / "loop").symlink_to(raw)
    os.mkfifo(raw / "fifo.txt")
    return raw


def a_prepared_dataset(world: World) -> Path:
    """Prepare shards of text, then add links among the shards, code, and outside paths in dataset.yaml."""
    root = world.inside / "data"
    files = {f"{i}.tar": {f"{i}{j}.txt": f"text {j}".encode() for j in range(20)} for i in range(3)}
    a_dataset(root, files)
    assert world.run("prepare", str(root), "--split", "1,1", "--no-input").returncode == 0
    (root / "secret.tar").symlink_to(world.outside / "shards" / "secret.tar")
    (root / "all").symlink_to(world.outside)
    (root / "slash").symlink_to("/")
    (root / "joined.py").write_text(f"open({str(world.outside / 'made.txt')!r}, 'w')")
    with (root / ".wdsctl" / "dataset.yaml").open("a") as file:
        file.write("refs:\n  json[image]: ../../outside\n")
    return root


def test_prepare_of_raw_folder_with_links_stays_inside(world: World) -> None:
    raw = a_raw_folder(world)
    dest = str(world.inside / "dest")

    refused = world.run("prepare", str(raw), dest, "--no-input")
    result = world.run("prepare", str(raw), dest, "--no-input", "--on-missing", "skip", "--workers", "2")

    assert (refused.returncode, result.returncode) == (3, 0), refused.stderr + result.stderr
    assert "leads out of the folder" in refused.stderr
    assert json.loads(world.run("inspect", dest, "--json").stdout)["samples"] == 10
    assert world.is_untouched()


@pytest.mark.parametrize(
    "arguments",
    [
        ("index",),
        ("prepare", "--no-input"),
        ("inspect",),
        ("inspect", "--stats"),
        ("validate", "--level", "all"),
        ("split", "8,1,1", "--yes"),
        ("ls",),
        ("get", "00.txt"),
        ("checksum",),
        ("repair", "--in-place", "--yes"),
        ("sql", "SELECT count(*) FROM sample"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_commands_on_hostile_dataset_stay_inside(world: World, arguments: tuple[str, ...]) -> None:
    root = a_prepared_dataset(world)
    result = world.run(arguments[0], str(root), *arguments[1:])
    assert "Traceback" not in result.stderr
    assert world.is_untouched()


def test_convert_of_hostile_dataset_stays_inside(world: World) -> None:
    root = a_prepared_dataset(world)
    result = world.run("convert", str(root), str(world.inside / "made"), "--no-input")
    assert "Traceback" not in result.stderr
    assert world.is_untouched()


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../../outside/secret.jpg", "link.jpg", "file:///etc/passwd", "http://127.0.0.1:9/x"]
)
def test_convert_refuses_rows_that_refer_to_files_outside(world: World, name: str) -> None:
    table = world.inside / "table"
    table.mkdir()
    (table / "link.jpg").symlink_to(world.outside / "secret.jpg")
    (table / "rows.jsonl").write_text(json.dumps({"image": name, "text": "x"}) + "\n")

    result = world.run(
        "convert", str(table / "rows.jsonl"), str(world.inside / "made"), "--no-input", "-O", "media=image"
    )

    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert world.is_untouched()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_training_on_hostile_dataset_stays_inside(world: World, workers: str) -> None:
    root = a_prepared_dataset(world)
    result = world.run(str(root), workers, code=LOADING)
    assert result.stdout == "done\n", result.stderr
    assert world.is_untouched()


@pytest.mark.parametrize(
    "blend",
    [
        "splits: {train: {path: data, aux: {media: filesystem://../outside}}}",
        "splits: {train: {path: data, aux: {media: 'filesystem:///'}}}",
        "splits: {train: {join: [{path: data}, {path: data}], joiner: 'os:system'}}",
        "splits: {train: {join: [{path: data}, {path: data}], joiner: 'joined:run'}}",
    ],
)
def test_blends_that_name_files_or_code_outside_are_refused(world: World, blend: str) -> None:
    a_prepared_dataset(world)
    path = world.inside / "blend.yaml"
    path.write_text(blend)
    for result in (
        world.run(str(path), "0", code=LOADING),
        world.run("validate", str(path)),
    ):
        assert result.returncode != 0
    assert world.is_untouched()
