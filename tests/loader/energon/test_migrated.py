"""What `migrate` passes without a remark runs: each program here is written for Energon, migrated, and executed.

Together they use every name that wdsctl has, with all arguments of Energon 7.4.
"""

from __future__ import annotations

import ast
import warnings
from importlib import import_module
from itertools import chain
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.energon import an_energon_dataset
from wdsctl.core.energon.migrate import ARGUMENT_NOTES, EnergonUse, migrate_text
from wdsctl.core.energon.names import (
    FACTORIES,
    MISSING_MEMBERS,
    NAMES_BY_MODULE,
    NO_BASES,
    NO_CONSTRUCTORS,
    REPLACEMENTS,
)

#: A program by what it is about. `path`: a dataset; `folder`: of temporary files.
PROGRAMS = {
    "datasets and loaders": """
        from megatron.energon import (
            DefaultTaskEncoder, NoCachePool, SavableDataLoader, SavableDataset, SkipSample, WorkerConfig, get_loader,
            get_savable_loader, get_train_dataset, get_val_dataset, get_val_datasets, log_exception, reraise_exception,
        )
        workers = WorkerConfig(
            rank=0, world_size=1, num_workers=0, data_parallel_group=None, seed_offset=1,
            global_error_handler=log_exception, restore_error_handler=reraise_exception,
        )
        class Encoder(DefaultTaskEncoder):
            decoder = None
            def encode_sample(self, sample):
                if sample.__key__ == "000000":
                    raise SkipSample
                return sample
        common = dict(
            split_part="train", worker_config=workers, batch_size=2, batch_drop_last=False, packing_buffer_size=None,
            task_encoder=Encoder(),
        )
        train = get_train_dataset(
            path, shuffle_buffer_size=10, max_samples_per_sequence=10, virtual_epoch_length=3, repeat=True,
            shuffle_over_epochs_multiplier=1, **common,
        )
        timeouts = dict(prefetch_factor=2, cache_pool=NoCachePool(), watchdog_timeout_seconds=60,
            watchdog_initial_timeout_seconds=60, fail_on_timeout=False)
        loader = get_savable_loader(
            train, worker_config=workers, checkpoint_every_sec=60, checkpoint_every_min_n_samples=1, n_checkpoints=2,
            gc_collect_every_n_steps=10, **timeouts,
        )
        batches = list(loader)
        assert (len(batches), len(loader), len(train)) == (3, 3, 3)
        state = loader.save_state_rank()
        loader.restore_state_rank(state)
        loader.restore_state_global(loader.save_state_global(global_dst_rank=0))
        assert loader.restore_sample(batches[0].__restore_key__).__key__ == batches[0].__key__
        assert isinstance(loader, SavableDataLoader) and isinstance(train, SavableDataset)
        assert loader.dataset.path == path and loader.config()["recipe"] == train.config()["recipe"]
        assert train.worker_config.config() == workers.config()
        validation = get_val_dataset(path, limit=1, **common)
        assert len(list(get_loader(validation, worker_config=workers, **timeouts))) == 1
        assert len(get_val_datasets(path, limit=1, **common)) == 1
        assert WorkerConfig.default_worker_config(0, None).world_size == 1
        """,
    "wrappers": """
        from megatron.energon import (
            ConcatDataset, DefaultTaskEncoder, EpochizeDataset, FilterDataset, GcDataset, LimitDataset, MapDataset,
            RepeatDataset, WorkerConfig, get_loader, get_train_dataset, get_val_dataset,
        )
        class Encoder(DefaultTaskEncoder):
            decoder = None
        workers = WorkerConfig(rank=0, world_size=1, num_workers=0)
        def validate():
            return get_val_dataset(path, worker_config=workers, batch_size=2, task_encoder=Encoder())
        repeated = RepeatDataset(validate(), repeats=2, worker_config=workers)
        limited = LimitDataset(repeated, length=3, worker_config=workers, reset_after_epoch=True)
        joined = ConcatDataset(limited, validate(), worker_config=workers)
        assert len(get_loader(joined)) == len(list(get_loader(joined))) == 5
        mapped = MapDataset(validate(), lambda batch: batch.__key__, stateless_map_fn=True, map_fn_config={},
            failure_tolerance=3, worker_config=workers)
        kept = FilterDataset(mapped, filter_fn=lambda keys: "000012" in keys, filter_fn_config=None,
            worker_config=workers)
        assert list(get_loader(GcDataset(kept, worker_config=workers, every_n_iter=3, freeze=True))) == [
            ["000012", "000013"]]
        train = get_train_dataset(path, worker_config=workers, batch_size=2, shuffle_buffer_size=None,
            max_samples_per_sequence=None, task_encoder=Encoder())
        assert len(list(get_loader(EpochizeDataset(train, length=2, worker_config=workers)))) == 2
        """,
    "task encoders": """
        from typing import Any
        from megatron.energon import (
            AugmentTaskEncoder, Batch, Cooker, CrudeSample, DefaultTaskEncoder, FileStore, Sample, SampleDecoder,
            SourceInfo, TaskEncoder, TextSample, WorkerConfig, basic_sample_keys, cooker, edataclass, get_loader,
            get_val_dataset, stateless,
        )
        @edataclass
        class Text(Sample):
            text: str
        @edataclass
        class Texts(Batch):
            text: list
        @stateless
        @cooker(need_cache=True, need_primary=True)
        def cook(sample: CrudeSample, primary: FileStore, cache: Any) -> Text:
            source: SourceInfo = sample["__sources__"][0]
            assert primary.get(".txt", sample) == sample["txt"]
            return Text(**basic_sample_keys(sample), text=sample["txt"].decode())
        class Encoder(DefaultTaskEncoder[CrudeSample, Text, Texts, Texts]):
            cookers = [Cooker(cook=cook, has_subflavors={"source": "web"}), Cooker(cook)]
            decoder = None
            def __init__(self):
                super().__init__(encoded_sample_type=None, raw_batch_type=Texts, batch_type=None)
            @stateless(restore_seeds=True, failure_tolerance=3)
            def encode_sample(self, sample: Text) -> Text:
                assert self.current_batch_index == 0 and self.current_sample_index >= 0
                return Text.extend(sample, text=sample.text + "!")
            def encode_batch(self, batch: Texts) -> Texts:
                return Texts.derive_from(batch, text=batch.text)
        SampleDecoder(image_decode="pil", av_decode=None, video_decode_audio=False, guess_content=False)
        workers = WorkerConfig(rank=0, world_size=1, num_workers=0)
        class Outer(AugmentTaskEncoder[CrudeSample, Text, Texts, Texts]):
            def encode_sample(self, sample):
                return Text.derive_from(super().encode_sample(sample), text="outer")
        for encoder, text in ((Encoder(), "12 txt .!"), (Outer(task_encoder=Encoder()), "outer")):
            dataset = get_val_dataset(path, worker_config=workers, batch_size=1, task_encoder=encoder,
                dataset_config="crude.yaml")
            batch = next(iter(get_loader(dataset)))
            assert (type(batch), batch.text, batch.__key__) == (Texts, [text], ["000012"])
        assert issubclass(DefaultTaskEncoder, TaskEncoder)
        assert TextSample(__key__="1", __restore_key__=(), __subflavors__={}, text="x").text == "x"
        """,
    "sample types": """
        import megatron.energon as e
        types = [e.CaptioningSample, e.ImageSample, e.ImageClassificationSample, e.InterleavedSample, e.OCRSample,
            e.MultiChoiceVQASample, e.SimilarityInterleavedSample, e.TextSample, e.VQASample, e.VidQASample]
        for each in types:
            assert issubclass(each, e.Sample)
        factories = {e.CaptioningWebdataset: types[0], e.ImageWebdataset: types[1],
            e.ImageClassificationWebdataset: types[2], e.InterleavedWebdataset: types[3], e.OCRWebdataset: types[4],
            e.MultiChoiceVQAWebdataset: types[5], e.SimilarityInterleavedWebdataset: types[6],
            e.TextWebdataset: types[7], e.VQAWebdataset: types[8], e.VidQAWebdataset: types[9]}
        for factory, each in factories.items():
            assert factory.__sample_type__ is each
            assert issubclass(factory, e.DefaultDecoderWebdatasetFactory)
        class Mine(e.VQAOCRWebdataset):
            def __init__(self, path, *, auto_decode=True, **kwargs):
                super().__init__(path, auto_decode=auto_decode, **kwargs)
        class Other(e.StandardWebdatasetFactory): ...
        class Generic(e.DefaultGenericWebdatasetFactory[e.TextSample]):
            __sample_type__ = e.TextSample
        class Lines(e.DefaultCrudeJsonlDatasetFactory): ...
        assert issubclass(Lines, e.CrudeJsonlDatasetFactory) and issubclass(Lines, e.BaseCoreDatasetFactory)
        shards = folder / "shards"
        e.BaseWebdatasetFactory.prepare_dataset(
            path, ["parts/data-{0..1}.tar"], split_parts_ratio=[("train", 1)], split_parts_patterns=None,
            split_config="other.yaml", shuffle_seed=42, progress_fn=None, workers=2, tar_index_only=True,
            media_filter=None, fix_duplicates=False,
        )
        """,
    "stores and caches": """
        from megatron.energon import (
            CachePool, DecodeFileStore, FileStore, FileStoreCachePool, Lazy, MockLazy, NoCachePool, SampleDecoder,
            SystemFileStore,
        )
        (folder / "a.json").write_text('{"x": 1}')
        store: FileStore = DecodeFileStore(inner=SystemFileStore(base_dir=folder), decoder=SampleDecoder())
        pools = (NoCachePool(), FileStoreCachePool(parent_cache_dir=folder / "cache", num_workers=1,
            max_cache_size_gbytes=1, max_cache_count=10, method="raw"))
        for pool in pools:
            lazy: Lazy[dict] = pool.get_lazy(store, "a.json")
            assert lazy.get() == pool.get(store, "a.json") == store["a.json"][0] == {"x": 1}
            assert pool.to_cache([1], "name").get() == [1]
            assert isinstance(pool, CachePool)
            pool.close()
        assert MockLazy(fname="a", get_fn=str.upper).get() == "A" and store.get_path() == str(folder)
        """,
    "batches": """
        import torch
        from megatron.energon import (
            batch_list, batch_pad_stack, batch_stack, concat_pad, generic_batch, generic_concat, homogeneous_concat_mix,
        )
        one, two = torch.ones(2), torch.ones(3)
        assert batch_stack([one, one]).shape == (2, 2) and batch_pad_stack([one, two]).shape == (2, 3)
        assert batch_list([1, 2]) == [1, 2] and generic_batch([{"a": one}, {"a": one}])["a"].shape == (2, 2)
        assert concat_pad([one[None], two[None]]).shape == (2, 3)
        assert generic_concat([{"a": one}, {"a": two}])["a"].shape == (5,)
        assert homogeneous_concat_mix([{"a": one}, {"a": two}])["a"].shape == (5,)
        """,
    "metadatasets and paths": """
        from megatron.energon import __version__, prepare_metadataset, traverse_metadataset
        from megatron.energon.epathlib import EPath
        blend = EPath(folder) / "blend.yaml"
        blend.write_text(
            f"__module__: megatron.energon\\n__class__: MetadatasetV2\\nsplits: {{train: {{path: {path}}}}}\\n")
        prepare_metadataset(blend)
        (found,) = traverse_metadataset(blend, split_part="train")
        assert found.path == EPath(path) and found.split_part == "train" and found.aux == {} == found.subflavors
        assert blend.is_file() and blend.parent.is_dir() and blend.size() > 9 and blend.name == "blend.yaml"
        assert [each.name for each in EPath(path).glob("**/data-0.tar")] == ["data-0.tar"]
        """,
    "annotations": """
        from megatron.energon import BlendDataset, SavableDataset
        def build(dataset: BlendDataset[int]) -> SavableDataset: ...
        """,
}


