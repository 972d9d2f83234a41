"""Joined samples: dicts of their members, or the results of a joiner class or function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import a_dataset
from tests.loader.running import make_training_loader, raising_worker_config, take_batches
from wdsctl.core.errors import DatasetError, LoaderError, UsageError
from wdsctl.loader import CaptioningSample, DefaultTaskEncoder, Sample, SkipSample, TextSample, WorkerConfig, edataclass

MODULE = """
def pair(first, second):
    return {**first, "second": second["txt"], "sum": int(first["__key__"]) + int(second["__key__"])}
"""


@edataclass
class Pair(Sample):
    left: Any
    right: Any

    @classmethod
    def from_joined(cls, *_: Any, **named_members: Any) -> Pair:
        left, right = named_members["left"], named_members["right"]
        return cls.derive_from(left, left=left["txt"], right=None if right is None else right["txt"])


@pytest.fixture
def one(tmp_path: Path) -> str:
    return a_dataset(tmp_path / "one", 12)


@pytest.fixture
def two(tmp_path: Path) -> str:
    return a_dataset(tmp_path / "two", 8, parts=lambda i: {"txt": f"two {i}".encode()})


def join_of(one: str, two: str, *, nonmatch: str = "skip", **keys: Any) -> dict[str, Any]:
    return {"join": [{"path": one}, {"path": two, "nonmatch": nonmatch}], **keys}


def named_members(one: str, two: str, *, nonmatch: str = "skip", **keys: Any) -> dict[str, Any]:
    return {"join": {"left": {"path": one}, "right": {"path": two, "nonmatch": nonmatch}}, **keys}


def first_sample(path: Any, encoder: Any = None, **options: Any) -> Any:
    (sample,) = take_batches(
        make_training_loader(path, encoder=encoder, batch_size=None, worker_config=raising_worker_config(), **options),
        1,
    )
    return sample


def test_named_members_are_dicts_of_their_fields(one: str, two: str) -> None:
    sample = first_sample(named_members(one, two))
    number = int(sample["__key__"])

    assert sample["left"] == {"txt": f"text {number}".encode(), "json": f'{{"number": {number}}}'.encode()}
    assert sample["right"] == {"txt": f"two {number}".encode()}
    assert sample["__restore_key__"][0] == 1


def test_missing_named_member_is_none(one: str, two: str) -> None:
    samples = take_batches(make_training_loader(named_members(one, two, nonmatch="none"), batch_size=None), 12)

    assert {int(sample["__key__"]) for sample in samples if sample["right"] is None} == {8, 9, 10, 11}


def test_join_refuses_duplicate_fields_without_names_or_joiner(one: str, two: str) -> None:
    with pytest.raises(DatasetError, match="both have a field 'txt'") as raised:
        first_sample(join_of(one, two))

    assert raised.value.code == "WDS605"


def test_typed_members_contribute_their_fields(one: str, tmp_path: Path) -> None:
    typed = a_dataset(tmp_path / "typed", 12, sample_type="TextSample", field_map={"text": "txt"})
    sample = first_sample({"join": [{"path": one}, {"path": typed}]})

    assert sample["text"] == sample["txt"]


def test_joiner_function_by_import_path_gets_all_members(
    one: str, two: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_joins.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_joins", raising=False)
    sample = first_sample(join_of(one, two, joiner={"__module__": "my_joins", "__function__": "pair"}), trust_code=True)

    assert sample["second"] == f"two {sample['sum'] // 2}".encode()
    assert [source.dataset_path for source in sample["__sources__"]] == [one, two]


def test_joiner_class_uses_from_joined(one: str, two: str) -> None:
    node = named_members(one, two, nonmatch="none", joiner=f"{Pair.__module__}:Pair")
    samples = take_batches(make_training_loader(node, batch_size=None, trust_code=True), 12)

    assert all(isinstance(sample, Pair) for sample in samples)
    assert sum(sample.right is None for sample in samples) == 4
    matched = next(sample for sample in samples if sample.right is not None)
    assert [source.dataset_path for source in matched.__sources__] == [one, two]
    assert matched.__restore_key__[:2] == (1, 0)


def test_sample_type_without_from_joined_joins_by_position(tmp_path: Path) -> None:
    text = a_dataset(tmp_path / "text", 6, sample_type="TextSample", field_map={"text": "txt"})
    image = a_dataset(tmp_path / "image", 6, parts=lambda i: {"image": b"i%d" % i, "caption": b"c"})
    sample = first_sample(
        {"join": [{"path": image}, {"path": text}], "joiner": f"{__name__}:Captioned"}, trust_code=True
    )

    assert (sample.image, sample.text) == (b"i%d" % int(sample.__key__), f"text {int(sample.__key__)}".encode())


@edataclass
class Captioned(CaptioningSample):
    text: str


def test_energon_sample_type_as_joiner_maps_to_wdsctl_type(one: str, tmp_path: Path) -> None:
    two = a_dataset(tmp_path / "x", 12, parts=lambda _: {"text": b"t"})
    node = {
        "join": [{"path": two}, {"path": two}],
        "joiner": {"__module__": "megatron.energon", "__class__": "TextSample"},
    }

    assert isinstance(first_sample(node), TextSample)


def test_callable_joiner_may_change_its_samples(one: str, two: str) -> None:
    def change(a: Any, b: Any) -> Any:
        a.update(b)
        return a

    sample = first_sample(join_of(one, two, joiner=change))

    assert sample["txt"] == f"two {int(sample['__key__'])}".encode()
    assert len(sample["__sources__"]) == 2
    assert sample["__restore_key__"][0] == 1


def test_subflavors_set_by_joiner_are_kept(one: str, two: str) -> None:
    node = join_of(one, two, joiner=lambda _, b: {**b, "__subflavors__": {"mine": 1}}, subflavors={"all": 1})

    assert first_sample(node)["__subflavors__"] == {"mine": 1}


def test_subflavors_of_primary_override_those_of_other_members(one: str, two: str) -> None:
    for root, name in ((one, "one"), (two, "two")):
        path = Path(root) / ".wdsctl" / "dataset.yaml"
        path.write_text(path.read_text().replace("subflavors: {}", f"subflavors: {{of: {name}, {name}: 1}}"))

    sample = first_sample(named_members(one, two))

    assert sample["__subflavors__"] == {"of": "one", "one": 1, "two": 1}


def test_joined_sample_has_subflavors_of_join(one: str, two: str) -> None:
    for member in (0, 1):
        node = join_of(one, two, joiner=lambda *members, member=member: dict(members[member]), subflavors={"all": 1})
        assert first_sample(node)["__subflavors__"] == {"all": 1}


def test_joiner_may_skip_samples(one: str, two: str) -> None:
    def skip_odd(a: Any, b: Any) -> Any:
        if int(a["__key__"]) % 2:
            raise SkipSample
        return a

    loader = make_training_loader(
        join_of(one, two, joiner=skip_odd), batch_size=None, worker_config=raising_worker_config()
    )

    assert {sample["__key__"] for sample in take_batches(loader, 8)} == {"000000", "000002", "000004", "000006"}
    assert loader.stats.skipped > 0
    assert loader.stats.failed == 0


@pytest.mark.parametrize(
    ("result", "message"), [(lambda: 1 / 0, "ZeroDivisionError"), (lambda: None, "the joiner returned None")]
)
def test_failing_joiner_error_names_dataset_and_key(
    result: Callable[[], Any], message: str, one: str, two: str
) -> None:
    keys: list[str] = []

    def join(first: Any, _: Any) -> Any:
        keys.append(first["__key__"])
        return result()

    with pytest.raises(LoaderError, match=message) as raised:
        first_sample(join_of(one, two, joiner=join))

    assert f"dataset {one}," in raised.value.where
    assert f"key {keys[0]}" in raised.value.where


@pytest.mark.parametrize(
    ("joiner", "message"),
    [
        ("no_such_module:pair", "joiner: no module 'no_such_module' was found"),
        ("json:lods", "joiner: json has no 'lods'"),
        ("math:pi", "not a function"),
    ],
)
def test_unknown_joiner_is_refused(joiner: str, message: str, one: str, two: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        first_sample(join_of(one, two, joiner=joiner), trust_code=True)

    assert raised.value.code == "WDS605"
    assert "mapping.join" in raised.value.where


def test_joiner_gets_decoded_images_with_decode_threads(tmp_path: Path) -> None:
    import io

    from PIL import Image

    from wdsctl.loader import SampleDecoder

    def image(i: int) -> dict[str, bytes]:
        file = io.BytesIO()
        Image.new("RGB", (8, 8), (i, i, i)).save(file, "JPEG")
        return {"jpg": file.getvalue()}

    class Threads(DefaultTaskEncoder[Any, Any, Any, Any]):
        decoder = SampleDecoder(image_decode="torchrgb8", decode_threads=4)

    one, two = (a_dataset(tmp_path / name, 12, parts=image) for name in ("a", "b"))
    node = join_of(one, two, joiner=lambda a, b: {**a, "sum": int(a["jpg"].max()) + int(b["jpg"].max())})
    loader = make_training_loader(node, encoder=Threads(), worker_config=WorkerConfig(0, 1))

    for batch in take_batches(loader, 6):
        assert batch["sum"] == [2 * int(key) for key in batch["__key__"]]
        assert batch["jpg"].shape == (4, 3, 8, 8)


def test_restoring_with_another_joiner_warns(one: str, two: str) -> None:
    state = make_training_loader(join_of(one, two, joiner=f"{__name__}:left"), trust_code=True).state_dict()

    with pytest.warns(UserWarning, match="other hooks"):
        make_training_loader(join_of(one, two, joiner=f"{__name__}:right"), trust_code=True).load_state_dict(state)


def left(a: Any, b: Any) -> Any:
    return a


def right(a: Any, b: Any) -> Any:
    return b
