"""Folders beside each other with equal names of files: parts of samples, classes, or a question."""

from __future__ import annotations

import re
import shlex
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.build import a_folder
from tests.core.formats import describe_source, description_findings
from tests.core.pictures import picture
from wdsctl.cli.main import main
from wdsctl.core import importers
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import WdsctlError
from wdsctl.core.prepare.prepare import prepare

COUNTED = [f"{i:03d}" for i in range(16)]
NAMED = [f"GOPR0372_07_{i * 7 + 47:06d}" for i in range(24)]

Size = Callable[[str], tuple[int, int]]


def files_in(folder: str, names: Iterable[str], extension: str = "jpg", size: Size | None = None) -> dict[str, bytes]:
    """Files with different bytes; pictures of these sizes, or no pictures at all."""
    paths = {f"{folder}/{name}.{extension}": name for name in names}
    return {path: (picture(*size(name)) if size else b"") + path.encode() for path, name in paths.items()}


def size_of_name(name: str) -> tuple[int, int]:
    return 20 + int(name[-2:]) % 7, 30 - int(name[-2:]) % 5


def size_of_number(name: str) -> tuple[int, int]:
    return size_of_name(name.partition("_")[0])


def twice_as_large(name: str) -> tuple[int, int]:
    width, height = size_of_name(name)
    return 2 * width, 2 * height


def another_size(name: str) -> tuple[int, int]:
    return 20 + int(name[-2:]) * 5 % 11, 30 - int(name[-2:]) * 3 % 13


def formats_of(root: str) -> str:
    """The best format, or those that fit equally well."""
    found = importers.find_importers(root)
    return " or ".join(sorted(importer.name for importer, match in found if match.score == found[0][1].score))


def bytes_in_tars(dest: Path) -> list[bytes]:
    """The bytes of all members that are files of a source."""
    found = []
    for path in dest.rglob("*.tar"):
        with tarfile.open(path) as tar:
            members = [(each.name, tar.extractfile(each)) for each in tar]
        with tarfile.open(path) as tar:
            found += [tar.extractfile(name).read() for name, _ in members]  # type: ignore[union-attr]
    return found


def assert_all_files_are_accounted_for(source: Path, dest: Path) -> None:
    """Each file of the source is once in the shards, or is listed as left out."""
    left_out = {line.split("\t")[1] for line in left_out_lines(dest)}
    written = sorted(bytes_in_tars(dest))
    expected = [path.read_bytes() for path in source.rglob("*") if path.is_file()]
    listed = [path.read_bytes() for path in source.rglob("*") if str(path) in left_out]
    assert sorted(written + listed) == sorted(expected)


