"""Classes of the user's own that derive from Energon's factories, and `prepare_dataset`."""

from __future__ import annotations

import json
import pickle
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.build import a_dataset, samples
from tests.energon import an_energon_dataset
from wdsctl.core.dataset.shard_names import expand_braces
from wdsctl.core.errors import DatasetError, InputError, UsageError, WdsctlError
from wdsctl.loader.energon import (
    BaseWebdatasetFactory,
    CaptioningWebdataset,
    Cooker,
    CrudeJsonlDatasetFactory,
    DefaultDecoderWebdatasetFactory,
    FileStore,
    Lazy,
    RepeatDataset,
    Sample,
    SampleDecoder,
    SavableDataLoader,
    TaskEncoder,
    WorkerConfig,
    get_loader,
    get_val_dataset,
)
from wdsctl.loader.energon.epathlib import EPath
from wdsctl.loader.energon.flavors import SavableDataset
from wdsctl.loader.energon.flavors.webdataset import MAIN_FOLDER_NAME
from wdsctl.loader.samples import registry

MODULE = "chatml_of_user"
DATASET = f"__module__: {MODULE}\n__class__: Chats\nfield_map: {{text: txt, picture: txt}}\nsubflavors: {{a: 1}}\n"


@dataclass
class Chat(Sample):
    text: Any
    picture: Any


class Encoder(TaskEncoder[Any, Any, Any, Any]):
    def batch(self, samples: list[Any]) -> Any:
        return samples


class RawEncoder(Encoder):
    decoder = None


@pytest.fixture(autouse=True)
def module_of_user(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module that the user's program has imported."""
    module = types.ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)
    yield module
    for name in [each for each in registry._registered if each.startswith(f"{MODULE}:")]:
        del registry._registered[name]


def a_factory(**members: Any) -> type[DefaultDecoderWebdatasetFactory[Chat]]:
    return types.new_class(
        "Chats",
        (DefaultDecoderWebdatasetFactory[Chat],),
        exec_body=lambda scope: scope.update(__module__=MODULE, __sample_type__=Chat, **members),
    )


def first_batch(path: str, **options: Any) -> list[Any]:
    dataset = get_val_dataset(path, batch_size=2, task_encoder=Encoder(), **options)
    batch: list[Any] = next(iter(get_loader(dataset)))
    return batch


def test_dataset_yaml_finds_factory_that_program_defined(tmp_path: Path) -> None:
    path = an_energon_dataset(tmp_path / "data", dataset=DATASET)
    a_factory()

    first = first_batch(path)[0]

    assert (type(first), first.__key__, first.__subflavors__) == (Chat, "000012", {"a": 1})
    assert (first.text, first.picture) == ("12 txt .", "12 txt .")


def test_factory_decodes_parts_by_its_own_decoder(tmp_path: Path) -> None:
    """As Megatron-Bridge and Pai-Megatron-Patch: they set `_decoder` to a function of all parts in `__init__`."""
    path = an_energon_dataset(tmp_path / "data", dataset=DATASET)

    def decode(parts: dict[str, Any]) -> dict[str, Any]:
        return {name: len(data) if name == "txt" else data for name, data in parts.items()}  # base fields, too

    def init(self: Any, path: Any, *, auto_decode: bool = True, **options: Any) -> None:
        super(kind, self).__init__(path, auto_decode=auto_decode, **options)
        self._decoder = decode

    kind = a_factory(__init__=init)
    first = first_batch(path)[0]

    assert (first.text, first.picture, first.__sources__[0].shard_name) == (8, 8, "parts/data-3.tar")
    assert pickle.loads(pickle.dumps(first)).text == 8  # noqa: S301 - of this test


def test_factory_gets_image_decode_of_task_encoder(tmp_path: Path) -> None:
    seen: list[str] = []

    def init(self: Any, path: Any, **options: Any) -> None:
        super(kind, self).__init__(path, **options)
        seen.append(self.image_decode)

    kind = a_factory(__init__=init)
    path = an_energon_dataset(tmp_path / "data", dataset=DATASET)
    with pytest.warns(UserWarning, match="image_decode"):
        dataset = get_val_dataset(path, batch_size=1, image_decode="pil")
    next(iter(get_loader(dataset)))

    assert set(seen) == {"pil"}


def test_factory_may_override_load_sample(tmp_path: Path) -> None:
    path = an_energon_dataset(tmp_path / "data", dataset=DATASET)
    a_factory(load_sample=lambda _, parts: Chat(__key__=parts["__key__"], text=parts["txt"], picture=None))

    assert [each.text for each in first_batch(path)] == [b"12 txt .", b"13 txt ."]


