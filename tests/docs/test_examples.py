"""Every code block of the documentation runs."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests import children
from tests.docs.pages import PAGES, ROOT, Block, blocks, commands, name_of
from wdsctl.cli.main import main
from wdsctl.core.checkpoint.state import check_state
from wdsctl.core.dataset.config import parse_config
from wdsctl.loader import get_loader, get_train_dataset

README = ROOT / "README.md"
LOADER = sorted((ROOT / "docs" / "loader").glob("*.md"))
PREPARE = ROOT / "docs" / "prepare.md"
CATALOG = ROOT / "docs" / "catalog.md"
COLUMNS = ROOT / "docs" / "columns.md"
PACKING = ROOT / "docs" / "packing.md"
MEDIA = ROOT / "docs" / "media.md"
JSONL = ROOT / "docs" / "jsonl.md"
IN_PLACE = ROOT / "docs" / "in-place.md"
POLYLITHIC = ROOT / "docs" / "polylithic.md"
ROBOTS = ROOT / "docs" / "robots.md"
FRAMEWORKS = ROOT / "docs" / "frameworks.md"
ENERGON = ROOT / "docs" / "energon.md"
VALIDATE = ROOT / "docs" / "validate.md"
INDEXING = ROOT / "docs" / "indexing.md"
VIEWS = ROOT / "docs" / "views.md"
SPLITS = ROOT / "docs" / "splits.md"
CONVERT = ROOT / "docs" / "convert.md"
FORMATS = ROOT / "docs" / "formats.md"
INIT = ROOT / "docs" / "init.md"
INSPECT = ROOT / "docs" / "inspect.md"
HISTORY = ROOT / "docs" / "history.md"
EXPORT = ROOT / "docs" / "export.md"
CONFIGURATION = ROOT / "docs" / "configuration.md"
PYTHON = ROOT / "docs" / "python.md"
INTERNALS = ROOT / "docs" / "internals.md"

#: Pages that other commands run: `make demo` runs those of the examples, `make bench` those of the benchmarks.
ELSEWHERE = (ROOT / "examples" / "README.md", ROOT / "docs" / "benchmarks.md")

#: What the tests of this file run. A block elsewhere that could be run must be marked.
RUN = {
    README: ("sh", "python"),
    PREPARE: ("sh", "yaml", "python"),
    **dict.fromkeys(LOADER, ("python",)),
    FRAMEWORKS: ("python",),
    ENERGON: ("sh", "python"),
    CATALOG: ("sql",),
    COLUMNS: ("sh", "python"),
    PACKING: ("sh", "python"),
    MEDIA: ("sh", "python"),
    JSONL: ("sh", "python"),
    IN_PLACE: ("sh", "python"),
    POLYLITHIC: ("sh", "python"),
    ROBOTS: ("sh", "python"),
    VALIDATE: ("sh", "python"),
    INDEXING: ("sh",),
    VIEWS: ("sh", "python"),
    SPLITS: ("sh", "python"),
    CONVERT: ("sh", "python"),
    FORMATS: ("sh",),
    INIT: ("sh",),
    INSPECT: ("sh",),
    HISTORY: ("sh",),
    EXPORT: ("sh",),
    CONFIGURATION: ("sh",),
    PYTHON: ("python",),
}


def run_command(words: list[str]) -> str:
    """Run a command of a page in the current folder; returns its stdout. Its exit code must be 0."""
    program, *arguments = words
    if program == "wdsctl":
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            code = main(arguments)
        assert code == 0, err.getvalue()
        return out.getvalue()
    assert program == "python", f"no test runs {program}: mark the block"
    completed = children.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, parent="training"
    )
    assert completed.returncode == 0, completed.stderr
    return str(completed.stdout)


def run_page(page: Path) -> Iterator[tuple[Block, list[str]]]:
    """Run the shell blocks of a page in order; yields each with what its commands print. Writes marked files."""
    for block in blocks(page):
        if block.mark == "file":
            Path(block.note).write_text(block.text, encoding="utf-8")
        elif block.language == "sh" and not block.mark:
            yield block, [run_command(words) for words in commands(block)]


def run_python(page: Path, module: ModuleType) -> None:
    """Run the Python blocks of a page in order; each prints the text block after it, or nothing."""
    page_blocks = blocks(page)
    expected = {id(block): output.text for block, output in pairwise(page_blocks) if output.language == "text"}
    for block in page_blocks:
        if block.language != "python" or block.mark:
            continue
        # Line numbers in a traceback are those of the page.
        code = compile("\n" * block.line + block.text, str(block.page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, vars(module))  # noqa: S102 - the page is ours
        assert out.getvalue() == expected.get(id(block), ""), str(block)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module in which the Python blocks of a page run. Dataclasses look up their module by name."""
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    return page


