"""The importer partnames: the parts of a sample lie in one folder, and their names differ in one word."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.build import a_folder
from tests.core.conversions import keys
from tests.core.formats import describe_source, description_findings, open_error, read_samples
from tests.core.pictures import picture
from wdsctl.cli.main import main
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert
from wdsctl.core.errors import WdsctlError
from wdsctl.core.prepare.prepare import prepare


def some_files(root: Path, *names: str, numbers: Iterable[str] = ("0", "1", "10", "11")) -> str:
    return a_folder(root, {name.format(n): f"{name} {n}".encode() for n in numbers for name in names})


def formats_of(root: str) -> list[str]:
    return [importer.name for importer, _ in importers.find_importers(root)]


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        ("{}.jpg", "{}_mask.png"),
        ("{}_sat.jpg", "{}_mask.png"),
        ("img_{}.jpg", "mask_{}.png"),
        ("{}.jpg", "mask{}.png"),
        ("{}.png", "{}_Segmentation.PNG"),
        ("{}_rgb.jpg", "{}_gt_mask.png"),
    ],
)
def test_partnames_groups_files_whose_names_differ_in_one_word(tmp_path: Path, image: str, mask: str) -> None:
    root = some_files(tmp_path, image, mask)
    extension = image[-3:]

    assert importers.best_importer(root)[0].name == "partnames"
    assert read_samples(root) == {
        n: {extension: f"{image} {n}".encode(), "mask.png": f"{mask} {n}".encode()} for n in ("0", "1", "10", "11")
    }
    assert description_findings(root) == []
    config = describe_source(root).config
    assert config is not None
    assert (config.sample_type, config.field_map) == ("SegmentationSample", {"image": extension, "mask": "mask.png"})


@pytest.mark.parametrize(
    ("image", "mask", "key"),
    [
        ("car_img_{}.jpg", "car_mask_{}.png", "car_{}"),
        ("car_{}.jpg", "car_Mask_{}.png", "car_{}"),
        ("{}.nii.jpg", "{}_segmentation.nii.png", "{}_nii"),
        ("my_image_{}.jpg", "my_image_{}_mask.png", "my_image_{}"),
    ],
)
def test_partnames_pairs_masks_whose_word_is_in_middle_of_name(tmp_path: Path, image: str, mask: str, key: str) -> None:
    root = some_files(tmp_path, image, mask)

    assert importers.best_importer(root)[0].name == "partnames"
    assert {key: list(parts) for key, parts in read_samples(root).items()} == {
        key.format(n): ["jpg", "mask.png"] for n in ("0", "1", "10", "11")
    }
    assert description_findings(root) == []


def test_partnames_does_not_pair_mask_with_two_possible_images(tmp_path: Path) -> None:
    root = some_files(tmp_path, "car_img_{}.jpg", "car_mask_{}.png", numbers=map(str, range(30)))
    a_folder(tmp_path, {"car_7.jpg": b"another"})

    assert read_samples(root)["car_6"].keys() == {"jpg", "mask.png"}
    assert read_samples(root)["car_7"] == {"jpg": b"another"}
    assert description_findings(root) == [("WDS201", "error", 3)]


def test_partnames_keeps_folders_in_keys_and_allows_splits_without_masks(tmp_path: Path) -> None:
    root = some_files(tmp_path / "raw", "train/{}_sat.jpg", "train/{}_mask.png", "valid/{}_sat.jpg")

    assert importers.best_importer(root)[0].name == "partnames"
    assert set(read_samples(root)) == {f"{split}/{n}" for split in ("train", "valid") for n in ("0", "1", "10", "11")}
    assert description_findings(root) == [("WDS201", "error", 4)]
    assert convert([root], str(tmp_path / "made")).datasets[0].splits == {"train": 4, "val": 4}


def test_partnames_pairs_masks_in_class_folder_normal(tmp_path: Path) -> None:
    names = [f"{label}/{label} ({{}}){end}" for label in ("benign", "normal") for end in (".png", "_mask.png")]
    root = some_files(tmp_path, *names)

    assert importers.best_importer(root)[0].name == "partnames"
    assert read_samples(root)["normal/normal (10)"] == {
        "png": b"normal/normal ({}).png 10", "mask.png": b"normal/normal ({})_mask.png 10",
    }  # fmt: skip


def test_partnames_adds_further_files_of_sample_as_parts(tmp_path: Path) -> None:
    root = some_files(tmp_path, "{}.jpg", "{}.txt", "{}_mask.png", "{}_depth.png", numbers=map(str, range(20)))
    some_files(tmp_path, "{}_mask_1.png", numbers="7")

    assert set(read_samples(root)["1"]) == {"jpg", "txt", "mask.png", "depth.png"}
    assert read_samples(root)["7"]["mask_1.png"] == b"{}_mask_1.png 7"
    assert description_findings(root) == []


def test_partnames_names_parts_by_their_mask_words(tmp_path: Path) -> None:
    root = some_files(tmp_path, "{}.jpg", "{}_seg.png", "{}_label.png")

    assert set(read_samples(root)["1"]) == {"jpg", "seg.png", "label.png"}


def test_partnames_is_not_recognised_when_few_files_have_masks(tmp_path: Path) -> None:
    root = some_files(tmp_path, "{}.jpg", numbers=map(str, range(30)))
    a_folder(tmp_path, {f"{n}_mask.png": b"mask" for n in range(10)})

    (best, _), (other, match) = importers.find_importers(root)
    assert (best.name, other.name) == ("folder", "partnames")
    assert match.reason == "only 20 of 40 media are in pairs such as 0.jpg and 0_mask.png; --from partnames pairs them"
    assert read_samples(root, form="partnames")["3"] == {"jpg": b"{}.jpg 3", "mask.png": b"mask"}
    assert description_findings(root, form="partnames") == [("WDS201", "error", 20)]


def test_partnames_reports_masks_without_image(tmp_path: Path) -> None:
    root = some_files(tmp_path, "{}.jpg", "{}_mask.png", numbers=map(str, range(40)))
    (tmp_path / "7.jpg").unlink()

    assert "7" not in read_samples(root)
    assert description_findings(root) == [("WDS239", "error", 1)]


def test_partnames_is_not_recognised_for_parts_after_dot(tmp_path: Path) -> None:
    assert formats_of(some_files(tmp_path, "{}.jpg", "{}.mask.png")) == ["folder"]


def test_partnames_refuses_folder_without_part_words(tmp_path: Path) -> None:
    assert open_error(some_files(tmp_path, "{}.jpg", "{}_other.png"), form="partnames").code == "WDS003"


@pytest.mark.parametrize("names", [("{}.jpg", "{}_mask.png"), ("img_{}.jpg", "mask_{}.png")])
def test_partnames_is_recognised_among_many_files(tmp_path: Path, names: tuple[str, str]) -> None:
    root = some_files(tmp_path, *names, numbers=map(str, range(700)))

    assert importers.best_importer(root)[0].name == "partnames"


def test_words_that_end_nearly_all_names_are_parts(tmp_path: Path) -> None:
    root = some_files(tmp_path, *(f"s{{0}}/s{{0}}_{word}.nii.gz" for word in ("t1", "T2", "seg")))
    some_files(tmp_path, "s{0}/s{0}.json")

    assert importers.best_importer(root)[0].name == "partnames"
    found = read_samples(root)
    assert set(found) == {f"s{n}/s{n}" for n in ("0", "1", "10", "11")}
    assert found["s10/s10"] == {
        "json": b"s{0}/s{0}.json 10",
        **{f"{word.lower()}.nii.gz": f"s{{0}}/s{{0}}_{word}.nii.gz 10".encode() for word in ("t1", "T2", "seg")},
    }
    config = describe_source(root).config
    assert config is not None
    assert config.field_map == {"seg": "seg.nii.gz", "t1": "t1.nii.gz", "t2": "t2.nii.gz"}
    assert description_findings(root) == []


def test_missing_endings_are_reported_and_optional(tmp_path: Path) -> None:
    root = some_files(tmp_path, "{}_left.png", "{}_right.png", numbers=map(str, range(100, 140)))
    (tmp_path / "107_right.png").unlink()
    a_folder(tmp_path, {"cover.png": b"x"})

    assert importers.best_importer(root)[0].name == "partnames"
    assert read_samples(root)["107"] == {"left.png": b"{}_left.png 107"}
    assert description_findings(root) == [("WDS201", "error", 1), ("WDS239", "error", 1)]
    config = describe_source(root).config
    assert config is not None
    assert config.optional == ("right",)


@pytest.mark.parametrize(
    "names",
    [
        ["{}_cat.jpg"],
        [f"{{}}_{chr(97 + i)}x.jpg" for i in range(9)],
        ["{}_0.jpg", "{}_1.jpg"],
        ["train_{}.jpg", "test_{}.jpg"],
        ["left_{}.jpg", "left_{}.txt", "right_{}.jpg", "right_{}.txt"],
        [f"{chr(97 + i)}x_{{}}.jpg" for i in range(9)],
        ["{}_left.jpg", "{}_right.jpg", "x{}.jpg"],
    ],
)
def test_other_words_in_names_are_no_parts(tmp_path: Path, names: list[str]) -> None:
    assert formats_of(some_files(tmp_path, *names)) == ["folder"]


@pytest.mark.parametrize(
    ("sizes", "formats"),
    [
        ([20, 20], ["partnames", "folder"]),  # sizes that agree name by name
        ([20, 44], ["folder", "partnames"]),  # those of different pictures
    ],
)
def test_words_that_begin_names_are_parts_if_files_agree(tmp_path: Path, sizes: list[int], formats: list[str]) -> None:
    files = {
        f"train/{word}_{n}.jpg": picture(size + n * size % 17, 30)
        for word, size in zip(("left", "right"), sizes, strict=True)
        for n in range(12)
    }
    root = a_folder(tmp_path, files)

    assert formats_of(root) == formats
    assert read_samples(root, form="partnames")["train/7"] == {
        "left.jpg": files["train/left_7.jpg"],
        "right.jpg": files["train/right_7.jpg"],
    }
    assert description_findings(root, form="partnames") == []


@pytest.mark.parametrize(
    "names",
    [["im0_{}.jpg", "im1_{}.jpg"], ["L{}.jpg", "R{}.jpg"], ["{}_en.txt", "{}_fr.txt"], ["cat_{}.png", "dog_{}.png"]],
)
def test_words_that_may_be_classes_are_question(tmp_path: Path, names: list[str]) -> None:
    root = some_files(tmp_path / "raw", *names, numbers=map(str, range(20)))

    with pytest.raises(WdsctlError) as raised:
        prepare(root, str(tmp_path / "made"))

    commands = [shlex.split(each) for each in re.findall(r"`(wdsctl prepare [^`]*)`", raised.value.hint)]
    assert [command[-1] for command in commands] == ["folder", "partnames"]
    for command, count in zip(commands, (40, 20), strict=True):
        dest = tmp_path / command[-1]
        assert main([*command[1:3], str(dest), *command[4:], "--sample-type", "CrudeSample"]) == 0
        assert len(keys(dest)) == count


def test_endings_that_few_names_share_are_no_parts(tmp_path: Path) -> None:
    root = some_files(tmp_path, "{}_left.jpg", numbers=map(str, range(100, 120)))
    some_files(tmp_path, "{}_right.jpg", numbers=map(str, range(110, 130)))

    assert formats_of(root) == ["folder"]