#: The arguments that `migrate` passes with a note, each with a value. First those of datasets, then of loaders and of
#: WorkerConfig.
NOTED_ARGUMENTS = {
    "image_decode": "'pil'",
    "av_decode": "'AVDecoder'",
    "video_decode_audio": "True",
    "guess_content": "True",
    "auto_decode": "False",
    "ignore_decoder_errors": "True",
    "handler": "print",
    "shuffle_buffer_size": "4",
    "max_samples_per_sequence": "None",
    "checkpoint_every_sec": "60",
    "checkpoint_every_min_n_samples": "1",
    "n_checkpoints": "2",
    "gc_collect_every_n_steps": "10",
    "fail_on_timeout": "True",
    "worker_debug_path": "'log-{worker_id}.jsonl'",
    "worker_log_level": "1",
}
NOTED_PROGRAM = """
    from megatron.energon import WorkerConfig, get_savable_loader, get_train_dataset
    workers = WorkerConfig(rank=0, world_size=1, num_workers=0, {workers})
    dataset = get_train_dataset(path, worker_config=workers, batch_size=2, repeat=False, dataset_config="text.yaml",
        {dataset})
    batches = [batch.text for batch in get_savable_loader(dataset, worker_config=workers, {loader})]
    """


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_program_without_hand_work_runs(program: str, tmp_path: Path) -> None:
    path = an_energon_dataset(tmp_path / "data")
    (tmp_path / "data" / ".nv-meta" / "crude.yaml").write_text("sample_type: CrudeSample\nsubflavors: {source: web}\n")
    uses, migrated, _ = migrate_text("x.py", dedent(program).encode())
    assert [use for use in uses if use.kind == "hand"] == []
    assert migrated is not None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = compile(migrated, "migrated", "exec", dont_inherit=True)
        exec(code, {"__name__": "migrated", "path": path, "folder": tmp_path})  # noqa: S102 - the programs above


