"""Arguments and methods from earlier versions of Energon."""

from __future__ import annotations

import json
import logging
import os
import pickle
import warnings
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import wdsctl.loader
from tests.energon import CAPTIONING, an_energon_dataset, an_energon_jsonl
from tests.loader.datasets import Raw, a_dataset
from wdsctl.core.errors import InputError, UsageError
from wdsctl.loader import energon, open_store
from wdsctl.loader.energon import (
    CrudeSample,
    DefaultTaskEncoder,
    FileStore,
    FileStoreCachePool,
    LimitDataset,
    NoCachePool,
    RepeatDataset,
    SampleDecoder,
    SourceInfo,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    get_val_datasets,
    prepare_metadataset,
    traverse_metadataset,
)
from wdsctl.loader.energon.cache import DecodeFileStore, MockLazy, SystemFileStore
from wdsctl.loader.energon.epathlib import EPath


class FailingEncoder(Raw):
    def encode_sample(self, sample: Any) -> Any:
        if sample["__key__"].endswith("3"):
            raise ValueError("three")
        return sample


class OwnDecoder(TaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder(image_decode="pil")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data") / "shards", 20, split={"train": 0.8, "val": 0.2})


def test_handler_receives_exception_of_hook(path: str) -> None:
    three: list[Any] = []
    two: list[Any] = []
    options: dict[str, Any] = {"batch_size": 4, "task_encoder": FailingEncoder(), "repeat": False}

    with pytest.warns(UserWarning, match="deprecated these arguments: handler"):
        first = get_train_dataset(path, handler=lambda error, sample, _: three.append((error, sample)), **options)
    with pytest.warns(UserWarning, match="handler"):
        second = get_train_dataset(path, handler=lambda error, key: two.append((error, key)), **options)
    for dataset in (first, second):
        list(get_loader(dataset))

    assert [(str(error), sample["__key__"][-1]) for error, sample in three] == [("three", "3")] * len(three)
    assert [(str(error), key["__key__"]) for error, key in two] == [("three", each["__key__"]) for _, each in three]
    assert isinstance(three[0][0], ValueError)


@pytest.mark.parametrize("argument", [{"handler": print}, {"image_decode": "pil"}, {"auto_decode": False}, {}])
def test_deprecated_dataset_arguments_leave_worker_config_equal(path: str, argument: dict[str, Any]) -> None:
    """Programs pass one WorkerConfig to the dataset, its wrappers and the loader."""
    workers = WorkerConfig(rank=0, world_size=1)
    options: dict[str, Any] = {"batch_size": 2, "task_encoder": None, "worker_config": workers, **argument}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train = get_train_dataset(path, virtual_epoch_length=3, **options)
        validations = [dataset for dataset, _ in get_val_datasets(path, **options)]

    limited = LimitDataset(RepeatDataset(validations[0], worker_config=workers), length=5, worker_config=workers)
    assert len(list(get_savable_loader(train, worker_config=workers))) == 3
    assert len(list(get_loader(limited, worker_config=workers))) == 5


def test_dataset_decode_arguments_configure_sample_decoder(path: str) -> None:
    encoder: Any = DefaultTaskEncoder()
    with pytest.warns(UserWarning, match="image_decode, av_decode, guess_content"):
        dataset = get_val_dataset(
            path, image_decode="pil", av_decode="pyav", guess_content=True, task_encoder=encoder, batch_size=2
        )

    assert dataset.task_encoder.decoder == SampleDecoder(image_decode="pil", av_decode="pyav", guess_content=True)
    assert encoder.decoder is DefaultTaskEncoder.decoder
    with pytest.warns(UserWarning, match="auto_decode"):
        assert get_train_dataset(path, auto_decode=False).task_encoder.decoder is None
    with pytest.warns(UserWarning, match="image_decode"):
        assert get_train_dataset(path, image_decode="pil", task_encoder=OwnDecoder())
    with pytest.warns(UserWarning, match="image_decode"), pytest.raises(UsageError, match="OwnDecoder has a decoder"):
        get_train_dataset(path, image_decode="rgb", task_encoder=OwnDecoder())


def test_cache_pool_argument_sets_dataset_pool_without_warning(path: str) -> None:
    pool = NoCachePool()

    assert get_train_dataset(path, cache_pool=pool, task_encoder=Raw()).cache_pool is pool
    assert [each.cache_pool for each, _ in get_val_datasets(path, cache_pool=pool, parallel_shard_iters=1)] == [pool]


def test_deprecated_loader_methods_save_and_restore_state(path: str) -> None:
    loader = get_savable_loader(get_train_dataset(path, batch_size=4, task_encoder=Raw()))
    list(islice(loader, 3))
    with pytest.warns(UserWarning, match="save_state_rank"):
        state = loader.save_state(0)
    expected = [batch.__key__ for batch in islice(loader, 3)]

    other = get_savable_loader(get_train_dataset(path, batch_size=4, task_encoder=Raw()))
    with pytest.warns(UserWarning, match="restore_state_rank"):
        other.restore_state(state)

    assert [batch.__key__ for batch in islice(other, 3)] == expected


def test_jsonl_with_one_split_serves_every_split(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = an_energon_jsonl(tmp_path / "qa.jsonl")
    blend = tmp_path / "blend.yaml"
    blend.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train: {path: qa.jsonl}\n"
        "  val: {path: qa.jsonl}\n"
    )
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        batches = list(get_loader(get_val_dataset(str(blend), batch_size=4, task_encoder=Raw())))

    assert [len(batch["__key__"]) for batch in batches] == [4, 2]
    assert "has no split 'val': its only split, 'train', is read instead" in caplog.text
    assert next(iter(get_loader(get_train_dataset(lines, task_encoder=Raw()))))["__key__"]


def test_jsonl_without_energon_index_refuses_missing_split(tmp_path: Path) -> None:
    lines = an_energon_jsonl(tmp_path / "qa.jsonl")
    next(iter(get_loader(get_train_dataset(lines, task_encoder=Raw()))))
    os.remove(f"{lines}.idx")

    with pytest.raises(InputError, match="no split 'val'"):
        list(get_loader(get_val_dataset(lines, batch_size=4, task_encoder=Raw())))


def test_traversed_stores_are_paths(tmp_path: Path) -> None:
    (tmp_path / "blend.yaml").write_text(
        "splits: {train: {path: missing, aux: {labels: other, media: 'filesystem://media'}}}\n"
    )
    (tmp_path / "other" / ".nv-meta").mkdir(parents=True)
    (tmp_path / "other" / ".nv-meta" / ".info.json").write_text("{}")

    (dataset,) = traverse_metadataset(tmp_path / "blend.yaml", split_part="train")

    assert dataset.aux == {"labels": EPath(tmp_path / "other"), "media": EPath(tmp_path / "media")}


def test_metadataset_is_traversed_and_validated(tmp_path: Path) -> None:
    an_energon_dataset(tmp_path / "images")
    (tmp_path / "blend.yaml").write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n"
        "  train: {blend: [{path: images, weight: 2, subflavors: {a: 1}}, {path: images, split_part: val}]}\n"
    )

    datasets = traverse_metadataset(tmp_path / "blend.yaml", split_part="train")

    assert {type(each.path) for each in datasets} == {EPath}
    assert [(os.path.basename(each.path), each.split_part, each.subflavors) for each in datasets] == [
        ("images", "train", {"a": 1}),
        ("images", "val", {}),
    ]
    prepare_metadataset(tmp_path / "blend.yaml")
    (tmp_path / "bad.yaml").write_text("splits: {train: {wieght: 3}}\n")
    with pytest.raises(Exception, match="wieght"):
        prepare_metadataset(tmp_path / "bad.yaml")