def left_out_lines(dest: Path) -> list[str]:
    path = dest / ".wdsctl/convert/left-out.tsv"
    return path.read_text().splitlines()[1:] if path.exists() else []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        # Names that no counter gives are those of one picture.
        ({**files_in("blur", NAMED), **files_in("sharp", NAMED)}, "partfolders"),
        ({**files_in("a", NAMED), **files_in("b", [f"{name}5" for name in NAMED])}, "imagefolder"),
        # Names that differ in what all names of a folder begin and end with: as above, but names say nothing.
        (
            {
                **files_in("rain", [f"rain-{n}" for n in COUNTED], size=size_of_name),
                **files_in("clear", [f"{n}_clear" for n in COUNTED], size=size_of_number),
            },
            "partfolders",
        ),
        ({f"{c}/{c}_{n}.jpg": c.encode() for c in ("cat", "dog") for n in NAMED}, "imagefolder"),
        # Counters say nothing: the user decides.
        ({**files_in("blur", COUNTED), **files_in("sharp", COUNTED)}, "imagefolder or partfolders"),
        ({**files_in("cat", COUNTED), **files_in("dog", COUNTED)}, "imagefolder or partfolders"),
        ({**files_in("cat", COUNTED), **files_in("dog", COUNTED[:9])}, "imagefolder or partfolders"),
        ({**files_in("cat", COUNTED), **files_in("dog", COUNTED[:5])}, "imagefolder"),
        ({path: b for c in "abcdefghi" for path, b in files_in(c, COUNTED).items()}, "imagefolder"),
        ({path: b for c in range(100) for path, b in files_in(f"c{c}", COUNTED).items()}, "imagefolder"),
        # Sizes of pictures agree by stem, up to a scale, or do not; the same size everywhere says nothing.
        ({**files_in("a", COUNTED, size=size_of_name), **files_in("b", COUNTED, size=size_of_name)}, "partfolders"),
        ({**files_in("a", COUNTED, size=size_of_name), **files_in("b", COUNTED, size=twice_as_large)}, "partfolders"),
        ({**files_in("a", COUNTED, size=size_of_name), **files_in("b", COUNTED, size=another_size)}, "imagefolder"),
        (
            {**files_in("a", COUNTED, size=lambda _: (9, 9)), **files_in("b", COUNTED, size=lambda _: (9, 9))},
            "imagefolder or partfolders",
        ),
        (
            {**files_in("real", COUNTED, size=lambda _: (8, 8)), **files_in("fake", COUNTED, size=lambda _: (4, 4))},
            "imagefolder or partfolders",
        ),
        # Kinds that differ by folder.
        ({**files_in("view", COUNTED), **files_in("lidar", COUNTED, "bin")}, "partfolders"),
        ({**files_in("view", COUNTED), **files_in("height", COUNTED, "png")}, "partfolders"),
        ({**files_in("a", COUNTED), **files_in("b", COUNTED), **files_in("c", COUNTED[::3], "txt")}, "partfolders"),
        # Names of folders break ties.
        ({**files_in("trainA", COUNTED), **files_in("trainB", COUNTED)}, "partfolders"),
        ({**files_in("lq", COUNTED), **files_in("gt", COUNTED)}, "partfolders"),
        ({**files_in("fire", COUNTED), **files_in("no_fire", COUNTED)}, "imagefolder"),
        ({**files_in("cat", COUNTED), **files_in("dog", COUNTED), "classes.txt": b"cat\ndog\n"}, "imagefolder"),
        # Words may be the names of parts, and the folders the samples.
        ({**files_in("one", ["day", "night", "dusk"]), **files_in("two", ["day", "night", "dusk"])},
         "partfolders or scenes"),
        # Texts of equal names, which may be translations, or texts of two classes.
        ({**files_in("en", COUNTED, "txt"), **files_in("fr", COUNTED, "txt")}, "folder or partfolders"),
        ({**files_in("train/en", NAMED, "txt"), **files_in("train/fr", NAMED, "txt")}, "folder or partfolders"),
        ({**files_in("pos", COUNTED, "txt"), **files_in("neg", NAMED, "txt")}, "folder"),
        # Numbers from _0000 on are channels only if a folder has the names without them.
        ({**files_in("cat", [f"{n}_0000" for n in NAMED]), **files_in("dog", ["x_0000", "y_0000"])}, "imagefolder"),
        # Splits, not parts.
        ({**files_in("train", COUNTED), **files_in("val", COUNTED)}, "folder"),
        ({**files_in("train2017", NAMED), **files_in("val2017", COUNTED)}, "folder"),
        ({**files_in("rain_train", COUNTED), **files_in("rain_test", COUNTED)}, "folder or imagefolder"),
        # Unpaired domains.
        (
            {**files_in("trainA", NAMED), **files_in("trainB", COUNTED), **files_in("testA", ["x1", "x2"])},
            "folder or imagefolder",
        ),
        # Scenes of different lengths, in which the parts agree.
        (
            {
                path: data
                for scene, count in (("GOPR0372", 16), ("GOPR0384", 11))
                for part in ("blur", "sharp")
                for path, data in files_in(f"train/{scene}/{part}", COUNTED[:count]).items()
            },
            "partfolders",
        ),
        # Numbered folders in each folder are sequences or samples, not parts.
        (
            {
                path: data
                for split in ("train", "test")
                for video in ("IMG_0001", "GOPR9633")
                for path, data in files_in(f"{split}/{video}", COUNTED).items()
            },
            "folder or imagefolder",
        ),
        # A folder without files.
        ({**files_in("blur", COUNTED), "sharp/.keep": b""}, "folder or imagefolder"),
    ],
)  # fmt: skip
def test_evidence_decides_between_parts_and_classes(tmp_path: Path, files: dict[str, bytes], expected: str) -> None:
    assert formats_of(a_folder(tmp_path, files)) == expected