def run_noted(path: str, **arguments: str) -> tuple[list[EnergonUse], Any]:
    """What `migrate` reports about a program, and the batches that the program reads."""
    places = dict.fromkeys(("workers", "dataset", "loader"), "")
    uses, migrated, _ = migrate_text("x.py", dedent(NOTED_PROGRAM.format(**{**places, **arguments})).encode())
    scope: dict[str, Any] = {"path": path}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(migrated or "", scope)  # noqa: S102 - the program above
    return uses, scope["batches"]


@pytest.mark.parametrize("name", sorted({*NOTED_ARGUMENTS, *ARGUMENT_NOTES}))
def test_arguments_with_note_run_as_described(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = an_energon_dataset(tmp_path / "data")
    (tmp_path / "data" / ".nv-meta" / "text.yaml").write_text("sample_type: TextSample\nfield_map: {text: txt}\n")
    order = list(NOTED_ARGUMENTS)
    after_dataset, after_loader = order.index("checkpoint_every_sec"), order.index("worker_debug_path")
    at = order.index(name)
    place = "dataset" if at < after_dataset else "loader" if at < after_loader else "workers"

    uses, batches = run_noted(path, **{place: f"{name}={NOTED_ARGUMENTS[name]}"})
    _, plain = run_noted(path)

    assert [(use.kind, use.found) for use in uses if use.kind != "rewrite"] == [("note", f"{name}=")]
    texts = [[text.decode() if isinstance(text, bytes) else text for text in batch] for batch in batches]
    assert sorted(chain(*texts)) == sorted(chain(*plain))
    if "has no effect" in ARGUMENT_NOTES[name]:
        assert texts == plain


def test_programs_use_all_names_that_work() -> None:
    used = {
        name
        for program in PROGRAMS.values()
        for node in ast.walk(ast.parse(dedent(program)))
        for name in (
            [node.id] if isinstance(node, ast.Name) else [node.attr] if isinstance(node, ast.Attribute) else []
        )
    } | {"__version__"}

    assert NAMES_BY_MODULE[""] - used - set(REPLACEMENTS) == set()


def test_modules_import_what_migrate_passes() -> None:
    for module, names in NAMES_BY_MODULE.items():
        program = f"from {f'megatron.energon.{module}'.rstrip('.')} import {', '.join(sorted(names))}\n"
        uses, migrated, _ = migrate_text("x.py", program.encode())
        assert [use for use in uses if use.kind == "hand"] == []
        exec(migrated or "", {})  # noqa: S102 - imports


@pytest.mark.parametrize("name", sorted(MISSING_MEMBERS))
def test_missing_members_are_missing_and_reported(name: str) -> None:
    kind: Any = getattr(import_module("wdsctl.loader.energon"), name)
    fields = getattr(kind, "__dataclass_fields__", {})

    for member in MISSING_MEMBERS[name]:
        assert not hasattr(kind, member) or member in fields
        uses, _, _ = migrate_text("x.py", f"from megatron.energon import {name}\n{name}.{member}\n".encode())
        assert [(use.kind, use.found) for use in uses if use.line == 2] == [("hand", f"{name}.{member}")]


def test_members_of_created_objects_are_reported() -> None:
    program = b"""\
import megatron.energon as e
from megatron.energon import WorkerConfig, get_savable_loader
workers = WorkerConfig.default_worker_config()
other = e.WorkerConfig(rank=0)
workers.rank_worker_id(), other.worker_seed(), workers.rank
loader = get_savable_loader(e.get_train_dataset("x"))
loader.id
e.RepeatDataset(loader, restart=True)
e.SavableDataLoader(1, checkpoint_every_sec=2)
class Mine(e.MapDataset): ...
"""
    uses, _, _ = migrate_text("x.py", program)

    assert [(use.line, use.found) for use in uses if use.kind == "hand"] == [
        (5, "WorkerConfig.rank_worker_id"),
        (5, "WorkerConfig.worker_seed"),
        (7, "SavableDataLoader.id"),
        (8, "restart="),
        (9, "SavableDataLoader(...)"),
        (10, "class Mine(MapDataset)"),
    ]


def test_tables_of_migrate_name_what_wdsctl_has() -> None:
    names = set.union(*map(set, NAMES_BY_MODULE.values()))

    assert {*MISSING_MEMBERS, *NO_BASES, *NO_CONSTRUCTORS, *FACTORIES} <= names
