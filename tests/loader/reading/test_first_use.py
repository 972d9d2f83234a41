"""A dataset that Energon has prepared trains without preparation: it is indexed at its first use."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests import children
from tests.build import tree
from tests.energon import CAPTIONING, CRUDE, SPLIT, TRAIN, VAL, an_energon_dataset, an_energon_jsonl
from tests.loader.datasets import Raw
from tests.loader.running import digests, make_training_loader, save_state_after
from tests.remote import upload_shards
from wdsctl.core.catalog.splits import SplitShard
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, DatasetError, InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.prepare.prepare import prepare
from wdsctl.loader import CrudeSample, get_loader, get_val_dataset
from wdsctl.loader.reading.first_use import read_or_index
from wdsctl.loader.stores import open_store

CODE = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nsample_loader: sample_loader.py:load\n"
CATALOG = "__module__: megatron.energon\n__class__: MetadatasetV2\n"
RANK = """
import sys
from tests.loader.datasets import Raw
from wdsctl.loader import get_loader, get_val_dataset
for batch in get_loader(get_val_dataset(sys.argv[1], split_part="train", batch_size=1, task_encoder=Raw())):
    print(*batch["__key__"])
"""
KILLED = """
import os, sys
from wdsctl.core.index import energon
from wdsctl.loader import get_loader, get_train_dataset
energon.import_energon_meta = lambda *_, **__: os._exit(9)
next(iter(get_loader(get_train_dataset(sys.argv[1]))))
"""
HERE = Path(__file__).parents[3]


def test_error_of_first_use_is_not_chained_to_missing_catalog(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path, split=SPLIT.replace("{0..2}", "{0..7}"))
    with pytest.raises(DatasetError, match="not in the dataset") as raised:
        samples_of(root)
    assert (raised.value.__cause__, raised.value.__context__) == (None, None)


def samples_of(path: str | Path, split: str = "train", **options: Any) -> list[Any]:
    return list(get_loader(get_val_dataset(path, split_part=split, task_encoder=Raw(), **options)))


def keys_of(path: str | Path, split: str = "train", **options: Any) -> list[str]:
    samples = samples_of(path, split, **options)
    return [sample["__key__"] if isinstance(sample, dict) else sample.__key__ for sample in samples]


@pytest.fixture
def loader_log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        yield caplog


def test_energon_dataset_is_indexed_at_first_use(tmp_path: Path, loader_log: pytest.LogCaptureFixture) -> None:
    root = an_energon_dataset(tmp_path)
    batch = next(iter(make_training_loader(root)))
    assert type(batch).__name__ == "CaptioningBatch"
    assert batch.image[0].startswith(f"{int(batch.__key__[0])} jpg".encode())
    assert batch.__subflavors__[0] == {"source": "web"}
    assert (keys_of(root), keys_of(root, "val")) == (TRAIN, VAL)

    first, second = loader_log.messages
    assert "indexing the Energon dataset" in first
    assert f"`wdsctl index {root}` does so in advance" in first
    assert second.startswith(f"imported from {root}/.nv-meta: CaptioningSample")


def test_dataset_indexed_at_first_use_resumes_like_prepared_one(tmp_path: Path) -> None:
    prepared = an_energon_dataset(tmp_path / "one" / "data")
    prepare(prepared)
    expected = digests(make_training_loader(prepared), 8)
    first = make_training_loader(an_energon_dataset(tmp_path / "two" / "data"))
    state = save_state_after(first, 3)
    second = make_training_loader(str(tmp_path / "two" / "data"))
    second.load_state_dict(state)
    assert digests(second, 5) == expected[3:]


def test_empty_or_missing_split_is_reported_by_name(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    with pytest.raises(InputError, match="'test' has no samples"):
        keys_of(root, "test")
    with pytest.raises(InputError, match="has no split 'dev'"):
        keys_of(root, "dev")


def test_dataset_yaml_of_wdsctl_overrides_energon_config(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    (tmp_path / ".wdsctl").mkdir()
    (tmp_path / ".wdsctl" / "dataset.yaml").write_text("sample_type: TextSample\nfield_map: {text: txt}\n")
    assert samples_of(root)[0].text.startswith(b"0 txt")


def test_folder_without_nv_meta_is_not_indexed(tmp_path: Path, loader_log: pytest.LogCaptureFixture) -> None:
    root = an_energon_dataset(tmp_path)
    shutil.rmtree(tmp_path / ".nv-meta")
    before = tree(tmp_path)
    with pytest.raises(CatalogError) as raised:
        keys_of(root)
    assert (raised.value.code, tree(tmp_path), loader_log.messages) == ("WDS301", before, [])


def test_dataset_without_energon_info_file_is_not_indexed(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    os.unlink(tmp_path / ".nv-meta" / ".info.json")
    with pytest.raises(CatalogError, match="no catalog"):
        keys_of(root)
    (tmp_path / ".nv-meta" / ".info.yaml").write_text("energon_version: 6.0.0\nshard_counts: {parts/data-0.tar: 4}\n")
    assert keys_of(root) == TRAIN


def test_split_that_names_missing_shards_raises_each_time(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path, shards=2)
    for _ in range(2):
        with pytest.raises(DatasetError, match="2 names in the file are not in the dataset"):
            keys_of(root)
    (tmp_path / ".nv-meta" / "split.yaml").write_text("split_parts: {train: ['parts/data-{0..1}.tar']}\n")
    assert len(keys_of(root)) == 8


def test_read_or_index_reads_catalog_written_by_another_process_meanwhile(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)

    def read(dataset: OpenDataset) -> list[SplitShard]:
        if not dataset.has_catalog():
            index(root)
            raise InputError("the dataset has no split 'train'; it has none yet", hint="", code="WDS211")
        return dataset.catalog.split("train")

    with open_dataset(root) as dataset:
        parts = read_or_index(dataset, None, read)
    assert sum(part.samples for part in parts) == len(TRAIN)


def test_concurrent_processes_index_dataset_once(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    ranks = [
        children.Popen(
            [sys.executable, "-c", RANK, root],
            cwd=HERE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            parent="training",
        )
        for _ in range(3)
    ]
    outputs = [rank.communicate(timeout=120) for rank in ranks]
    assert [out.decode().split() for out, _ in outputs] == [TRAIN] * 3
    assert sum(b"imported from" in err for _, err in outputs) == 1
    assert sorted(os.listdir(tmp_path / ".wdsctl")) == [
        "catalog.sqlite",
        "dataset.yaml",
        "ledger.sqlite",
        "offsets-1.bin",
    ]


def test_indexing_killed_before_splits_is_repeated_at_next_use(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    killed = children.run(
        [sys.executable, "-c", KILLED, root], cwd=HERE, check=False, capture_output=True, parent="training"
    )
    assert killed.returncode == 9
    assert not (tmp_path / ".wdsctl" / "catalog.sqlite").exists()  # it is published with its splits, or not at all
    assert keys_of(root) == TRAIN


def test_catalog_without_splits_gets_energon_splits(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    (tmp_path / ".nv-meta").rename(tmp_path / "aside")
    index(root)
    (tmp_path / "aside").rename(tmp_path / ".nv-meta")
    assert keys_of(root) == TRAIN


def test_catalog_of_read_only_root_is_written_to_data_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loader_log: pytest.LogCaptureFixture
) -> None:
    root = an_energon_dataset(tmp_path / "data")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: not (path == root and mode & os.W_OK) and bool(access(path, mode))
    )
    before = tree(root)
    assert keys_of(root) == TRAIN
    assert tree(root) == before
    assert f"into {tmp_path}/home/wdsctl/data-" in loader_log.messages[0]
    assert keys_of(root) == TRAIN
    assert len(loader_log.messages) == 2


def test_catalog_option_determines_catalog_folder(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path / "data")
    assert keys_of(root, catalog=tmp_path / "mine") == TRAIN
    assert (tmp_path / "mine" / "catalog.sqlite").exists()
    assert not Path(locate(root).meta).exists()


def test_dataset_at_url_is_indexed_at_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    root = an_energon_dataset(tmp_path / "data")
    for pattern in ("*.tar", "*.yaml", ".info.json"):
        url = upload_shards(root, "memory://first-use/shards", pattern)
    assert (keys_of(url), keys_of(url, "val")) == (TRAIN, VAL)


def test_code_of_dataset_runs_only_with_trust_code(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path, dataset=CODE)
    code = tmp_path / ".nv-meta" / "sample_loader.py"
    code.write_text("def load(raw):\n    return {'text': raw['txt'].decode().split()[0]}\n")
    with pytest.raises(UsageError) as raised:
        keys_of(root)
    assert (raised.value.code, raised.value.where) == ("WDS222", f"{tmp_path}/.wdsctl/dataset.yaml:5")
    assert str(code) in raised.value.message
    assert [sample.text for sample in samples_of(root, "val", trust_code=True)] == ["12", "13", "14", "15"]


def test_split_config_and_dataset_config_select_energon_files(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path, split=SPLIT.replace("data-3", "data-2"))  # in two splits
    with pytest.raises(DatasetError, match="patterns of several splits") as raised:
        keys_of(root)
    assert "split_config='split.yaml'" in raised.value.hint
    (tmp_path / ".nv-meta" / "crude.yaml").write_text(CRUDE)
    samples = samples_of(root, "val", split_config="split.yaml", dataset_config="crude.yaml")
    assert [(sample["__key__"], "txt" in sample) for sample in samples] == [(f"{i:06}", True) for i in range(8, 12)]


def test_blend_of_energon_datasets_indexes_each_once(tmp_path: Path, loader_log: pytest.LogCaptureFixture) -> None:
    for i in range(3):
        an_energon_dataset(tmp_path / f"part-{i}", dataset=CAPTIONING)
    leaves = "".join(f"      - {{weight: 1, path: part-{i}}}\n" for i in (0, 1, 2, 0))
    blend = tmp_path / "blend.yaml"
    blend.write_text(f"{CATALOG}splits:\n  train:\n    blend:\n{leaves}  val: {{path: part-1}}\n")
    batches = list(islice(make_training_loader(str(blend)), 10))
    assert {source for batch in batches for source, *_ in batch.__restore_key__} == {0, 1, 2, 3}
    assert keys_of(blend, "val") == VAL
    assert len(loader_log.messages) == 6


def test_open_store_indexes_energon_dataset(tmp_path: Path) -> None:
    with closing(open_store(an_energon_dataset(tmp_path))) as store:
        assert store.read(store.find("000001.jpg")).startswith(b"1 jpg")


def test_open_store_indexes_energon_dataset_at_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    root = an_energon_dataset(tmp_path / "data")
    for pattern in ("*.tar", "*.yaml", ".info.json"):
        url = upload_shards(root, "memory://first-use/stores", pattern)
    with closing(open_store(url)) as store:
        assert store.read(store.find("000001.jpg")).startswith(b"1 jpg")


def test_energon_jsonl_file_is_crude_and_has_only_train_split(
    tmp_path: Path, loader_log: pytest.LogCaptureFixture
) -> None:
    root = an_energon_jsonl(tmp_path / "text.jsonl")
    assert keys_of(root) == ["0", "1", "2", "3", "4", "5"]
    assert isinstance(samples_of(root)[0], CrudeSample)
    assert loader_log.messages[1:] == [f"imported from {root}.idx: CrudeSample, the split train"]
    assert keys_of(root, "val") == keys_of(root)  # Energon ignores splits of such files
    assert "its only split, 'train', is read instead" in loader_log.messages[-1]


def test_jsonl_file_indexed_in_advance_is_crude_too(tmp_path: Path) -> None:
    for make in (index, prepare):
        root = an_energon_jsonl(tmp_path / f"{make.__name__}.jsonl")
        make(root)
        assert isinstance(samples_of(root)[0], CrudeSample)


def test_jsonl_file_without_energon_index_is_not_indexed(tmp_path: Path) -> None:
    root = an_energon_jsonl(tmp_path / "text.jsonl")
    os.unlink(f"{root}.idx")
    with pytest.raises(CatalogError, match="no catalog"):
        keys_of(root)
    assert os.listdir(tmp_path) == ["text.jsonl"]