def test_samples_of_factories_are_joined(tmp_path: Path) -> None:
    one = an_energon_dataset(tmp_path / "one", dataset=DATASET)
    two = an_energon_dataset(tmp_path / "two", dataset=DATASET)
    a_factory(load_sample=lambda _, parts: Chat(__key__=parts["__key__"], text=parts["txt"], picture="own"))
    joins: list[dict[str, Any]] = [
        {"join": {"a": {"path": one}, "b": {"path": two}}},
        {
            "join": [{"path": one}, {"path": two}],
            "joiner": lambda a, b: Chat(__key__=a.__key__, text=a.text, picture=b),
        },
    ]

    named, joined = (first_batch(each)[0] for each in joins)  # type: ignore[arg-type]

    assert (named["a"]["text"], named["b"]["picture"]) == (b"12 txt .", "own")
    assert (joined.__key__, joined.text, joined.picture.text) == ("000012", b"12 txt .", b"12 txt .")


def test_factory_that_program_did_not_import_needs_trust(tmp_path: Path) -> None:
    path = an_energon_dataset(tmp_path / "data", dataset=DATASET)

    with pytest.raises(UsageError, match="only runs with trust_code") as raised:
        first_batch(path)
    assert raised.value.code == "WDS270"


def test_factory_whose_init_needs_more_arguments_is_refused(tmp_path: Path) -> None:
    path = an_energon_dataset(tmp_path / "data", dataset=DATASET)

    def init(self: Any, path: Any, *, tokenizer: Any, **options: Any) -> None:
        super(kind, self).__init__(path, decoder=tokenizer, **options)

    kind = a_factory(__init__=init)

    with pytest.raises(UsageError, match=r"cannot create Chats of dataset.yaml: .*tokenizer"):
        first_batch(path)


def test_factory_without_sample_type_is_refused_at_its_definition() -> None:
    with pytest.raises(UsageError, match="__sample_type__ of Bad is not a sample type"):
        types.new_class(
            "Bad", (CaptioningWebdataset,), exec_body=lambda scope: scope.update(__module__=MODULE, __sample_type__=int)
        )


def test_factory_opens_no_dataset() -> None:
    factory = CaptioningWebdataset(EPath("data"), worker_config=WorkerConfig(rank=0, world_size=1))

    with pytest.raises(UsageError, match="CaptioningWebdataset opens no dataset") as raised:
        factory.build()
    assert "get_train_dataset" in str(raised.value.hint)


@pytest.mark.parametrize(
    "kind", [Lazy, FileStore, Cooker, SavableDataLoader, RepeatDataset, BaseWebdatasetFactory, SavableDataset]
)
def test_generic_classes_of_energon_are_subscriptable(kind: Any) -> None:
    assert kind[int]
    assert isinstance(kind, type)


@pytest.mark.parametrize("name", ["MapDataset", "FilterDataset", "EpochizeDataset", "GcDataset", "BlendDataset"])
def test_wrappers_without_class_are_subscriptable(name: str) -> None:
    from wdsctl.loader import energon

    kind = getattr(energon, name)
    assert kind[int, str] is not None
    assert not isinstance(3, kind)


def a_folder_of_shards(root: Path, shards: int = 5) -> list[str]:
    names = [f"parts/data-{i}.tar" for i in range(shards)]
    a_dataset(root, {name: samples(4 * i, 4) for i, name in enumerate(names)})
    return names


def expand_all(names: list[str]) -> list[str]:
    return [each for name in names for each in expand_braces(name)]


def test_prepare_dataset_writes_what_conversion_scripts_need(tmp_path: Path) -> None:
    """The end of Pai-Megatron-Patch's conversions: `prepare_dataset`, then dataset.yaml into the folder of Energon."""
    names = a_folder_of_shards(tmp_path / "data")
    path = EPath(tmp_path / "data")
    ratios = [("train", 3), ("val", 2), ("test", 0)]

    parts = BaseWebdatasetFactory.prepare_dataset(path, names, split_parts_ratio=ratios, workers=2)
    meta = Path(path.url) / MAIN_FOLDER_NAME
    (meta / "dataset.yaml").write_text("__module__: megatron.energon\n__class__: CrudeWebdataset\n")

    assert parts == {"jpg", "txt"}
    assert json.loads((meta / ".info.json").read_text())["shard_counts"] == dict.fromkeys(names, 4)
    batches = list(get_loader(get_val_dataset(path, batch_size=8, task_encoder=RawEncoder())))
    shards = {sample["__sources__"][0].shard_name for batch in batches for sample in batch}
    train = get_val_dataset(path, batch_size=12, split_part="train", task_encoder=RawEncoder())
    trained = {sample["__sources__"][0].shard_name for batch in get_loader(train) for sample in batch}
    assert (len(trained), len(shards), trained | shards, trained & shards) == (3, 2, set(names), set())