@pytest.mark.usefixtures("folder")
def test_readme_runs_and_its_training_resumes_exactly_without_warnings() -> None:
    page_outputs = [output for _, outputs in run_page(README) for output in outputs]
    twice = "".join(page_outputs[-2:])
    Path("checkpoint.pt").unlink()
    Path("once.py").write_text(Path("train.py").read_text(encoding="utf-8").replace("step + 20", "step + 40"), "utf-8")

    once = children.run([sys.executable, "once.py"], capture_output=True, text=True, check=True, parent="training")

    assert [line.split()[0] for line in twice.splitlines()] == [str(step) for step in range(1, 41)]
    assert twice == once.stdout
    assert "WDS" not in once.stderr


@pytest.mark.usefixtures("folder")
def test_prepare_page_runs(module: ModuleType) -> None:
    page_outputs = {block.text: outputs for block, outputs in run_page(PREPARE)}

    (repeated,) = [outputs for text, outputs in page_outputs.items() if "--force" in text]
    assert "up to date" in repeated[0]
    assert "7 shards" in repeated[2]
    run_python(PREPARE, module)


@pytest.mark.usefixtures("folder")
def test_indexing_page_runs() -> None:
    page_outputs = [output for _, outputs in run_page(INDEXING) for output in outputs]

    assert "selection  shard-{000000..000003}.tar" in page_outputs[2]
    assert "up to date (4 shards, 40 samples" in page_outputs[3]
    assert "2 added, 4 unchanged" in page_outputs[4]
    assert "hashed   6 of 6 shards" in page_outputs[5]
    assert "without sample rows" in page_outputs[7]


@pytest.mark.usefixtures("folder")
def test_views_page_runs() -> None:
    page_outputs = {block.text.split("\n")[0]: outputs for block, outputs in run_page(VIEWS)}

    (train_outputs,) = [outputs for first, outputs in page_outputs.items() if first == "python train.py"]
    assert len(train_outputs[0].split(",")) == 4
    assert train_outputs[1].splitlines() == ["count(*)", "40"]
    (diff_outputs,) = [outputs for first, outputs in page_outputs.items() if first.startswith("wdsctl view diff")]
    assert "only some   0 samples" in diff_outputs[0]
    assert diff_outputs[1].count("unchanged") == 4


@pytest.mark.usefixtures("folder")
def test_columns_page_runs(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    monkeypatch.delitem(sys.modules, "lengths", raising=False)
    page_outputs = [output for _, outputs in run_page(COLUMNS) for output in outputs]
    (block,) = [block for block in blocks(COLUMNS) if block.language == "python" and not block.mark]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block.text, str(COLUMNS), "exec"), module.__dict__)  # noqa: S102 - a block of the page

    assert "letters" in page_outputs[3]
    total, most = map(int, out.getvalue().split())
    assert total >= most > 0
    del sys.modules["lengths"]


@pytest.mark.usefixtures("folder")
def test_splits_page_runs(module: ModuleType) -> None:
    page_outputs = {
        words: output
        for block, outputs in run_page(SPLITS)
        for words, output in zip(block.text.splitlines(), outputs, strict=True)
    }
    run_python(SPLITS, module)

    assert "5 samples are excluded now" in page_outputs["wdsctl split shards --exclude-shard shard-000003.tar"]
    assert "no sample is excluded now" in page_outputs["wdsctl split shards --no-excludes"]
    assert "no content is in several splits" in page_outputs["wdsctl split shards --leaks jpg"]


def test_dataset_yaml_of_splits_page_is_valid() -> None:
    (block,) = [block for block in blocks(SPLITS) if block.language == "yaml"]

    config = parse_config(f"sample_type: CrudeSample\n{block.text}")

    assert list(config.split_sets) == ["films", "papers", "published"]
    assert config.exclude.shards == ("shard-003.tar",)


def test_dataset_yaml_of_prepare_page_is_valid() -> None:
    (block,) = [block for block in blocks(PREPARE) if block.language == "yaml"]

    config = parse_config(block.text)

    assert config.field_map == yaml.safe_load(block.text)["field_map"]


@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize("page", LOADER, ids=name_of)
def test_loader_pages_run_with_documented_output(page: Path, module: ModuleType) -> None:
    run_python(page, module)


