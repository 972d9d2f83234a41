"""Commands and trainings on a hostile dataset access nothing outside of it; strace, if available, checks that."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.build import a_dataset, samples
from tests.core.traces import a_source
from tests.security.test_notes_in_data import note_partial_offsets, trace_of
from tests.security.test_sources_behind_links import FORMS
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest

_FAST = "--seccomp-bpf"  # strace stops a program only at the calls that it prints


def _can_trace(*options: str) -> bool:
    command = ["strace", "-f", *options, "-o", os.devnull, "true"]
    return bool(shutil.which("strace")) and not subprocess.run(command, capture_output=True, check=False).returncode


pytestmark = pytest.mark.skipif(
    not _can_trace(),
    reason="strace is not here, or may not trace",
)

_CALLS = (
    "trace=/^(open|creat|unlink|rename|mkdir|rmdir|symlink|link|f?chmod|[fl]?chown|f?truncate|f?utime|mknod|execve)"
    "|^(connect|sendto)$"
)
_OPEN_CALL = re.compile(r"open(?:at2?)?\(.*\) = \d+<([^>]*)>")
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
_CHANGES = re.compile(r"\b(unlink|rename|mkdir|rmdir|symlink|link|chmod|chown|truncate|utime\w*|mknod)\w*\(")
_TEXTS = re.compile(r'"((?:[^"\\]|\\.)*)"')
_AT = re.compile(r"(?:AT_FDCWD|\d+)<([^>]*)>, \"((?:[^\"\\]|\\.)*)\"")

#: Forks a child for each program in standard input, so that Python starts once under strace: a command line of wdsctl,
#: or the arguments of LOADING. Each child writes into files of its own.
PROGRAMS = """
import json, os, sys
import wdsctl.cli.main, wdsctl.core.prepare.prepare
from wdsctl.cli.start import run
folder, loading = sys.argv[1:]
programs = json.load(sys.stdin)
if any(words[0] == "LOADING" for words in programs):
    from wdsctl.loader import get_train_dataset
codes = []
for number, words in enumerate(programs):
    child = os.fork()
    if child:
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        continue
    for stream, name in enumerate(("in", "out", "err")):
        path = os.devnull if name == "in" else f"{folder}/{number}.{name}"
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), stream)
    sys.argv = words
    if words[0] == "LOADING":
        exec(loading)
    else:
        sys.argv.insert(0, "wdsctl")
        run()
    sys.exit()
print(json.dumps(codes))
"""

LOADING = """
import sys
from wdsctl.loader import WorkerConfig, get_loader, get_train_dataset, reraise_exception
path, workers = sys.argv[1], int(sys.argv[2])
dataset = get_train_dataset(path, batch_size=2, worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers))
with get_loader(dataset) as loader:
    for number, batch in enumerate(loader):
        if number == 39:
            break