def test_prepare_dataset_leaves_out_no_shard(tmp_path: Path) -> None:
    """0.7 + 0.2 + 0.1 is slightly less than 1."""
    names = a_folder_of_shards(tmp_path / "data", 10)
    ratios = [("train", 7), ("val", 2), ("test", 1)]

    BaseWebdatasetFactory.prepare_dataset(tmp_path / "data", names, split_parts_ratio=ratios, split_config="split.json")

    splits = json.loads((tmp_path / "data" / MAIN_FOLDER_NAME / "split.json").read_text())["split_parts"]
    assert sorted(shard for each in splits.values() for shard in expand_all(each)) == sorted(names)


def test_prepare_dataset_splits_by_patterns(tmp_path: Path) -> None:
    names = a_folder_of_shards(tmp_path / "data")
    patterns = [("train", "parts/data-{0..2}[.]tar"), ("val", r"parts/data-[34]\.tar")]

    BaseWebdatasetFactory.prepare_dataset(tmp_path / "data", names, split_parts_patterns=patterns, shuffle_seed=None)

    text = (tmp_path / "data" / MAIN_FOLDER_NAME / "split.yaml").read_text()
    assert "train:\n  - parts/data-{0..2}.tar\n  val:\n  - parts/data-{3..4}.tar\n" in text


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"paths": ["missing.tar"]}, InputError, "the shard does not exist"),
        ({"paths": ["a.tgz"]}, InputError, "compressed shard has no random access"),
        ({"paths": ["text.tar"]}, DatasetError, "tar"),
        ({"fix_duplicates": True}, UsageError, "does not change shards"),
        ({"media_filter": object()}, UsageError, "reads no media facts"),
        ({"parent_path": "s3://bucket/x"}, UsageError, "local folders only"),
        ({"split_parts_ratio": None}, UsageError, "no split was given"),
    ],
)
def test_prepare_dataset_refuses_and_writes_nothing(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    names = a_folder_of_shards(tmp_path)
    (tmp_path / "text.tar").write_text("no tar" * 1000)
    arguments = {"parent_path": tmp_path, "paths": names, "split_parts_ratio": [("train", 1)], **options}

    with pytest.raises(error, match=message):
        BaseWebdatasetFactory.prepare_dataset(**arguments)
    assert not (tmp_path / MAIN_FOLDER_NAME).exists()


def test_prepare_dataset_refuses_folder_with_catalog(tmp_path: Path) -> None:
    path = an_energon_dataset(tmp_path / "data")
    next(iter(get_loader(get_val_dataset(path, task_encoder=RawEncoder()))))

    with pytest.raises(UsageError, match="has a catalog already"):
        BaseWebdatasetFactory.prepare_dataset(path, ["parts/data-0.tar"], split_parts_ratio=[("train", 1)])


def test_prepare_dataset_indexes_jsonl_as_energon(tmp_path: Path) -> None:
    path = tmp_path / "qa.jsonl"
    path.write_text('{"text": "a"}\n\n{"text": "bc"}\n{"text": "d"}')

    assert CrudeJsonlDatasetFactory.prepare_dataset(EPath(path)) == 3
    assert np.fromfile(f"{path}.idx", "<u8").tolist() == [0, 15, 30, 43]
    (batch,) = get_loader(get_val_dataset(path, batch_size=4, task_encoder=Encoder()))
    assert [sample["json"]["text"] for sample in batch] == ["a", "bc", "d"]
    with pytest.raises(UsageError, match="has a catalog already"):
        CrudeJsonlDatasetFactory.prepare_dataset(path)


@pytest.mark.parametrize(
    ("text", "message"), [('{"a": 1}\n[2]\n', "no JSON object"), ("\n", "no samples"), (None, "qa.jsonl")]
)
def test_prepare_dataset_refuses_jsonl_without_objects(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "qa.jsonl").write_text(text)

    with pytest.raises(WdsctlError, match=message):
        CrudeJsonlDatasetFactory.prepare_dataset(tmp_path / "qa.jsonl")
    assert not (tmp_path / "qa.jsonl.idx").exists()


def test_decoder_default_is_in_signature_of_factory() -> None:
    """Megatron-Bridge looks for it to recognise Energon 7.4."""
    import inspect

    parameters = inspect.signature(DefaultDecoderWebdatasetFactory.__init__).parameters
    assert parameters["decoder"].default == SampleDecoder()