def test_scenes_in_folders_of_parts_are_no_parts(tmp_path: Path) -> None:
    for part, extension, lacking in (("clean", "png", 0), ("final", "png", 0), ("flow", "flo", 1)):
        for scene in ("alley", "cave"):
            a_folder(tmp_path, files_in(f"training/{part}/{scene}", COUNTED[lacking:], extension))

    uses = [use.becomes for use in describe_source(tmp_path).field_uses]

    assert uses == ["clean.png", "final.png", "flow.flo", "split train"]


def test_numbers_of_channels_are_parts_of_case(tmp_path: Path) -> None:
    source, dest = tmp_path / "raw", tmp_path / "made"
    for end, names in (("Tr", COUNTED), ("Ts", NAMED)):
        a_folder(source, files_in(f"images{end}", [f"c_{n}_{i:04d}" for n in names for i in (0, 1)], "nii.gz"))
        a_folder(source, files_in(f"labels{end}", [f"c_{n}" for n in names], "nii.gz"))

    report = prepare(str(source), str(dest))

    assert sorted(report.field_map) == ["images_0000", "images_0001", "labels"]
    assert report.split is not None
    assert {each.name: each.samples for each in report.split.splits} == {"train": 16, "test": 24}
    assert_all_files_are_accounted_for(source, dest)


@pytest.mark.parametrize("names", [("blur", "sharp"), ("cat", "dog")])
def test_both_commands_of_question_work_as_printed(tmp_path: Path, names: tuple[str, str]) -> None:
    source = tmp_path / "my raw"
    a_folder(source, {path: data for name in names for path, data in files_in(name, COUNTED, size=size_9).items()})

    with pytest.raises(WdsctlError) as raised:
        prepare(str(source), str(tmp_path / "made"))

    assert raised.value.code == "WDS235"
    commands = [shlex.split(each) for each in re.findall(r"`(wdsctl prepare [^`]*)`", raised.value.hint)]
    dests = [tmp_path / f"made-{command[-1]}" for command in commands]
    for command, dest in zip(commands, dests, strict=True):
        assert main([*command[1:3], str(dest), *command[4:]]) == 0
        assert_all_media_are_written(source, dest)
    assert sorted(dest.name for dest in dests) == ["made-imagefolder", "made-partfolders"]


def size_9(_: str) -> tuple[int, int]:
    return 9, 9


def assert_all_media_are_written(source: Path, dest: Path) -> None:
    written = bytes_in_tars(dest)
    assert sorted(data for data in written if data.startswith(b"\xff\xd8")) == sorted(
        path.read_bytes() for path in source.rglob("*.jpg")
    )


def test_parts_are_named_after_folders_and_become_fields(tmp_path: Path) -> None:
    files = {**files_in("set_rgb", NAMED), **files_in("set_nir", NAMED), **files_in("texts", NAMED, "txt")}
    source, dest = tmp_path / "raw", tmp_path / "made"
    a_folder(source, files)

    assert main(["prepare", str(source), str(dest)]) == 0

    config = load_config(locate(str(dest)).config_path)
    fields = {"set_nir": "set_nir.jpg", "set_rgb": "set_rgb.jpg", "texts": "txt"}
    assert (config.sample_type, config.field_map, config.optional) == ("CrudeSample", fields, ())
    assert_all_files_are_accounted_for(source, dest)


def test_words_that_all_folders_have_are_left_out_of_parts(tmp_path: Path) -> None:
    folders = [f"{part}_{split}set_wav" for split in ("train", "test") for part in ("clean", "noisy")]
    source, dest = tmp_path / "raw", tmp_path / "made"
    a_folder(source, {path: data for folder in folders for path, data in files_in(folder, COUNTED, "wav").items()})

    report = prepare(str(source), str(dest))

    assert report.field_map == {"clean": "clean.wav", "noisy": "noisy.wav"}
    assert report.split is not None
    assert {each.name: each.samples for each in report.split.splits} == {"train": 16, "test": 16}
    assert_all_files_are_accounted_for(source, dest)


def test_names_may_begin_and_end_with_word_of_folder(tmp_path: Path) -> None:
    source, dest = tmp_path / "raw", tmp_path / "made"
    hr = {f"DIV2K_train_HR/{n}.png": picture(*twice_as_large(n)) + n.encode() for n in COUNTED}
    lr = {f"DIV2K_train_LR/X2/{n}x2.png": picture(*size_of_name(n)) + n.encode() for n in COUNTED}
    a_folder(source, hr | lr)

    assert main(["prepare", str(source), str(dest)]) == 0

    assert load_config(locate(str(dest)).config_path).field_map == {"hr": "hr.png", "lr": "lr.png"}
    with tarfile.open(dest / "shard-000000.tar") as tar:
        assert {name for name in tar.getnames() if "003" in name} == {"train/003.hr.png", "train/003.lr.png"}
    assert_all_files_are_accounted_for(source, dest)


