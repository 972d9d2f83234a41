"""`migrate` finds uses of Energon in programs and rewrites them."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from textwrap import dedent

import pytest

from wdsctl.core.energon.migrate import EnergonUse, MigrationReport, migrate, migrate_text
from wdsctl.core.errors import InputError, StorageError


def rewrite(program: str) -> str:
    """The program after automatic changes."""
    _, text, _ = migrate_text("x.py", dedent(program).encode())
    assert text is not None
    ast.parse(text)
    return text


def find_uses(program: str, *kinds: str) -> list[tuple[int, str]]:
    """Line and text of the uses of these kinds."""
    uses, _, _ = migrate_text("x.py", dedent(program).encode())
    return [(use.line, use.found) for use in uses if use.kind in kinds]


def find_hints(program: str) -> list[str]:
    uses, _, _ = migrate_text("x.py", dedent(program).encode())
    return [use.becomes for use in uses if use.kind == "hand"]


def test_imports_are_rewritten_and_nothing_else() -> None:
    program = """\
        # -*- coding: utf-8 -*-
        import os, megatron.energon as energon   # keep
        from megatron.energon import (
            Cooker,   # a comment
            TaskEncoder as Base,
        )
        from   megatron.energon.task_encoder.base import stateless
        from megatron.core import parallel_state
        if True:
        \tfrom megatron.energon.errors import SkipSample ; x = "ä"; import megatron.energon.av as av
        """

    assert rewrite(program) == dedent(program).replace("megatron.energon", "wdsctl.loader.energon")


def test_full_package_name_and_parent_import_are_rewritten() -> None:
    assert rewrite("import megatron.energon\nimport megatron.core\nmegatron.energon.get_loader(megatron.core)\n") == (
        "import wdsctl.loader.energon\nimport megatron.core\nwdsctl.loader.energon.get_loader(megatron.core)\n"
    )
    assert rewrite("from megatron import energon as e\ne.get_loader(1)\n") == (
        "from wdsctl.loader import energon as e\ne.get_loader(1)\n"
    )


def test_names_of_missing_modules_are_imported_from_parent_module() -> None:
    assert rewrite(
        "from megatron.energon.flavors.base_dataset import Sample\n"
        "from megatron.energon.edataclass import edataclass\n"
        "from megatron.energon.wrappers.limit_dataset import LimitDataset as L\n"
    ) == (
        "from wdsctl.loader.energon.flavors import Sample\n"
        "from wdsctl.loader.energon import edataclass\n"
        "from wdsctl.loader.energon.wrappers import LimitDataset as L\n"
    )


def test_renamed_names_are_imported_under_old_name() -> None:
    assert rewrite("from megatron.energon import IgnoreSample\nraise IgnoreSample\n") == (
        "from wdsctl.loader.energon import SkipSample as IgnoreSample\nraise IgnoreSample\n"
    )
    assert rewrite("from megatron.energon import IgnoreSample as Skip\n") == (
        "from wdsctl.loader.energon import SkipSample as Skip\n"
    )


def test_loader_methods_are_renamed() -> None:
    program = """\
        from megatron.energon import get_savable_loader
        ä, loader = "ä", None
        loader = get_savable_loader(ds)
        ä = loader.save_state(dst_rank=0)
        loader.restore_state(state)
        other.save_state(dst_rank=0)
        """

    assert rewrite(program).splitlines()[3:] == [
        "ä = loader.save_state_global(global_dst_rank=0)",
        "loader.restore_state_global(state)",
        "other.save_state(dst_rank=0)",
    ]


def test_methods_of_loaders_in_attributes_are_renamed() -> None:
    program = """\
        from megatron.energon import get_savable_loader
        class T:
            def __init__(self):
                self.loader = get_savable_loader(ds)
                self.other: Loader = get_savable_loader(ds)
            def save(self):
                self.other.save_state(0)
                self.loader.restore_state(s)
                self.model.restore_state(s)
        """

    assert [line.strip() for line in rewrite(program).splitlines()[6:]] == [
        "self.other.save_state_global(0)",
        "self.loader.restore_state_global(s)",
        "self.model.restore_state(s)",
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("FatalSampleError", "import the name from wdsctl.loader.energon.errors"),
        ("VideoData", "replace the code that uses the name: wdsctl has no counterpart"),
    ],
)
def test_missing_name_has_hint(name: str, hint: str) -> None:
    assert find_hints(f"from megatron.energon import {name}") == [hint]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("from megatron.energon import BlendDataset\nBlendDataset((a, 1))", [(2, "BlendDataset(...)")]),
        ("import megatron.energon as e\ne.MixBatchDataset(a)", [(2, "MixBatchDataset")]),
        ("import megatron.energon\nmegatron.energon.load_dataset(a)", [(2, "load_dataset")]),
        ("from megatron.energon import Metadataset\nclass M(Metadataset): ...", [(2, "class M(Metadataset)")]),
        ("import megatron.energon as e\nclass M(e.Metadataset): ...", [(2, "Metadataset")]),
        ("from megatron.energon import Missing", [(1, "Missing")]),
        ("from megatron.energon.rng import WorkerRng", [(1, "from megatron.energon.rng import WorkerRng")]),
        ("import megatron.energon.fork_hook", [(1, "import megatron.energon.fork_hook")]),
        ("x = import_module('megatron.energon')", [(1, "'megatron.energon'")]),
        ("from megatron import core, energon", [(1, "from megatron import ...")]),
        (
            "from megatron.energon import TaskEncoder\nclass E(TaskEncoder[a, b]):\n  def build_batch(self, x): ...",
            [(3, "E.build_batch")],
        ),
        (
            "import megatron.energon as e\nclass E(e.TaskEncoder):\n  def batch(self, x): return self.cache, x.cache",
            [(3, "TaskEncoder.cache")],
        ),
        (
            "import megatron.energon as e\nclass D(e.SampleDecoder):\n  def decode(self, name, data): ...",
            [(3, "D.decode")],
        ),
        ("import megatron.energon as e\nclass E(e.TaskEncoder):\n  def f(self): self.cache = 3; self.cache", []),
        ("import megatron.energon as e\nclass E(e.TaskEncoder): ...\nclass F:\n  def f(self): self.cache", []),
        (
            "from megatron.energon import get_train_dataset\nds = get_train_dataset(p)\nfor b in ds: ...",
            [(3, "for ... in ds")],
        ),
        ("from \\\n  megatron.energon import Cooker", [(1, "from megatron.energon import")]),
        ("import megatron.energon as e\nfrom .x import (", [(2, "the file")]),
    ],
)
def test_uses_without_counterpart_need_hand_work(program: str, expected: list[tuple[int, str]]) -> None:
    assert find_uses(program, "hand") == expected


def test_attributes_of_replaced_names_need_hand_work() -> None:
    program = "from megatron.energon import CrudeWebdataset as C\nC.prepare_dataset('x')\nkeep = C\n"

    assert find_uses(program, "hand") == [(2, "CrudeWebdataset.prepare_dataset")]


def test_factories_may_be_derived_from_but_open_no_datasets() -> None:
    program = """\
        from megatron.energon.flavors.webdataset.base_webdataset import BaseWebdatasetFactory
        from megatron.energon.flavors.webdataset import DefaultDecoderWebdatasetFactory

        class Chats(DefaultDecoderWebdatasetFactory[int]):
            pass

        BaseWebdatasetFactory.prepare_dataset("path", [])
        DefaultDecoderWebdatasetFactory("path")
        """

    assert find_uses(program, "hand") == [(8, "DefaultDecoderWebdatasetFactory(...)")]


def test_use_that_needs_hand_work_has_hint() -> None:
    program = "from megatron.energon import BlendDataset\nBlendDataset((a, 1))"
    assert find_hints(program) == ["write a blend file, or pass a Blender to get_train_dataset"]


def test_annotations_need_no_change() -> None:
    program = "from megatron.energon import SavableDataset, BlendDataset\ndef f(x: BlendDataset[int]): ..."
    assert find_uses(program, "hand") == []
    assert find_uses(program, "same") == [(1, "BlendDataset")]


def test_arguments_without_effect_are_noted() -> None:
    program = """\
        from megatron.energon import WorkerConfig, get_savable_loader, get_train_dataset
        workers = WorkerConfig(worker_debug_path="x")
        other = WorkerConfig.default_worker_config(4, worker_log_level=1)
        ds = get_train_dataset("p", handler=print, image_decode="pil", batch_size=3)
        loader = get_savable_loader(ds, checkpoint_every_sec=60)
        get_train_dataset("p", shuffle_buffer_size=9, max_samples_per_sequence=None)
        unrelated(handler=print)
        """

    assert find_uses(program, "note") == [
        (2, "worker_debug_path="),
        (3, "worker_log_level="),
        (4, "handler="),
        (4, "image_decode="),
        (5, "checkpoint_every_sec="),
        (6, "shuffle_buffer_size="),
        (6, "max_samples_per_sequence="),
    ]
    assert find_uses(program, "hand") == []


def a_project(root: Path) -> Path:
    (root / "package").mkdir()
    (root / ".hidden").mkdir()
    (root / "a.py").write_bytes(b"from megatron.energon import Cooker\r\nx = 1\r\n")
    (root / "package" / "b.py").write_bytes("# coding: latin-1\n# ä\nimport megatron.energon as e\n".encode("latin-1"))
    (root / "package" / "plain.py").write_text("import megatron.core\n")
    (root / ".hidden" / "c.py").write_text("import megatron.energon\n")
    (root / "a.py").chmod(0o750)
    return root


def test_files_are_rewritten_only_with_write(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    before = {each: each.read_bytes() for each in root.rglob("*.py")}

    dry = migrate(str(root))
    assert {each: each.read_bytes() for each in root.rglob("*.py")} == before
    report = migrate(str(root), write=True)

    assert [os.path.relpath(each, root) for each in report.changed] == ["a.py", "package/b.py"]
    assert (dry.changed, dry.is_written, report.is_written) == (report.changed, False, True)
    assert (root / "a.py").read_bytes() == b"from wdsctl.loader.energon import Cooker\r\nx = 1\r\n"
    assert (root / "a.py").stat().st_mode & 0o777 == 0o750
    assert (root / "package" / "b.py").read_bytes() == (
        "# coding: latin-1\n# ä\nimport wdsctl.loader.energon as e\n".encode("latin-1")
    )
    assert (root / ".hidden" / "c.py").read_text() == "import megatron.energon\n"
    assert dry.diffs[1].splitlines()[-2:] == ["-import megatron.energon as e", "+import wdsctl.loader.energon as e"]
    assert migrate(str(root)) == MigrationReport(str(root), 3, (), False, (), ())


def test_migrate_does_not_run_the_program(tmp_path: Path) -> None:
    script = tmp_path / "x.py"
    script.write_text("import megatron.energon\nopen('made', 'w')\nraise SystemExit\n")

    report = migrate(str(script))

    assert report.uses == (
        EnergonUse(str(script), 1, "rewrite", "import megatron.energon", "import wdsctl.loader.energon"),
    )
    assert not report.needs_hand_work


@pytest.mark.parametrize("name", ["none.py", "notes.txt"])
def test_other_paths_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")

    with pytest.raises(InputError):
        migrate(str(tmp_path / name))


def test_pipe_in_place_of_program_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.py")

    for path in (tmp_path, tmp_path / "train.py"):
        with pytest.raises(StorageError, match="not a regular file"):
            migrate(str(path))