def test_file_stores_read_folder_files_raw_and_decoded(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"x": 1}))

    store = SystemFileStore(tmp_path)
    decoded = DecodeFileStore(store, decoder=SampleDecoder())

    assert store["a.json"][0] == b'{"x": 1}'
    assert decoded["a.json"][0] == {"x": 1}
    assert store["a.json"][0] == b'{"x": 1}'
    assert decoded["a.json"][1] == store["a.json"][1]
    with pytest.raises(UsageError, match="needs a folder"):
        SystemFileStore()


def test_decode_file_store_decodes_prepared_dataset(path: str) -> None:
    store = open_store(path)
    decoded = DecodeFileStore(store, decoder=SampleDecoder())

    assert (store["000003.json"][0], decoded["000003.json"][0]) == (b'{"number": 3}', {"number": 3})
    assert pickle.loads(pickle.dumps(decoded))["000003.json"][0] == {"number": 3}  # noqa: S301 - of this test


class Memory(FileStore):
    """A store of the program, as Energon defines the interface."""

    def __init__(self, **files: bytes) -> None:
        self.files = files

    def __getitem__(self, name: str) -> tuple[bytes, SourceInfo]:
        data = self.files[name.replace(".", "_")]
        return data, SourceInfo(dataset_path=self.get_path(), index=0, shard_name="", file_names=(name,))

    def get_path(self) -> str:
        return "memory"


@pytest.mark.parametrize("pool", [NoCachePool, FileStoreCachePool])
def test_store_of_program_needs_methods_of_energon_only(pool: Any, tmp_path: Path) -> None:
    store = Memory(a_json=b'{"x": 1}')
    decoded = DecodeFileStore(store, decoder=SampleDecoder())
    cache = pool(tmp_path) if pool is FileStoreCachePool else pool()
    sample: dict[str, Any] = {"__sources__": ()}

    assert (store.get("a.json"), decoded["a.json"][0], store.path) == (b'{"x": 1}', {"x": 1}, "memory")
    assert cache.get(decoded, "a.json", sample) == {"x": 1}
    assert cache.get_lazy(store, "a.json").get() == b'{"x": 1}'
    assert [source.file_names for source in sample["__sources__"]] == [("a.json",)]
    assert isinstance(SystemFileStore(tmp_path), FileStore)
    assert not isinstance(SystemFileStore(tmp_path), Memory)
    with pytest.raises(KeyError):
        cache.get(store, "b.json")
    with pytest.raises(TypeError, match="abstract"):
        FileStore()  # type: ignore[abstract, call-arg]
    cache.close()


