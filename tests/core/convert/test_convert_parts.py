"""Which parts are copied under which names, and keys that collide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, an_image
from tests.core.conversions import a_prepared_dataset, content, convert_to, keys, members
from wdsctl.core.convert.parts import PartRules, parse_image
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import UsageError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest


def test_sample_type_is_copied_with_renamed_parts(tmp_path: Path) -> None:
    image = an_image("PNG")
    source = a_dataset(
        tmp_path / "a", {"0.tar": {f"{i}.{p}": d for i in range(4) for p, d in _captioned_image(image, i)}}
    )
    prepare(source, None, PrepareRequest(accept_type=True, split={"train": 1}))

    report = convert_to(tmp_path / "b", source, image=parse_image("jpeg:80"))

    config = load_config(locate(str(tmp_path / "b")).config_path)
    assert (config.sample_type, config.field_map) == ("CaptioningSample", {"image": "jpg", "caption": "txt"})
    assert report.failed == 0
    assert {name.partition(".")[2] for name, _ in members(tmp_path / "b")} == {"jpg", "txt"}


def _captioned_image(image: bytes, i: int) -> list[tuple[str, bytes]]:
    return [("png", image), ("txt", f"a caption of picture {i}".encode())]


def _make_captioning(root: Path, caption: str, data: bytes, more: dict[str, bytes] | None = None) -> str:
    parts = {"jpg": an_image("JPEG"), caption.partition("[")[0]: data, **(more or {})}
    source = a_dataset(
        root, {"0.tar": {f"{root.name}{i}.{name}": part for i in range(4) for name, part in parts.items()}}
    )
    field_map = {"image": "jpg", "caption": caption}
    prepare(source, None, PrepareRequest(sample_type="CaptioningSample", field_map=field_map))
    return source


def test_convert_merges_field_maps_of_one_sample_type(tmp_path: Path) -> None:
    lines = _make_captioning(tmp_path / "a", "json[text]", b'{"text": "a dog", "n": 1}')
    files = _make_captioning(tmp_path / "b", "txt", b"a cat")

    report = convert_to(tmp_path / "both", lines, files)

    config = load_config(locate(str(tmp_path / "both")).config_path)
    assert (config.sample_type, config.field_map) == (
        "CaptioningSample",
        {"image": "jpg", "caption": "json[text],txt"},
    )
    assert (report.findings, report.notes) == ((), ())


def test_convert_warns_about_fields_that_merged_dataset_does_not_read(tmp_path: Path) -> None:
    one = _make_captioning(tmp_path / "a", "txt", b"a dog", {"json": b'{"title": "x"}'})
    two = _make_captioning(tmp_path / "b", "json[title]", b'{"title": "a cat"}', {"txt": b"cc-by"})

    report = convert_to(tmp_path / "both", one, two)

    ((code, severity, message),) = ((each.code, each.severity, each.message) for each in report.findings)
    assert (code, severity) == ("WDS347", "warning")
    assert message == f"CaptioningSample does not read caption (json[title]) of the samples from {two}"
    assert "their sample types and field maps are not copied" in report.notes[0]


def test_subflavors_are_copied_if_sample_type_is_detected_again(tmp_path: Path) -> None:
    source = a_prepared_dataset(tmp_path / "a")
    authored = Path(locate(source).config_path)
    authored.write_text(authored.read_text().replace("subflavors: {}", "subflavors: {mine: 1}"))
    assert load_config(str(authored)).field_map

    convert_to(tmp_path / "b", source, parts=PartRules(keep=("txt",)))

    config = load_config(locate(str(tmp_path / "b")).config_path)
    assert (config.subflavors, "jpg" in config.field_map.values()) == ({"mine": 1}, False)


def test_parts_are_kept_dropped_and_renamed(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"a.jpg": b"j", "a.seg.png": b"s", "a.txt": b"t"}})

    convert_to(tmp_path / "b", source, parts=PartRules(keep=("jpg", "*.png")))
    convert_to(tmp_path / "c", source, parts=PartRules(drop=("txt",), rename=(("jpg", "image.jpg"),)))

    assert content(tmp_path / "b") == {"a.jpg": b"j", "a.seg.png": b"s"}
    assert content(tmp_path / "c") == {"a.image.jpg": b"j", "a.seg.png": b"s"}


def test_sample_with_colliding_part_names_fails_alone(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"a.jpg": b"j", "a.png": b"p", "b.jpg": b"b", "c.png": b"c"}})

    report = convert_to(tmp_path / "b", source, parts=PartRules(rename=(("png", "jpg"),)))

    assert content(tmp_path / "b") == {"b.jpg": b"b", "c.jpg": b"c"}
    assert [finding.code for finding in report.findings] == ["WDS342"]


def test_rename_to_part_of_all_samples_is_refused_before_writing(tmp_path: Path) -> None:
    source = a_prepared_dataset(tmp_path / "a")

    with pytest.raises(UsageError, match=r"cannot rename part 'txt' to 'jpg': all 40 samples") as caught:
        convert_to(tmp_path / "b", source, parts=PartRules(rename=(("txt", "jpg"),)))
    convert_to(tmp_path / "c", source, parts=PartRules(drop=("jpg",), rename=(("txt", "jpg"),)))

    assert caught.value.code == "WDS342"
    assert not (tmp_path / "b").exists()
    assert {name.partition(".")[2] for name, _ in members(tmp_path / "c")} == {"jpg"}


def test_colliding_keys_are_refused_prefixed_or_skipped(tmp_path: Path) -> None:
    one = a_dataset(tmp_path / "one", {"0.tar": {"a.txt": b"1", "b.txt": b"1"}})
    two = a_dataset(tmp_path / "two", {"0.tar": {"b.txt": b"2", "c.txt": b"2"}})

    with pytest.raises(UsageError, match="1 key of 2 datasets would occur more than once in the destination: b"):
        convert_to(tmp_path / "refused", one, two)
    convert_to(tmp_path / "prefixed", one, two, on_collision="prefix")
    report = convert_to(tmp_path / "first", one, two, on_collision="keep-first")

    assert keys(tmp_path / "prefixed") == ["one/a", "one/b", "two/b", "two/c"]
    assert content(tmp_path / "first") == {"a.txt": b"1", "b.txt": b"1", "c.txt": b"2"}
    assert report.repeated == 1


def test_repeated_keys_in_one_source_are_numbered(tmp_path: Path) -> None:
    shards = {f"{i}.tar": {"a.txt": str(i).encode()} for i in range(3)}
    source = a_dataset(tmp_path / "a", shards)

    convert_to(tmp_path / "b", source, on_collision="prefix")

    assert content(tmp_path / "b") == {"a.txt": b"0", "2/a.txt": b"1", "3/a.txt": b"2"}


TURNS = b'{"messages": [{"role": "user", "content": "<image> and <image>"}, {"role": "assistant", "content": "yes"}]}'


def make_conversations(root: Path, images: str) -> str:
    """A sample with two images, and a field map that takes them as a list."""
    image = an_image("PNG")
    source = a_dataset(root, {"0.tar": {"a.0.png": image, "a.1.png": image, "a.json": TURNS}})
    field_map = {"messages": "json", "images": images}
    prepare(source, None, PrepareRequest(sample_type="ConversationSample", field_map=field_map, split={"train": 1}))
    return source


@pytest.mark.parametrize(
    ("images", "options", "expected"),
    [
        ("*", {}, "*"),
        ("*.png", {"image": parse_image("jpeg:80", parts=("*.png",))}, "*.png,*.jpg"),
        ("*.png", {"image": parse_image("jpeg:80", parts=("1.png",))}, "*.png,1.jpg"),
        ("*.png", {"parts": PartRules(rename=(("1.png", "1.apng"),))}, "*.png,1.apng"),
        ("0.png,1.png", {"image": parse_image("jpeg:80", parts=("*.png",))}, "0.jpg,1.jpg"),
    ],
)
def test_field_map_list_of_media_follows_new_names(
    tmp_path: Path, images: str, options: dict[str, Any], expected: str
) -> None:
    convert_to(tmp_path / "b", make_conversations(tmp_path / "a", images), **options)

    config = load_config(locate(str(tmp_path / "b")).config_path)
    assert (config.sample_type, config.field_map) == (
        "ConversationSample",
        {"messages": "json", "images": expected},
    )


def test_rename_that_would_reorder_images_of_conversation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the field images takes \* sorted by name") as caught:
        convert_to(
            tmp_path / "b", make_conversations(tmp_path / "a", "*"), parts=PartRules(rename=(("0.png", "first.png"),))
        )

    assert caught.value.hint
    assert not (tmp_path / "b").exists()