def test_one_folder_of_media_needs_no_word(tmp_path: Path) -> None:
    masks = a_folder(tmp_path / "m", {**files_in("scans", NAMED), **files_in("masks", NAMED, "png")})
    volumes = a_folder(tmp_path / "v", {**files_in("scans", NAMED, "nii.gz"), **files_in("labels", NAMED, "nii.gz")})
    captions = a_folder(tmp_path / "c", {**files_in("latents", NAMED, "npy"), **files_in("captions", NAMED, "txt")})

    assert {use.becomes for use in describe_source(masks).field_uses} == {"jpg", "mask.png"}
    assert {use.becomes for use in describe_source(volumes).field_uses} == {"nii.gz", "mask.nii.gz"}
    assert {use.becomes for use in describe_source(captions).field_uses} == {"npy", "txt"}


@pytest.mark.parametrize(
    ("files", "findings", "optional"),
    [
        ({**files_in("a", NAMED), **files_in("b", NAMED[::2])}, [("WDS201", "error", 12)], ("b",)),
        ({**files_in("a", COUNTED), **files_in("b", COUNTED[:9:2] + COUNTED[12:])}, [("WDS201", "error", 7)], ("b",)),
        (
            {**files_in("a", NAMED), **files_in("b", [*NAMED[1:], "other_stem_1"])},
            [("WDS201", "error", 1), ("WDS201", "error", 1)],
            ("a", "b"),
        ),
        (
            {**files_in("a", NAMED), **files_in("b", NAMED), **files_in("c", NAMED[:5], "txt")},
            [("WDS201", "error", 19)],
            ("c",),
        ),
        (
            {**files_in("a", NAMED), **files_in("b", NAMED), **files_in("b", NAMED[:1], "png")},
            [("WDS239", "error", 1)],
            (),
        ),
        (
            {**files_in("a", NAMED), **files_in("b", NAMED), "notes.txt": b"x", "c/x.pdf": b"y"},
            [("WDS239", "error", 2)],
            (),
        ),
    ],
)
def test_files_without_counterparts_are_reported_and_kept(
    tmp_path: Path, files: dict[str, bytes], findings: list[tuple[str, str, int]], optional: tuple[str, ...]
) -> None:
    source, dest = tmp_path / "raw", tmp_path / "made"
    a_folder(source, files)

    assert formats_of(str(source)) == "partfolders"
    assert description_findings(source) == findings
    has_errors = any(severity == "error" for _, severity, _ in findings)
    assert main(["prepare", str(source), str(dest)]) == (5 if has_errors else 0)
    assert load_config(locate(str(dest)).config_path).optional == optional
    assert_all_files_are_accounted_for(source, dest)


@pytest.mark.parametrize(
    "files",
    [
        {**files_in("a", NAMED), **files_in("b", NAMED), **files_in("c", [f"y{name}" for name in NAMED])},
        {**files_in("a", NAMED), **files_in("b", [*NAMED[:15], *(f"y{name}" for name in NAMED[15:])])},
    ],
)
def test_folders_that_pair_in_part_are_question(tmp_path: Path, files: dict[str, bytes]) -> None:
    assert formats_of(a_folder(tmp_path, files)) == "imagefolder or partfolders"


def test_question_names_folder_whose_files_have_other_names(tmp_path: Path) -> None:
    others = files_in("c", [f"y{name}" for name in NAMED])
    source, dest = tmp_path / "raw", tmp_path / "made"
    a_folder(source, {**files_in("a", NAMED), **files_in("b", NAMED), **others})

    reasons = {importer.name: match.reason for importer, match in importers.find_importers(str(source))}

    assert "(those of c have other names, and stay out)" in reasons["partfolders"]
    assert main(["prepare", str(source), str(dest), "--from", "partfolders"]) == 5
    assert len(left_out_lines(dest)) == len(NAMED)
    assert_all_files_are_accounted_for(source, dest)