def test_mock_lazy_returns_function_result() -> None:
    lazy = MockLazy("name", str.upper)

    assert (lazy.get(), lazy.fname, lazy == MockLazy("name", str.upper)) == ("NAME", "name", True)


def test_worker_debug_path_warns() -> None:
    with pytest.warns(UserWarning, match="WDS523"):
        WorkerConfig(worker_debug_path="log-{worker_id}.jsonl")


def test_length_of_endless_training_is_one_epoch(path: str) -> None:
    """Elsewhere it has none, because trainers end epochs by it."""
    for world_size, batch_size, expected in ((1, 4, 4), (1, 5, 4), (2, 4, 2), (2, 3, 3)):
        workers = WorkerConfig(rank=0, world_size=world_size)
        dataset = get_train_dataset(path, batch_size=batch_size, task_encoder=Raw(), worker_config=workers)
        assert (len(dataset), len(get_savable_loader(dataset))) == (expected, expected)
    assert len(get_train_dataset(path, batch_size=3, batch_drop_last=True, task_encoder=Raw())) == 5
    assert len(get_val_dataset(path, batch_size=3, task_encoder=Raw())) == 2
    with pytest.raises(TypeError, match="endless training has no length"):
        len(wdsctl.loader.get_loader(wdsctl.loader.get_train_dataset(path, task_encoder=Raw())))


def test_length_of_endless_blend_counts_repetitions_and_subsets(path: str) -> None:
    entries = [{"repetitions": 0.7, "path": path}, {"repetitions": 1.5, "path": path, "subset": {"range": [0, 10]}}]
    dataset = get_train_dataset({"blend_epochized": entries}, batch_size=1, task_encoder=Raw())

    assert len(get_loader(dataset)) == 11 + 15  # of 16 and of 10 samples


def test_global_error_handler_receives_exception_of_hook(path: str) -> None:
    seen: list[Any] = []
    workers = WorkerConfig(global_error_handler=lambda error, sample, _: seen.append((error, sample["__key__"])))

    dataset = get_val_dataset(path, batch_size=4, task_encoder=FailingEncoder(), worker_config=workers)
    list(get_loader(dataset))
    list(wdsctl.loader.get_loader(wdsctl.loader.get_val_dataset(path, task_encoder=FailingEncoder())))

    assert {(type(error), str(error), key[-1]) for error, key in seen} == {(ValueError, "three", "3")}


def test_loader_has_its_dataset(path: str) -> None:
    dataset = get_val_dataset(path, batch_size=4, task_encoder=Raw())
    limited = LimitDataset(dataset, length=1)

    assert get_loader(dataset).dataset is dataset
    assert get_loader(limited).dataset is limited


def test_captioning_samples_have_fields_of_energon(tmp_path: Path) -> None:
    """Programs copy all fields into classes of their own: `Mine(**asdict(sample), weight=1)`."""
    config = CAPTIONING.replace("caption: txt", "caption: txt\n  captions: txt")
    root = an_energon_dataset(tmp_path / "data", dataset=config)
    encoder: Any = DefaultTaskEncoder()
    encoder.decoder = None
    samples: dict[Any, Any] = {}
    for module in (energon, wdsctl.loader):
        dataset = module.get_val_dataset(root, task_encoder=encoder, batch_size=None)
        samples[module] = next(iter(module.get_loader(dataset)))
    batch: Any = next(iter(get_loader(get_val_dataset(root, task_encoder=encoder, batch_size=2))))

    own = [field.name for field in fields(samples[energon]) if not field.name.startswith("__")]
    assert (own, type(samples[energon])) == (["image", "caption"], energon.CaptioningSample)
    assert isinstance(samples[wdsctl.loader], energon.CaptioningSample)
    assert samples[wdsctl.loader].captions == b"12 txt ."
    assert (type(batch).__name__, hasattr(batch, "captions")) == ("CaptioningBatch", False)
    assert len(list(get_loader(get_val_dataset(root, task_encoder=encoder, sample_type=energon.CaptioningSample)))) == 4


def test_dataset_config_is_that_of_its_loader(path: str) -> None:
    dataset = get_train_dataset(path, batch_size=4, task_encoder=Raw())

    assert dataset.config() == get_savable_loader(dataset).config()
    assert WorkerConfig(rank=1, world_size=2, num_workers=3).config() == {
        "rank": 1,
        "world_size": 2,
        "num_workers": 3,
        "data_parallel_group": None,
    }


def test_sample_type_argument_is_checked(path: str) -> None:
    dataset = get_val_dataset(path, batch_size=4, task_encoder=Raw(), sample_type=CrudeSample)
    assert len(list(get_loader(dataset))) == 1

    wrong = get_val_dataset(path, batch_size=4, task_encoder=Raw(), sample_type=TextSample)
    with pytest.raises(UsageError, match="sample_type is TextSample, but the samples are CrudeSample"):
        next(iter(get_loader(wrong)))


def test_blender_is_importable_from_room_whose_hints_name_it() -> None:
    assert energon.Blender is wdsctl.loader.Blender
