"""What joined samples are: dicts of their members, or what a class or a function makes of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import a_dataset
from tests.loader.running import strict, taken, training_of
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
    def from_joined(cls, *_: Any, **named: Any) -> Pair:
        left, right = named["left"], named["right"]
        return cls.derive_from(left, left=left["txt"], right=None if right is None else right["txt"])


@pytest.fixture
def one(tmp_path: Path) -> str:
    return a_dataset(tmp_path / "one", 12)


@pytest.fixture
def two(tmp_path: Path) -> str:
    return a_dataset(tmp_path / "two", 8, parts=lambda i: {"txt": f"two {i}".encode()})


def joined(one: str, two: str, *, nonmatch: str = "skip", **keys: Any) -> dict[str, Any]:
    return {"join": [{"path": one}, {"path": two, "nonmatch": nonmatch}], **keys}


def named(one: str, two: str, *, nonmatch: str = "skip", **keys: Any) -> dict[str, Any]:
    return {"join": {"left": {"path": one}, "right": {"path": two, "nonmatch": nonmatch}}, **keys}


def first(path: Any, encoder: Any = None, **options: Any) -> Any:
    (sample,) = taken(training_of(path, encoder=encoder, batch_size=None, worker_config=strict(), **options), 1)
    return sample


def test_by_name_each_member_is_a_dict_of_its_fields(one: str, two: str) -> None:
    sample = first(named(one, two))
    number = int(sample["__key__"])

    assert sample["left"] == {"txt": f"text {number}".encode(), "json": f'{{"number": {number}}}'.encode()}
    assert sample["right"] == {"txt": f"two {number}".encode()}
    assert sample["__restore_key__"][0] == 1


def test_by_name_a_member_that_is_not_there_is_none(one: str, two: str) -> None:
    samples = taken(training_of(named(one, two, nonmatch="none"), batch_size=None), 12)

    assert {int(sample["__key__"]) for sample in samples if sample["right"] is None} == {8, 9, 10, 11}


def test_fields_of_one_name_need_names_or_a_joiner(one: str, two: str) -> None:
    with pytest.raises(DatasetError, match="both have a field 'txt'") as raised:
        first(joined(one, two))

    assert raised.value.code == "WDS605"


def test_typed_members_give_their_fields(one: str, tmp_path: Path) -> None:
    typed = a_dataset(tmp_path / "typed", 12, sample_type="TextSample", field_map={"text": "txt"})
    sample = first({"join": [{"path": one}, {"path": typed}]})

    assert sample["text"] == sample["txt"]


def test_a_function_by_its_import_path_gets_all_samples(
    one: str, two: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_joins.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_joins", raising=False)
    sample = first(joined(one, two, joiner={"__module__": "my_joins", "__function__": "pair"}), trust_code=True)

    assert sample["second"] == f"two {sample['sum'] // 2}".encode()
    assert [source.dataset_path for source in sample["__sources__"]] == [one, two]


def test_a_class_joins_by_its_from_joined(one: str, two: str) -> None:
    node = named(one, two, nonmatch="none", joiner=f"{Pair.__module__}:Pair")
    samples = taken(training_of(node, batch_size=None, trust_code=True), 12)

    assert all(isinstance(sample, Pair) for sample in samples)
    assert sum(sample.right is None for sample in samples) == 4
    there = next(sample for sample in samples if sample.right is not None)
    assert [source.dataset_path for source in there.__sources__] == [one, two]
    assert there.__restore_key__[:2] == (1, 0)


def test_sample_types_join_by_position_without_more(tmp_path: Path) -> None:
    text = a_dataset(tmp_path / "text", 6, sample_type="TextSample", field_map={"text": "txt"})
    image = a_dataset(tmp_path / "image", 6, parts=lambda i: {"image": b"i%d" % i, "caption": b"c"})
    sample = first({"join": [{"path": image}, {"path": text}], "joiner": f"{__name__}:Captioned"}, trust_code=True)

    assert (sample.image, sample.text) == (b"i%d" % int(sample.__key__), f"text {int(sample.__key__)}".encode())


@edataclass
class Captioned(CaptioningSample):
    text: str


def test_a_sample_type_of_energon_is_ours(one: str, tmp_path: Path) -> None:
    two = a_dataset(tmp_path / "x", 12, parts=lambda _: {"text": b"t"})
    node = {
        "join": [{"path": two}, {"path": two}],
        "joiner": {"__module__": "megatron.energon", "__class__": "TextSample"},
    }

    assert isinstance(first(node), TextSample)


def test_a_joiner_may_be_given_in_code_and_change_its_samples(one: str, two: str) -> None:
    def change(a: Any, b: Any) -> Any:
        a.update(b)
        return a

    sample = first(joined(one, two, joiner=change))

    assert sample["txt"] == f"two {int(sample['__key__'])}".encode()
    assert len(sample["__sources__"]) == 2
    assert sample["__restore_key__"][0] == 1


def test_labels_that_a_joiner_gives_stay(one: str, two: str) -> None:
    node = joined(one, two, joiner=lambda _, b: {**b, "__subflavors__": {"mine": 1}}, subflavors={"all": 1})

    assert first(node)["__subflavors__"] == {"mine": 1}


def test_labels_are_those_of_the_join_whichever_member_a_joiner_takes_its_base_from(one: str, two: str) -> None:
    for member in (0, 1):
        node = joined(one, two, joiner=lambda *given, member=member: dict(given[member]), subflavors={"all": 1})
        assert first(node)["__subflavors__"] == {"all": 1}


def test_a_joiner_may_skip(one: str, two: str) -> None:
    def odd(a: Any, b: Any) -> Any:
        if int(a["__key__"]) % 2:
            raise SkipSample
        return a

    loader = training_of(joined(one, two, joiner=odd), batch_size=None, worker_config=strict())

    assert {sample["__key__"] for sample in taken(loader, 8)} == {"000000", "000002", "000004", "000006"}
    assert loader.stats.skipped > 0
    assert loader.stats.failed == 0


def test_a_joiner_that_fails_is_told_with_dataset_and_key(one: str, two: str) -> None:
    with pytest.raises(LoaderError, match="ZeroDivisionError") as raised:
        first(joined(one, two, joiner=lambda *_: 1 / 0))

    assert one in raised.value.where
    with pytest.raises(LoaderError, match="the joiner returned None"):
        first(joined(one, two, joiner=lambda *_: None))


@pytest.mark.parametrize(
    ("joiner", "words"),
    [
        ("no_such_module:pair", "joiner: no module 'no_such_module' was found"),
        ("json:lods", "joiner: json has no 'lods'"),
        ("math:pi", "not a function"),
    ],
)
def test_a_joiner_that_is_not_there_is_told(joiner: str, words: str, one: str, two: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        first(joined(one, two, joiner=joiner), trust_code=True)

    assert raised.value.code == "WDS605"
    assert "mapping.join" in raised.value.where


def test_a_joiner_sees_images_that_are_decoded(tmp_path: Path) -> None:
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
    node = joined(one, two, joiner=lambda a, b: {**a, "sum": int(a["jpg"].max()) + int(b["jpg"].max())})
    loader = training_of(node, encoder=Threads(), worker_config=WorkerConfig(0, 1))

    for batch in taken(loader, 6):
        assert batch["sum"] == [2 * int(key) for key in batch["__key__"]]
        assert batch["jpg"].shape == (4, 3, 8, 8)


def test_another_joiner_is_another_recipe(one: str, two: str) -> None:
    state = training_of(joined(one, two, joiner=f"{__name__}:left"), trust_code=True).state_dict()

    with pytest.warns(UserWarning, match="other hooks"):
        training_of(joined(one, two, joiner=f"{__name__}:right"), trust_code=True).load_state_dict(state)


def left(a: Any, b: Any) -> Any:
    return a


def right(a: Any, b: Any) -> Any:
    return b
