"""The importer of ImageFolder datasets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_folder, an_image
from tests.core.formats import describe_source, description_findings, open_error, read_errors, read_samples
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.media.kinds import media_extensions
from wdsctl.core.samples.naming import dotless_key


def test_folders_are_classes_numbered_by_name(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"dog/a.b.JPG": b"1", "cat/x/2.png": b"2", "cat/1.jpeg": b"3", ".hidden/1.jpg": b"4"})

    assert importers.best_importer(root)[0].name == "imagefolder"
    assert read_samples(root) == {
        "cat/1": {"jpeg": b"3", "cls": b"0", "txt": b"cat"},
        "cat/x/2": {"png": b"2", "cls": b"0", "txt": b"cat"},
        "dog/a_b": {"jpg": b"1", "cls": b"1", "txt": b"dog"},
    }


@pytest.mark.parametrize(
    ("folders", "name", "lines", "names"),
    [
        (
            ("n01440764", "n01443537"),
            "LOC_synset_mapping.txt",
            "n01440764 tench, Tinca tinca\nn01443537 goldfish\nn9 other\n",
            ("tench, Tinca tinca", "goldfish"),
        ),
        (("n1", "n2"), "words.txt", "\ufeffn2\tgoldfish\r\nn1\ttench\r\n", ("tench", "goldfish")),
        (("0", "1"), "classes.txt", "cat\ndog\n", ("cat", "dog")),
        (("1", "10", "2", *"3456789"), "labels.txt", "\n".join("abcdefghij"), ("a", "j", "b", *"cdefghi")),
        (("cat", "dog"), "classes.txt", "dog\ncat\n", ("cat", "dog")),
        (("001.Catty", "002.Doggy"), "classes.txt", "1 001.Catty\n2 002.Doggy\n", ("001.Catty", "002.Doggy")),
    ],
)
@pytest.mark.parametrize("splits", [("",), ("train/", "val/")])
def test_file_next_to_class_folders_names_classes(
    tmp_path: Path, folders: tuple[str, ...], name: str, lines: str, names: tuple[str, ...], splits: tuple[str, ...]
) -> None:
    files = {f"{split}{folder}/{folder[-5:]}_{i}.jpg": b"x" for split in splits for folder in folders for i in range(2)}
    root = a_folder(tmp_path, {**files, name: lines.encode()})

    found = read_samples(root)

    for number, (folder, label) in enumerate(zip(folders, names, strict=True)):
        key = dotless_key(f"{splits[0]}{folder}/{folder[-5:]}_0")
        assert found[key] == {"jpg": b"x", "cls": str(number).encode(), "txt": label.encode()}
    assert description_findings(root) == []


@pytest.mark.parametrize("lines", ["n1 tench\n", "one\ntwo\nthree\n", ""])
def test_incomplete_class_name_file_is_reported_and_ignored(tmp_path: Path, lines: str) -> None:
    files = {f"{folder}/{i}.jpg": b"x" for folder in ("n1", "n2") for i in range(2)}
    root = a_folder(tmp_path, {**files, "classes.txt": lines.encode()})

    assert read_samples(root)["n1/0"]["txt"] == b"n1"
    assert description_findings(root) == [("WDS239", "error", 1)]


def test_images_of_every_format_are_imported(tmp_path: Path) -> None:
    extensions = media_extensions("image")
    root = a_folder(
        tmp_path,
        {f"{name}/{name}-{extension}.{extension}": extension.encode() for name in "ab" for extension in extensions},
    )

    assert importers.best_importer(root)[0].name == "imagefolder"
    assert {parts.keys() - {"cls", "txt"} == {key[4:]} for key, parts in read_samples(root).items()} == {True}
    assert len(read_samples(root)) == 2 * len(extensions)
    config = describe_source(root, form="imagefolder").config
    assert config is not None
    assert set(config.field_map["image"].split(",")) == set(extensions)


@pytest.mark.parametrize(
    ("form", "extension"), [("AVIF", "avif"), ("JPEG2000", "jp2"), ("WEBP", "webp"), ("TGA", "tga")]
)
def test_images_of_rare_formats_become_dataset(tmp_path: Path, form: str, extension: str) -> None:
    image = an_image(form)
    root = a_folder(tmp_path / "raw", {f"{name}/{name}{i}.{extension}": image for name in "ab" for i in range(3)})

    (converted,) = convert([root], str(tmp_path / "made")).datasets

    assert (converted.sample_type, sum(converted.splits.values())) == ("ImageClassificationSample", 6)


def test_split_folders_are_part_of_keys(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"train/dog/1.jpg": b"1", "train/cat/2.jpg": b"2", "val/dog/1.jpg": b"3"})

    found = read_samples(root)

    assert list(found) == ["train/cat/2", "train/dog/1", "val/dog/1"]
    assert [parts["cls"] for parts in found.values()] == [b"0", b"1", b"1"]


@pytest.mark.parametrize("names", [("train", "valid"), ("train2017", "val2017"), ("training_set", "dev_set")])
def test_split_folders_are_splits_of_samples(tmp_path: Path, names: tuple[str, str]) -> None:
    files = {f"{split}/{name}/{name}{i}.jpg": b"1" for split in names for name in "ab" for i in range(2)}
    plain = a_folder(tmp_path / "plain", {"a/1.jpg": b"1", "b/1.jpg": b"2"})

    (converted,) = convert([a_folder(tmp_path / "raw", files)], str(tmp_path / "made")).datasets
    (unsplit,) = convert([plain], str(tmp_path / "whole")).datasets

    assert converted.splits == {"train": 4, "val": 4}
    assert unsplit.splits == {"train": 2}


def test_samples_have_image_label_and_label_name(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "raw", {"a/1.jpg": b"1", "b/1.PNG": b"2", "b/note.md": b"?"})
    config = describe_source(root, form="imagefolder").config

    assert config is not None
    assert config.field_map == {"image": "jpg,png", "label": "cls", "label_name": "txt"}
    converted = convert([root], str(tmp_path / "made"), ConvertRequest(from_format="imagefolder"))
    assert converted.datasets[0].sample_type == "ImageClassificationSample"
    assert (
        "no class folders" in open_error(a_folder(tmp_path / "none", {"a/note.md": b"?"}), form="imagefolder").message
    )


def test_other_files_in_class_folders_are_reported(tmp_path: Path) -> None:
    files = {
        "a/1.jpg": b"1",
        "b/2.jpg": b"2",
        "b/labels.csv": b"?",
        "b/x.tar.gz": b"?",
        "README.md": b"?",
        "c.jpg": b"",
    }
    root = a_folder(tmp_path / "raw", {**files, "a/.hidden": b"", "docs/x.pdf": b""})

    assert list(read_samples(root, form="imagefolder")) == ["a/1", "b/2"]
    assert description_findings(root, form="imagefolder")[:4] == [
        ("WDS240", "error", 1), ("WDS239", "error", 3), ("WDS239", "warning", 1), ("WDS239", "note", 1),
    ]  # fmt: skip
    report = convert([root], str(tmp_path / "made"), ConvertRequest(from_format="imagefolder"))
    assert {found.code for found in report.findings if found.severity == "error"} == {"WDS239", "WDS240"}
    assert "such as b/x.tar.gz" in next(found.message for found in report.findings if found.code == "WDS240")


def test_folders_without_media_are_no_classes_but_empty_folders_are(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"b/1.jpg": b"1", "c/1.jpg": b"2", "c/2.jpg": b"2", "docs/x.md": b"?"})
    (tmp_path / "a").mkdir()
    (tmp_path / "__MACOSX").mkdir()

    assert [parts["cls"] for parts in read_samples(root).values()] == [b"1", b"2", b"2"]
    messages = [found.message for found in describe_source(root, form="imagefolder").findings if found.code == "WDS241"]
    assert messages == [
        "1 class, such as a: the folder of the class is empty: the class keeps its number, but has no samples",
        "1 class, such as b: the class has a single sample, so only one split can have the class",
    ]


def test_splits_share_class_numbers_and_missing_class_is_reported(tmp_path: Path) -> None:
    files = {f"{split}/{name}/{name}{i}.jpg": b"1" for split in ("Training", "dev") for name in "ab" for i in range(2)}
    root = a_folder(tmp_path, {**files, "testing/b/1.jpg": b"1", "testing/b/2.jpg": b"1", "extra/z/1.jpg": b"1"})

    found = read_samples(root)

    assert {key.split("/", 1)[1][0]: parts["cls"] for key, parts in found.items()} == {"a": b"0", "b": b"1"}
    assert not any(key.startswith("extra") for key in found)
    findings = [found.message for found in describe_source(root, form="imagefolder").findings]
    assert findings == [
        "1 file is in no sample (1 .jpg), such as extra/z/1.jpg: not a media file in a class folder",
        "1 class, such as a: the split test has no sample of the class",
    ]
    with importers.get_importer("imagefolder").open(root, {}) as source:
        assert getattr(source, "split_names", ()) == ("train", "val", "test")


def test_split_with_only_unknown_classes_is_reported_as_error(tmp_path: Path) -> None:
    files = {f"train/{name}/{i}{name}.jpg": b"1" for name in "ab" for i in range(2)}
    root = a_folder(tmp_path, files | {f"val/images/{i}.jpg": b"1" for i in range(2)})

    errors = [
        found.message for found in describe_source(root, form="imagefolder").findings if found.severity == "error"
    ]

    assert len(errors) == 2
    assert errors[1].startswith(
        "1 class, such as images: all classes of the split val are missing from the other splits"
    )


def test_class_folders_may_be_nested_in_other_folders(tmp_path: Path) -> None:
    files = {
        f"data/{split}/{name}/images/{name}{i}.jpg": b"1" for split in ("train", "val") for name in "ab" for i in "01"
    }
    root = a_folder(tmp_path, files)

    assert importers.best_importer(root)[0].name == "imagefolder"
    assert {(key.split("/")[2], parts["txt"]) for key, parts in read_samples(root).items()} == {
        ("a", b"a"),
        ("b", b"b"),
    }


def test_classes_of_two_levels_require_option(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"animal/cat/1.jpg": b"1", "animal/dog/2.jpg": b"1", "vehicle/car/3.jpg": b"1"})

    error = open_error(root, form="imagefolder")

    assert (error.code, "-O classes=deepest" in error.hint) == ("WDS235", True)
    assert {parts["txt"] for parts in read_samples(root, {"classes": "first"}).values()} == {b"animal", b"vehicle"}
    deep = read_samples(root, {"classes": "deepest"})
    assert [(parts["cls"], parts["txt"]) for parts in deep.values()] == [
        (b"0", b"animal/cat"), (b"1", b"animal/dog"), (b"2", b"vehicle/car"),
    ]  # fmt: skip


def test_split_folders_without_classes_are_no_classes(tmp_path: Path) -> None:
    files = {f"{split}/{i}{split}.jpg": b"1" for split in ("train", "val", "unlabeled") for i in range(3)}

    assert importers.best_importer(a_folder(tmp_path, files))[0].name == "folder"


@pytest.mark.parametrize("folder", ["test", "Test1", "unlabeled", "val"])
def test_evaluation_folder_without_classes_is_reported_and_ignored(tmp_path: Path, folder: str) -> None:
    files = {f"{split}/{name}/{split}{name}.jpg": b"1" for split in ("train", "dev") for name in ("cat", "dog")}
    root = a_folder(tmp_path / "raw", files | {f"{folder}/{i}.jpg": b"1" for i in range(2)})

    (converted,) = convert([root], str(tmp_path / "made")).datasets

    assert (converted.sample_type, converted.splits) == ("ImageClassificationSample", {"train": 2, "val": 2})
    assert [parts["cls"] for parts in read_samples(root).values()] == [b"0", b"1", b"0", b"1"]
    finding = describe_source(root).findings[0]
    assert (finding.code, finding.severity, finding.count) == ("WDS239", "warning", 2)
    assert f"{folder}/ has no class folders" in finding.message
    assert finding.message.endswith(f"run `wdsctl prepare {root}/{folder} DEST`")


@pytest.mark.parametrize(("flat", "with_classes"), [("train", "val"), ("training", "test")])
def test_training_folder_without_classes_means_no_classes(tmp_path: Path, flat: str, with_classes: str) -> None:
    files = {f"{with_classes}/{name}/1{name}.jpg": b"1" for name in ("cat", "dog")}

    assert importers.best_importer(a_folder(tmp_path, files | {f"{flat}/1.jpg": b"1"}))[0].name == "folder"


def test_audio_and_video_folders_can_be_classes(tmp_path: Path) -> None:
    sounds = a_folder(tmp_path / "s", {"yes/1.wav": b"1", "no/1.wav": b"2", "no/2.wav": b"2"})
    clips = a_folder(tmp_path / "v", {"run/v_1.avi": b"1", "jump/v_2.avi": b"2"})

    assert importers.best_importer(sounds)[0].name == importers.best_importer(clips)[0].name == "imagefolder"
    configs = [describe_source(root, form="imagefolder").config for root in (sounds, clips)]
    assert [(config.sample_type, config.field_map) for config in configs if config] == [
        ("AudioSample", {"audio": "wav", "text": "txt"}), ("VideoSample", {"video": "avi", "text": "txt"}),
    ]  # fmt: skip


def test_speech_commands_lists_are_splits(tmp_path: Path) -> None:
    files = {f"{name}/{i}.wav": b"1" for name in ("yes", "no") for i in range(3)}
    lists = {"validation_list.txt": b"yes/1.wav\nno/9.wav\n", "testing_list.txt": b"no/2.wav\n"}
    root = a_folder(tmp_path / "raw", {**files, **lists, "_background_noise_/rain.wav": b"1", "README.md": b""})

    assert {parts["txt"] for parts in read_samples(root).values()} == {b"yes", b"no"}
    assert description_findings(root, form="imagefolder")[:3] == [
        ("WDS239", "error", 1),
        ("WDS239", "warning", 1),
        ("WDS241", "warning", 1),
    ]
    assert ("WDS231", "error", 1) in description_findings(root, form="imagefolder")
    assert convert([root], str(tmp_path / "made")).datasets[0].splits == {"train": 4, "val": 1, "test": 1}


def test_scene_folders_are_no_classes(tmp_path: Path) -> None:
    words = {f"{i:04d}/{name}": b"1" for i in range(4) for name in ("rgb.jpg", "depth.png")}
    frames = {f"clip_{i:03d}/{name:05d}.jpg": b"1" for i in range(4) for name in range(3)}
    scenes, sequences = a_folder(tmp_path / "s", words), a_folder(tmp_path / "f", frames)

    assert "imagefolder" not in [importer.name for importer, _ in importers.find_importers(scenes)]
    error = open_error(sequences)
    assert error.code == "WDS235"
    assert all(name in error.message for name in ("imagefolder: ", "folder: "))


def test_description_lists_uses_of_folders_and_files(tmp_path: Path) -> None:
    files = {
        f"{split}/{name}/{name}{i}.jpg": b"1" for split in ("train", "val") for name in ("cat", "dog") for i in "01"
    }
    uses = describe_source(a_folder(tmp_path, files)).field_uses

    assert [tuple(use) for use in uses] == [
        ("*.jpg", "jpg", "8 files, one sample each"),
        ("class folders", "cls, txt", "2 classes, numbered by name: 0 cat, 1 dog"),
        ("train", "split train", "4 samples"),
        ("val", "split val", "4 samples"),
    ]


def test_file_pairs_and_single_folders_are_raw_folders(tmp_path: Path) -> None:
    pairs = a_folder(tmp_path / "p", {"a/1.jpg": b"1", "a/1.txt": b"1", "b/1.jpg": b"1", "b/1.txt": b"2"})
    single = a_folder(tmp_path / "s", {"photos/1.jpg": b"1"})

    assert importers.best_importer(pairs)[0].name == importers.best_importer(single)[0].name == "folder"
    assert [importer.name for importer, _ in importers.find_importers(single)] == ["folder", "imagefolder"]
    assert {parts["txt"] for parts in read_samples(single, form="imagefolder").values()} == {b"photos"}
    assert ("WDS241", "warning", 1) in description_findings(single, form="imagefolder")


def test_few_media_files_outside_class_folders_are_reported(tmp_path: Path) -> None:
    files = {f"{name}/{i}.jpg": b"1" for name in ("cat", "dog") for i in range(3)}
    plain = a_folder(tmp_path / "plain", files | {"top.jpg": b"2"})
    wrapped = a_folder(tmp_path / "wrapped", {f"data/{path}": b"1" for path in files} | {"data/top.jpg": b"2"})

    for root, at in ((plain, ""), (wrapped, "data/")):
        (importer, match) = importers.best_importer(root)
        assert (importer.name, match.reason.endswith("; 1 media file beside them")) == ("imagefolder", True)
        assert {(key.removeprefix(at)[:3], parts["txt"]) for key, parts in read_samples(root).items()} == {
            ("cat", b"cat"), ("dog", b"dog"),
        }  # fmt: skip
        assert description_findings(root) == [("WDS239", "error", 1)]
        assert f"such as {at}top.jpg" in describe_source(root).findings[0].message


@pytest.mark.parametrize(
    ("outside_count", "class_size", "best"), [(10, 20, "imagefolder"), (11, 20, "folder"), (2, 3, "folder")]
)
def test_many_media_files_outside_class_folders_rule_out_classes(
    tmp_path: Path, outside_count: int, class_size: int, best: str
) -> None:
    files = {f"{name}/{i}.jpg": b"1" for name in ("cat", "dog") for i in range(class_size)}
    root = a_folder(tmp_path, files | {f"top{i}.jpg": b"2" for i in range(outside_count)})

    found = {importer.name: match.reason for importer, match in importers.find_importers(root)}

    assert next(iter(found)) == best
    if best == "folder":
        assert (
            f"too many files are in no class: {outside_count} media files beside the folders, such as top0.jpg"
            in found["imagefolder"]
        )


def test_duplicate_stem_in_class_keeps_both_files(tmp_path: Path) -> None:
    files = {"cat/0.jpg": b"1", "cat/0.png": b"2", **{f"{name}/{i}.jpg": b"3" for name in ("cat", "dog") for i in "12"}}
    root = a_folder(tmp_path, files)

    assert importers.best_importer(root)[0].name == "imagefolder"
    assert [*read_samples(root)] == ["cat/0_jpg", "cat/0_png", "cat/1", "cat/2", "dog/1", "dog/2"]
    (finding,) = describe_source(root).findings
    assert (finding.code, finding.severity, finding.count) == ("WDS241", "warning", 1)
    assert "such as cat/0.jpg and cat/0.png" in finding.message


@pytest.mark.parametrize(
    "more", [{"cat/0.png": b"1", "cat/1.png": b"1"}, {"cat/0.wav": b"1"}, {"cat/0.mask.png": b"1"}]
)
def test_frequently_repeated_stems_are_parts_of_samples(tmp_path: Path, more: dict[str, bytes]) -> None:
    root = a_folder(tmp_path, {f"{name}/{i}.jpg": b"1" for name in ("cat", "dog") for i in range(3)} | more)

    assert importers.best_importer(root)[0].name == "folder"


def test_digest_changes_with_files(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a/1.jpg": b"1", "b/2.jpg": b"2"})
    importer = importers.get_importer("imagefolder")
    with importer.open(root, {}) as source:
        before = source.digest()
        assert source.digest() == before
        a_folder(tmp_path, {"a/1.jpg": b"11"})
        assert source.digest() != before


def test_link_to_parent_folder_is_not_followed(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a/1.jpg": b"1", "b/2.jpg": b"2"})
    (tmp_path / "b" / "up").symlink_to(tmp_path)

    assert list(read_samples(root)) == ["a/1", "b/2"]


def test_dangling_link_fails_its_sample(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"cat/1.jpg": b"1", "dog/1.jpg": b"2"})
    (tmp_path / "cat/2.jpg").symlink_to(tmp_path / "nowhere.jpg")

    assert list(read_errors(root, form="imagefolder")) == [1]
    report = convert([root], f"{root}-made", ConvertRequest(from_format="imagefolder"))
    assert (report.samples, report.failed) == (3, 1)


def test_hive_folders_above_classes_are_splits(tmp_path: Path) -> None:
    for split in ("train", "val"):
        for name in ("cat", "dog"):
            (tmp_path / "in" / f"split={split}" / name).mkdir(parents=True)
            (tmp_path / "in" / f"split={split}" / name / f"{split}.jpg").write_bytes(b"\xff\xd8\xff" + name.encode())
    report = convert([str(tmp_path / "in")], str(tmp_path / "out"))
    assert report.datasets[0].splits == {"train": 2, "val": 2}