@pytest.mark.usefixtures("dataset")
def test_python_page_runs_with_documented_output(module: ModuleType) -> None:
    run_python(PYTHON, module)


@pytest.mark.usefixtures("dataset")
def test_frameworks_page_runs(module: ModuleType) -> None:
    run_python(FRAMEWORKS, module)


@pytest.mark.usefixtures("dataset")
def test_energon_page_runs_with_documented_output(module: ModuleType) -> None:
    line = "from megatron.energon import WorkerConfig, get_savable_loader, get_train_dataset\n"
    Path("train.py").write_text(line, encoding="utf-8")
    expected = next(block.text for block in blocks(ENERGON) if block.language == "text")

    page_outputs = [output for _, outputs in run_page(ENERGON) for output in outputs]
    run_python(ENERGON, module)

    assert page_outputs == [expected]


@pytest.mark.filterwarnings("ignore")  # warnings of the framework
@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize("framework", ["lightning", "accelerate", "transformers"])
def test_framework_block_runs_when_framework_is_installed(framework: str, module: ModuleType) -> None:
    (block,) = [block for block in blocks(FRAMEWORKS) if block.note.startswith(f"it needs {framework}")]
    for package in block.note.removeprefix("it needs ").split(" and "):
        pytest.importorskip(package, reason="the project does not depend on it")
    run_python(FRAMEWORKS, module)

    exec(compile(block.text, str(block), "exec"), vars(module))  # noqa: S102 - the page is ours


@pytest.mark.usefixtures("dataset")
def test_media_page_runs_with_documented_output(module: ModuleType) -> None:
    page_outputs = [output for _, outputs in run_page(MEDIA) for output in outputs]
    assert "media by auto: 120 images" in page_outputs[1].splitlines()
    assert "a folder of media, 20 files" in page_outputs[-1]
    run_python(MEDIA, module)


@pytest.mark.usefixtures("folder")
def test_jsonl_page_runs_with_documented_output(module: ModuleType) -> None:
    page_outputs = [output for _, outputs in run_page(JSONL) for output in outputs]
    assert "4 samples" in page_outputs[0]
    assert "q-1  in qa.jsonl, position 0, train, 79 B" in page_outputs[1].splitlines()
    assert "100 samples" in page_outputs[-1]
    run_python(JSONL, module)


@pytest.mark.usefixtures("folder")
def test_in_place_page_runs() -> None:
    shutil.copytree(ROOT / "tests" / "golden" / "forms" / "mds", "mds")
    page_outputs = [output for _, outputs in run_page(IN_PLACE) for output in outputs]
    assert "it contains MDS shards, which are read in place" in page_outputs[0]
    assert "nothing wrong" in page_outputs[2] or "WDS152" in page_outputs[2]


@pytest.mark.usefixtures("folder")
def test_polylithic_page_runs_with_documented_output(module: ModuleType) -> None:
    page_outputs = [output for _, outputs in run_page(POLYLITHIC) for output in outputs]
    assert "60 samples" in page_outputs[1]
    assert "120 samples" in page_outputs[-1]
    run_python(POLYLITHIC, module)


@pytest.mark.usefixtures("folder")
def test_robots_page_runs_with_documented_output(module: ModuleType) -> None:
    page_outputs = [output for _, outputs in run_page(ROBOTS) for output in outputs]
    assert "120 frames of 4 episodes at 10 fps in 1 file of frames/ (1 written, 0 kept)" in page_outputs[-1]
    run_python(ROBOTS, module)


@pytest.mark.usefixtures("folder")
def test_validate_page_runs_and_finds_its_damage() -> None:
    page_outputs = {block.text: outputs for block, outputs in run_page(VALIDATE)}
    (damage_outputs,) = [outputs for text, outputs in page_outputs.items() if "damage.py" in text]
    assert "1 sample and 0 whole shards" in damage_outputs[3]
    assert "released 1 from quarantine" in damage_outputs[4]
    (repair_outputs,) = [outputs for text, outputs in page_outputs.items() if "wdsctl repair" in text]
    assert "3 copied unchanged" in repair_outputs[1]


@pytest.mark.usefixtures("dataset")
def test_inspect_page_runs() -> None:
    page_outputs = {block.text: outputs for block, outputs in run_page(INSPECT)}
    (get_outputs,) = [outputs for text, outputs in page_outputs.items() if "get shards" in text]
    assert Path("caption.txt").read_text() == get_outputs[0] == Path("sample/animal/0002.txt").read_text()
    (list_outputs,) = [outputs for text, outputs in page_outputs.items() if "ls shards" in text]
    assert list_outputs[2].splitlines()[:2] == ["animal/0000.jpg", "animal/0000.json"]


