"""Notes that wdsctl itself writes are data where they lie in data: they name no URLs, no files elsewhere, no code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.build import some_shards
from tests.core.traces import a_source, a_writer
from wdsctl.cli.main import main
from wdsctl.core.errors import CatalogError, PermissionDenied, UsageError, WdsctlError
from wdsctl.core.executors.array_job import merge_job, plan_job, report_job
from wdsctl.core.executors.array_task import run_task
from wdsctl.core.executors.job_folder import JOB_FILE, Job, record_job
from wdsctl.core.index.index import index
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.progress import SILENT_PROGRESS, SilentProgress
from wdsctl.core.remote_catalogs import ranges
from wdsctl.core.safe_open import ALLOW_PATH_VARIABLE, check_store
from wdsctl.core.trace import SourceFacts
from wdsctl.core.trace.format import RunFacts, encode_preamble, run_facts_to_json
from wdsctl.core.trace.read import TraceProblem, open_trace_file
from wdsctl.core.trace.trace import TraceOptions, query_trace
from wdsctl.core.views.definition import ViewDefinition, parse_definition
from wdsctl.core.views.select import evaluate_stored


@pytest.fixture
def indexed(tmp_path: Path) -> str:
    root = some_shards(tmp_path / "cats", 1)
    index(root)
    return root


def note_partial_offsets(meta: Path, url: str) -> Path:
    """Turn an offsets file into one that a mirror of `url` has fetched in part."""
    path = meta / "offsets-1.bin"
    data = path.read_bytes()
    digest = hashlib.sha256(data)
    notes = meta / ".published" / "ranges"
    notes.mkdir(parents=True)
    path.write_bytes(bytes(len(data)) + b"WDSPART\n" + digest.digest())
    (notes / digest.hexdigest()).write_bytes(b"\0")
    facts = {"url": url, "name": path.name, "size": len(data)}
    (notes / f"{digest.hexdigest()}.json").write_text(json.dumps(facts))
    return path


def test_partial_offsets_file_in_dataset_names_no_url(indexed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(ranges, "CatalogStore", opened.append)
    path = note_partial_offsets(Path(indexed, ".wdsctl"), "http://127.0.0.1:9/internal")

    with pytest.raises(CatalogError, match="the offsets file is damaged") as error:
        Offsets(str(path))

    assert opened == []
    assert "index" in error.value.hint
    index(indexed)
    assert Offsets(str(path)).samples == 5


def trace_of(folder: Path, source: SourceFacts) -> str:
    writer = a_writer(folder, sources=[source])
    writer.add(0, [(0, 0, 1 << 28)])
    writer.close()
    return str(folder)


def test_trace_opens_no_dataset_outside_its_folder(tmp_path: Path, indexed: str) -> None:
    folder = trace_of(tmp_path / "traces", a_source(root=indexed))

    report = query_trace(folder, TraceOptions(step=0, out=str(tmp_path / "out")))

    [finding] = report.findings
    assert (finding.code, report.written) == ("WDS543", ())
    assert f"--allow-path {indexed}" in finding.message


@pytest.mark.parametrize("root", ["http://127.0.0.1:9/internal", "s3://bucket/private", "file:///etc", "."])
def test_trace_connects_to_no_url_and_opens_no_other_folder(
    tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wdsctl.core.trace.datasets.open_dataset", pytest.fail)
    folder = trace_of(tmp_path / "traces", a_source(root=root))

    [finding] = query_trace(folder, TraceOptions(step=0)).findings

    assert finding.code == "WDS543"


def test_trace_names_no_catalog_outside_its_folder(
    tmp_path: Path, indexed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = some_shards(tmp_path / "other", 1)
    index(other)
    monkeypatch.setenv(ALLOW_PATH_VARIABLE, indexed)
    folder = trace_of(tmp_path / "traces", a_source(root=indexed, catalog=os.path.join(other, ".wdsctl")))

    [finding] = query_trace(folder, TraceOptions(step=0)).findings

    assert (finding.code, finding.count) == ("WDS543", 1)


def test_trace_opens_allowed_moved_and_enclosed_datasets(
    tmp_path: Path, indexed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = trace_of(tmp_path / "traces", a_source(root=indexed))
    assert query_trace(folder, TraceOptions(step=0, roots=(f"{indexed}={indexed}",))).findings == ()

    monkeypatch.setenv(ALLOW_PATH_VARIABLE, indexed)
    assert query_trace(folder, TraceOptions(step=0)).findings == ()

    monkeypatch.delenv(ALLOW_PATH_VARIABLE)
    assert query_trace(trace_of(tmp_path, a_source(root=indexed)), TraceOptions(step=0)).findings == ()


def test_moved_dataset_stays_below_its_new_folder(tmp_path: Path, indexed: str) -> None:
    (tmp_path / "new").mkdir()
    folder = trace_of(tmp_path / "traces", a_source(root=f"/data/../{os.path.basename(indexed)}"))

    [finding] = query_trace(folder, TraceOptions(step=0, roots=(f"/data={tmp_path / 'new'}",))).findings

    assert "leads out of" in finding.message


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_trace_file_that_is_link_or_pipe_is_refused(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    path = folder / "rank-00000-1.trace"
    if kind == "link":
        (tmp_path / "private").write_bytes(b"private")
        path.symlink_to(tmp_path / "private")
    else:
        os.mkfifo(path)

    with pytest.raises(WdsctlError):
        query_trace(str(folder), TraceOptions())


@pytest.mark.parametrize(
    "facts", [{"generation": "/../../private"}, {"root": 5}, {"split": None}, {"catalog": ["/"]}, {"digest": 1}]
)
def test_trace_with_facts_of_other_types_is_damaged(tmp_path: Path, facts: dict[str, object]) -> None:
    path = tmp_path / "rank-00000-1.trace"
    good = run_facts_to_json(RunFacts(rank=0, world=1, started=1, sources=(a_source(),)))
    content = json.loads(good)
    content["sources"][0] |= facts
    path.write_bytes(encode_preamble(json.dumps(content).encode()))

    problem = open_trace_file(str(path))

    assert isinstance(problem, TraceProblem)
    assert problem.kind == "damaged"


def test_url_is_allowed_as_the_hint_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WdsctlError) as error:
        check_store("s3://bucket/images", "/data", "dataset.yaml")
    assert "`--allow-path s3://bucket/images`" in error.value.hint

    monkeypatch.setenv(ALLOW_PATH_VARIABLE, "s3://bucket/images")
    check_store("s3://bucket/images", "/data", "dataset.yaml")
    with pytest.raises(WdsctlError):
        check_store("s3://bucket/images2", "/data", "dataset.yaml")


def test_stored_view_reads_no_keys_from_elsewhere_after_its_check(
    tmp_path: Path, indexed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, private = Path(indexed, "keys.txt"), tmp_path / "private.txt"
    private.write_text("000001\n")
    keys.symlink_to(private)  # by the time that the file is opened
    stored = ViewDefinition(keys=str(keys))
    monkeypatch.setattr("wdsctl.core.safe_open.is_beneath", lambda *_: True)

    with open_dataset(indexed) as dataset:
        with pytest.raises(PermissionDenied, match="leads out of"):
            evaluate_stored(dataset, stored, SILENT_PROGRESS)

        keys.unlink()
        keys.write_text("000002\n")
        assert evaluate_stored(dataset, stored, SILENT_PROGRESS).samples == 1


@pytest.mark.parametrize("text", ['{"keys": 5}', '{"where": ["size"]}', '{"sample": null}'])
def test_stored_view_with_values_of_other_types_is_damaged(text: str) -> None:
    with pytest.raises(TypeError):
        parse_definition(text)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a job that this user has planned, whose command may not run."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    folder = tmp_path / "job"
    folder.mkdir(mode=0o700)
    planned = Job(str(folder), ("index", "ROOT"), str(tmp_path), 5, token="7" * 32)
    planned.save()
    record_job(planned)
    os.chmod(folder / JOB_FILE, 0o600)
    return folder


def refuse_command(arguments: Sequence[str]) -> int:
    raise AssertionError(arguments)


def assert_job_is_refused(folder: Path, message: str) -> None:
    for call in (
        lambda: merge_job(str(folder), refuse_command),
        lambda: plan_job(str(folder), (), refuse_command),
        lambda: plan_job(str(folder), ("index", "ROOT"), refuse_command),
        lambda: run_task(str(folder), 0),
    ):
        with pytest.raises(CatalogError, match=message) as error:
            call()
        assert error.value.code == "WDS450"


def test_job_folder_of_other_user_is_refused(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(job / JOB_FILE, 54321, -1)  # root may change everything anyway
    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    assert_job_is_refused(job, "belongs to another user")

    assert plan_job(str(job), (), lambda _: 0, trust_code=True) == 0


def test_job_folder_that_this_user_has_not_planned_runs_only_with_trust_code(job: Path, tmp_path: Path) -> None:
    unpacked = tmp_path / "unpacked"
    shutil.copytree(job, unpacked)

    assert_job_is_refused(unpacked, "no record shows that you planned the job")
    assert main(["job", "template", str(unpacked)]) == 6
    assert report_job(str(unpacked)).command_line == "index ROOT"

    assert plan_job(str(unpacked), (), lambda _: 0, trust_code=True) == 0


def test_job_that_another_replaced_in_a_planned_folder_is_refused(job: Path, tmp_path: Path) -> None:
    for token in ("", "8" * 32):
        Job(str(job), ("index", "OTHER"), str(tmp_path), 5, token=token).save()
        assert_job_is_refused(job, "no record shows that you planned the job")


@pytest.mark.parametrize("name", ["", JOB_FILE])
def test_job_folder_that_all_can_write_is_refused(job: Path, name: str) -> None:
    (job / name).chmod(0o1777)

    assert_job_is_refused(job, "all users can write")


class _Notes(SilentProgress):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


def test_job_folder_that_group_can_write_is_noted(job: Path) -> None:
    notes = _Notes()
    plan_job(str(job), (), lambda _: 2, progress=notes)
    assert notes.notes == []

    job.chmod(0o770)
    plan_job(str(job), (), lambda _: 2, progress=notes)
    [note] = notes.notes
    assert "group" in note


def test_job_with_absurd_number_of_tasks_is_refused(job: Path, tmp_path: Path) -> None:
    Job(str(job), ("index", "ROOT"), str(tmp_path), 10**9, token="7" * 32).save()
    assert_job_is_refused(job, "damaged")

    with pytest.raises(UsageError, match="at most 100,000 tasks"):
        plan_job(str(tmp_path / "new"), ("index", "ROOT"), refuse_command, tasks=10**9)
    assert not (tmp_path / "new").exists()