print("done")
"""


class Result(NamedTuple):
    program: str
    code: int
    stdout: str
    stderr: str


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

    def run(self, *programs: Sequence[str]) -> list[Result]:
        """Run commands of wdsctl, or trainings (`LOADING DATASET WORKERS`), and fail if any accesses anything outside.

        Each program is a forked process of its own.
        """
        log, outputs = self.inside / "strace.log", self.inside / "outputs"
        outputs.mkdir()
        environment = {
            **os.environ,
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "TMPDIR": self.temporary,
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "WDSCTL_ALLOW_PATH": "",
        }
        environment.pop("COVERAGE_PROCESS_START", None)
        tracing = ["strace", "-f", "-y", "-qq", "-e", _CALLS, "-e", "signal=none", "-s", "4096", "-o", str(log)]
        tracing += [*([_FAST] if _can_trace(_FAST) else []), sys.executable, "-c", PROGRAMS, str(outputs), LOADING]
        process = subprocess.run(
            tracing,
            input=json.dumps(programs),
            capture_output=True,
            text=True,
            env=environment,
            timeout=300,
            check=True,
        )
        wrong = [line for line in log.read_text(errors="replace").splitlines() if self._is_wrong(line)]
        assert not wrong, "\n".join(wrong[:5])
        assert "the canary" not in process.stdout + process.stderr
        codes = json.loads(process.stdout)
        assert len(codes) == len(programs)
        texts = [[(outputs / f"{i}.{name}").read_text() for name in ("out", "err")] for i in range(len(codes))]
        assert "the canary" not in "".join(text for pair in texts for text in pair)
        shutil.rmtree(outputs)
        return [Result(" ".join(words), code, *pair) for words, code, pair in zip(programs, codes, texts, strict=True)]

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


def a_prepared_dataset(world: World, name: str = "data") -> Path:
    """Prepare shards of text, then add links among the shards, code, and outside paths in dataset.yaml."""
    root = world.inside / name
    files = {f"{i}.tar": {f"{i}{j}.txt": f"text {j}".encode() for j in range(20)} for i in range(3)}
    a_dataset(root, files)
    prepare(str(root), None, PrepareRequest(sample_type="TextSample", split={"train": 1.0, "val": 1.0}))
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

    refused, result, inspected = world.run(
        ("prepare", str(raw), dest, "--no-input"),
        ("prepare", str(raw), dest, "--no-input", "--on-missing", "skip", "--workers", "2"),
        ("inspect", dest, "--json"),
    )

    assert (refused.code, result.code) == (3, 0), refused.stderr + result.stderr
    assert "leads out of the folder" in refused.stderr
    assert json.loads(inspected.stdout)["samples"] == 10
    assert world.is_untouched()


#: Commands for the dataset ROOT.
COMMANDS = (
    ("index", "ROOT"),
    ("prepare", "ROOT", "--no-input"),
    ("inspect", "ROOT"),
    ("inspect", "ROOT", "--stats"),
    ("validate", "ROOT", "--level", "all"),
    ("split", "ROOT", "8,1,1", "--yes"),
    ("ls", "ROOT"),
    ("get", "ROOT", "00.txt"),
    ("checksum", "ROOT"),
    ("repair", "ROOT", "--in-place", "--yes"),
    ("sql", "ROOT", "SELECT count(*) FROM sample"),
    ("convert", "ROOT", "DEST", "--no-input"),
)


def test_commands_on_hostile_dataset_stay_inside(world: World) -> None:
    programs = []
    for number, words in enumerate(COMMANDS):
        root = a_prepared_dataset(world, f"data{number}")
        values = {"ROOT": str(root), "DEST": str(world.inside / "made")}
        programs.append([values.get(word, word) for word in words])
    results = world.run(*programs)
    assert [each for each in results if "Traceback" in each.stderr] == []
    assert world.is_untouched()


def test_convert_refuses_rows_that_refer_to_files_outside(world: World) -> None:
    table = world.inside / "table"
    table.mkdir()
    (table / "link.jpg").symlink_to(world.outside / "secret.jpg")
    names = ("/etc/passwd", "../../outside/secret.jpg", "link.jpg", "file:///etc/passwd", "http://127.0.0.1:9/x")
    programs = []
    for number, name in enumerate(names):
        rows, dest = table / f"rows{number}.jsonl", world.inside / f"made{number}"
        rows.write_text(json.dumps({"image": name, "text": "x"}) + "\n")
        programs.append(("convert", str(rows), str(dest), "--no-input", "-O", "media=image"))

    results = world.run(*programs)

    assert [each for each in results if each.code == 0 or "Traceback" in each.stderr] == []
    assert world.is_untouched()


def test_training_on_hostile_dataset_stays_inside_and_hostile_blends_are_refused(world: World) -> None:
    root = a_prepared_dataset(world)
    blends = (
        "splits: {train: {path: data, aux: {media: filesystem://../outside}}}",
        "splits: {train: {path: data, aux: {media: 'filesystem:///'}}}",
        "splits: {train: {join: [{path: data}, {path: data}], joiner: 'os:system'}}",
        "splits: {train: {join: [{path: data}, {path: data}], joiner: 'joined:run'}}",
    )
    programs: list[Sequence[str]] = [("LOADING", str(root), workers) for workers in ("0", "2")]
    for number, blend in enumerate(blends):
        path = world.inside / f"blend{number}.yaml"
        path.write_text(blend)
        programs += [("LOADING", str(path), "0"), ("validate", str(path))]

    results = world.run(*programs)

    assert [each for each in results[:2] if each.stdout != "done\n"] == []
    assert [each for each in results[2:] if each.code == 0] == []
    assert world.is_untouched()


def test_other_sources_and_notes_stay_inside(world: World) -> None:
    """Files of other formats, of which one is a link; a trace, a partial file and a job that name other places."""
    programs: list[Sequence[str]] = []
    for form, (write, name) in FORMS.items():
        source, target = world.inside / form, world.outside / form
        source.mkdir()
        write(source)
        shutil.move(source / name, target)
        (source / name).symlink_to(target)
        programs.append(("prepare", str(source), str(world.inside / f"made-{form}"), "--no-input", "--workers", "1"))
    zipped = world.inside / "zipped"
    zipped.mkdir()
    shutil.make_archive(str(zipped / "a"), "zip", world.outside / "shards")
    (zipped / "1.txt").symlink_to(world.outside / "secret.txt")
    programs.append(("prepare", str(zipped), str(world.inside / "made-zipped"), "--no-input"))
    for number, root in enumerate((str(world.outside / "shards"), "http://127.0.0.1:9/x")):
        traces = trace_of(world.inside / f"traces{number}", a_source(root=root))
        programs.append(("trace", traces, "--step", "0", "--out", str(world.inside / f"out{number}")))
    data = a_prepared_dataset(world)
    note_partial_offsets(data / ".wdsctl", "http://127.0.0.1:9/internal")
    programs += [("inspect", str(data), "--samples", "1"), ("LOADING", str(data), "0")]

    results = world.run(*programs)

    assert [each for each in results if "Traceback (most recent call last)\n  File" in each.stderr] == []
    for form in FORMS:
        (world.outside / form).unlink()
    assert world.is_untouched()