@pytest.mark.usefixtures("folder")
def test_convert_page_runs(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    page_outputs = [output for _, outputs in run_page(CONVERT) for output in outputs]
    assert "60 samples in 4 files of shards" in page_outputs[2]
    assert "72 samples" in page_outputs[5]
    run_python(CONVERT, module)
    monkeypatch.delitem(sys.modules, "cook")


@pytest.mark.usefixtures("folder")
def test_formats_page_runs_and_parquet_round_trips() -> None:
    page_outputs = [output for _, outputs in run_page(FORMATS) for output in outputs]
    assert "24 samples in 3 files of shards" in page_outputs[1]
    assert "24 samples in 1 file of parquet" in page_outputs[2]
    assert "parquet: has shard-000000.parquet" in page_outputs[3]
    assert "1 sample in 1 file of shards" in page_outputs[4]


@pytest.mark.usefixtures("folder")
def test_history_page_runs() -> None:
    page_outputs = [output for _, outputs in run_page(HISTORY) for output in outputs]
    assert "nothing differs (by keys, and the bytes of parts" in page_outputs[2]
    assert page_outputs[3].splitlines()[-1].endswith("prepare raw shards --shard-samples 10 --split 8,1,1 --no-input")
    assert [line.split()[1] for line in page_outputs[5].splitlines()] == [f"shard-00000{i}.tar" for i in range(6)]


@pytest.mark.usefixtures("folder")
def test_export_page_runs() -> None:
    page_outputs = [output for _, outputs in run_page(EXPORT) for output in outputs]
    assert any("exported 60 samples in 6 shards to energon" in output for output in page_outputs)
    assert all(Path(f"shards/{name}").exists() for name in (".nv-meta/.info.json", "index.json", "README.md"))


@pytest.mark.usefixtures("dataset")
def test_init_page_runs() -> None:
    [(_, [creation, first, second])] = run_page(INIT)
    assert creation.startswith("wrote train.py, blend.yaml, README.md to shards-train\n")
    assert "step 4  loss" in first
    assert second.startswith("resumed after step 4 ")
    assert "step 6  loss" in second


@pytest.mark.usefixtures("folder")
def test_configuration_page_runs() -> None:
    page_outputs = [output for _, outputs in run_page(CONFIGURATION) for output in outputs]
    assert '--shard-size  "1GiB"     prepare' in page_outputs[0]


@pytest.mark.usefixtures("folder")
def test_packing_page_runs_with_documented_output(module: ModuleType) -> None:
    assert len(list(run_page(PACKING))) == 1
    run_python(PACKING, module)


@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize("query", [block.text for block in blocks(CATALOG) if block.language == "sql"])
def test_queries_of_catalog_page_return_rows(query: str) -> None:
    with contextlib.closing(
        sqlite3.connect("file:shards/.wdsctl/catalog.sqlite?mode=ro&immutable=1", uri=True)
    ) as connection:
        assert connection.execute(query).fetchall()


@pytest.mark.usefixtures("dataset")
def test_state_in_internals_has_keys_of_real_state() -> None:
    (block,) = [block for block in blocks(INTERNALS) if block.language == "json"]
    documented_state = json.loads(block.text)

    state = get_loader(get_train_dataset("shards", batch_size=4)).state_dict()

    assert list(documented_state) == list(state)
    assert list(documented_state["plan"]["order"]) == list(state["plan"]["order"])
    assert {type(documented_state[key]) for key in documented_state} == {type(state[key]) for key in documented_state}
    assert documented_state["cursors"]["0"].keys() == state["cursors"]["0"].keys()
    assert documented_state["lanes"] == documented_state["plan"]["order"]["lanes"] == len(documented_state["cursors"])
    assert check_state(documented_state) is documented_state


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE], ids=name_of)
def test_every_code_block_runs_or_gives_reason(page: Path) -> None:
    for block in blocks(page):
        assert block.language, f"{block}: a block names its language"
        if block.mark == "not run":
            assert len(block.note.split()) > 2, f"{block}: say why it does not run"
        elif block.language in ("sh", "python", "sql"):
            assert block.language in RUN.get(page, ()), f"{block}: nothing runs it"


def test_readme_text_fits_in_80_columns() -> None:
    lines = re.findall(r"^(?![|<]|  <|!\[).{81,}$", README.read_text(encoding="utf-8"), re.MULTILINE)

    assert lines == []
