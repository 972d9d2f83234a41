from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import AsNobody
from wdsctl.core.dataset.raw_folder import RawListing, drop_unreadable, list_raw_folder
from wdsctl.core.errors import DatasetError, InputError, PermissionDenied


def a_folder(root: Path, files: str) -> str:
    """Files by name, separated by spaces; each holds its own name."""
    for name in files.split():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return str(root)


def keys(listing: RawListing) -> list[str]:
    return [sample.key for sample in listing.samples]


def parts(listing: RawListing) -> dict[str, list[str]]:
    return {sample.key: [part.name for part in sample.parts] for sample in listing.samples}


def test_files_with_same_stem_form_sample(tmp_path: Path) -> None:
    listing = list_raw_folder(a_folder(tmp_path, "0001.png 0001.txt 0001.json 0002.json 0002.png 0002.txt"))

    assert parts(listing) == {"0001": ["json", "png", "txt"], "0002": ["json", "png", "txt"]}
    assert listing.expected == ("json", "png", "txt")


def test_key_includes_folders_and_ends_at_first_dot(tmp_path: Path) -> None:
    listing = list_raw_folder(a_folder(tmp_path, "a/b/7.jpg a/b/7.seg.png a.b/7.jpg a.b/7.seg.png"))

    assert parts(listing) == {"a.b/7": ["jpg", "seg.png"], "a/b/7": ["jpg", "seg.png"]}


def test_part_has_size_and_mtime_of_file(tmp_path: Path) -> None:
    root = a_folder(tmp_path, "a.txt")
    os.utime(tmp_path / "a.txt", ns=(1, 1_234_567_891))

    (sample,) = list_raw_folder(root).samples

    assert sample.parts == (("txt", 5, 1_234_567_891),)


def test_samples_are_sorted_by_code_points_of_keys(tmp_path: Path) -> None:
    listing = list_raw_folder(a_folder(tmp_path, "é.t B.t a.t a/z.t a-b.t 10.t 9.t 😀.t ｚ.t"))

    assert keys(listing) == ["10", "9", "B", "a", "a-b", "a/z", "é", "ｚ", "😀"]


def test_listing_does_not_depend_on_creation_order(tmp_path: Path) -> None:
    names = [f"{folder}/{i}.{part}" for folder in "abc" for i in range(20) for part in ("jpg", "txt")]
    a_folder(tmp_path / "one", " ".join(names))
    a_folder(tmp_path / "two", " ".join(reversed(names)))

    assert parts(list_raw_folder(str(tmp_path / "one"))) == parts(list_raw_folder(str(tmp_path / "two")))


def test_hidden_and_system_files_are_ignored_and_counted(tmp_path: Path) -> None:
    listing = list_raw_folder(
        a_folder(tmp_path, "a.t .DS_Store .git/config .wdsctl/dataset.yaml b/Thumbs.db desktop.ini")
    )

    assert keys(listing) == ["a"]
    assert listing.ignored == 5


@pytest.mark.parametrize("stray", ["notes", "b.", "b/c/LICENSE"])
def test_file_without_key_or_part_is_stray(tmp_path: Path, stray: str) -> None:
    root = a_folder(tmp_path, f"a.t {stray}")

    with pytest.raises(DatasetError, match="1 file belongs to no sample") as caught:
        list_raw_folder(root)
    assert stray in caught.value.message

    for policy in ("skip", "keep"):
        listing = list_raw_folder(root, on_missing=policy)
        assert (keys(listing), listing.strays) == (["a"], 1)


def test_readme_and_license_next_to_samples_are_ignored(tmp_path: Path) -> None:
    photos = a_folder(tmp_path / "photos", "a.jpg a.txt b.jpg b.txt README.md LICENSE sub/c.jpg sub/c.txt")
    texts = a_folder(tmp_path / "texts", "a.md b.md README.md")

    assert (keys(list_raw_folder(photos)), list_raw_folder(photos).ignored) == (["a", "b", "sub/c"], 2)
    assert keys(list_raw_folder(texts)) == ["README", "a", "b"]


def test_file_name_that_is_not_utf_8_is_stray(tmp_path: Path) -> None:
    root = a_folder(tmp_path, "a.t")
    Path(os.fsdecode(os.path.join(os.fsencode(root), b"caf\xe9.t"))).write_bytes(b"")

    listing = list_raw_folder(root, on_missing="skip")

    assert (keys(listing), listing.strays) == (["a"], 1)
    assert listing.examples == (r"caf\xe9.t: the name is not UTF-8",)


def test_pipe_is_stray(tmp_path: Path) -> None:
    root = a_folder(tmp_path, "a.t")
    os.mkfifo(tmp_path / "b.t")

    assert list_raw_folder(root, on_missing="skip").strays == 1


def test_links_are_followed_without_cycles(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "raw", "a/x.t b/y.t")
    (tmp_path / "raw" / "linked").symlink_to("b")
    (tmp_path / "raw" / "z.t").symlink_to(tmp_path / "raw" / "b" / "y.t")
    (tmp_path / "raw" / "a" / "up").symlink_to(tmp_path / "raw")

    listing = list_raw_folder(root)

    assert keys(listing) == ["a/x", "b/y", "linked/y", "z"]
    assert listing.ignored == 1


def a_folder_with_outside_links(tmp_path: Path) -> str:
    root = a_folder(tmp_path / "raw", "a/x.t")
    a_folder(tmp_path / "elsewhere", "y.t")
    (tmp_path / "raw" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "raw" / "z.t").symlink_to(tmp_path / "elsewhere" / "y.t")
    (tmp_path / "raw" / "slash").symlink_to("/")
    return root


def test_links_that_lead_outside_are_refused_and_never_followed(tmp_path: Path) -> None:
    root = a_folder_with_outside_links(tmp_path)

    with pytest.raises(DatasetError, match=r"3 files or folders cannot be read") as caught:
        list_raw_folder(root)

    allow = f"pass `--allow-path {tmp_path}/elsewhere` to allow it"
    assert f"z.t: a link that leads out of the folder, {allow}" in caught.value.message
    listing = list_raw_folder(root, on_missing="skip")
    assert (keys(listing), listing.unreadable) == (["a/x"], 3)


def test_links_into_allowed_folders_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_folder_with_outside_links(tmp_path)
    (tmp_path / "raw" / "slash").unlink()
    monkeypatch.setenv("WDSCTL_ALLOW_PATH", str(tmp_path / "elsewhere"))

    assert keys(list_raw_folder(root)) == ["a/x", "linked/y", "z"]


@pytest.mark.parametrize("target", ["nowhere", "b.t"])
def test_dangling_link_is_unreadable(tmp_path: Path, target: str) -> None:
    root = a_folder(tmp_path, "a.t")
    (tmp_path / "b.t").symlink_to(target)

    listing = list_raw_folder(root, on_missing="skip")

    assert (keys(listing), listing.unreadable) == (["a"], 1)


def test_parts_of_half_of_samples_are_expected(tmp_path: Path) -> None:
    listing = list_raw_folder(a_folder(tmp_path, "a.jpg b.jpg c.jpg d.jpg a.txt b.txt a.mask.png"), on_missing="keep")

    assert listing.expected == ("jpg", "txt")
    assert listing.incomplete == 2


def test_additional_parts_are_accepted(tmp_path: Path) -> None:
    listing = list_raw_folder(a_folder(tmp_path, "a.jpg b.jpg c.jpg c.mask.png"))

    assert parts(listing)["c"] == ["jpg", "mask.png"]


INCOMPLETE = "a.jpg a.txt b.jpg b.txt c.jpg d.txt d.jpg e.txt notes"


def test_on_missing_error_counts_and_names_problems(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        list_raw_folder(a_folder(tmp_path, INCOMPLETE))

    error = caught.value
    assert (error.code, error.exit_code, error.where) == ("WDS201", 3, str(tmp_path))
    assert error.message.splitlines() == [
        "2 samples are incomplete, 1 file belongs to no sample",
        "  c: no txt",
        "  e: no jpg",
        "  notes: the name has no key and part",
    ]
    assert "--on-missing skip" in error.hint


def test_on_missing_skip_drops_incomplete_samples(tmp_path: Path) -> None:
    listing = list_raw_folder(a_folder(tmp_path, INCOMPLETE), on_missing="skip")

    assert keys(listing) == ["a", "b", "d"]
    assert (listing.incomplete, listing.strays) == (2, 1)


def test_on_missing_keep_keeps_incomplete_samples(tmp_path: Path) -> None:
    listing = list_raw_folder(a_folder(tmp_path, INCOMPLETE), on_missing="keep")

    assert parts(listing) == {
        "a": ["jpg", "txt"], "b": ["jpg", "txt"], "c": ["jpg"], "d": ["jpg", "txt"], "e": ["txt"]
    }  # fmt: skip
    assert (listing.incomplete, listing.strays) == (2, 1)


def test_parts_option_defines_complete_samples(tmp_path: Path) -> None:
    root = a_folder(tmp_path, "a.jpg b.jpg b.txt c.txt")

    assert keys(list_raw_folder(root, parts=("txt",), on_missing="skip")) == ["b", "c"]
    assert keys(list_raw_folder(root, parts=("jpg", "txt"), on_missing="skip")) == ["b"]
    with pytest.raises(InputError) as caught:
        list_raw_folder(root, parts=("png",), on_missing="skip")
    assert caught.value.code == "WDS003"


def test_first_five_examples_are_kept_by_name(tmp_path: Path) -> None:
    names = " ".join(f"stray{i:02d}" for i in reversed(range(30)))

    listing = list_raw_folder(a_folder(tmp_path, f"a.t {names}"), on_missing="skip")

    assert [example.partition(":")[0] for example in listing.examples] == [f"stray{i:02d}" for i in range(5)]


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist") as caught:
        list_raw_folder(str(tmp_path / "none"))
    assert (caught.value.code, caught.value.where) == ("WDS002", str(tmp_path / "none"))


def test_file_instead_of_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        list_raw_folder(a_folder(tmp_path, "a.t") + "/a.t")


@pytest.mark.parametrize("files", ["", "notes LICENSE", ".hidden/a.t"])
def test_folder_without_samples_is_refused(tmp_path: Path, files: str) -> None:
    with pytest.raises(InputError) as caught:
        list_raw_folder(a_folder(tmp_path, files))
    assert caught.value.code == "WDS003"


def test_unreadable_folder_raises_permission_denied(public_path: Path, as_nobody: AsNobody) -> None:
    root = a_folder(public_path / "raw", "a.t")
    (public_path / "raw").chmod(0)

    error = as_nobody(lambda: list_raw_folder(root))

    assert isinstance(error, PermissionDenied)
    assert (error.code, error.where) == ("WDS402", root)


def test_unreadable_files_and_folders_follow_on_missing(public_path: Path, as_nobody: AsNobody) -> None:
    root = a_folder(public_path / "raw", "a.jpg a.txt b.jpg b.txt c.jpg c.txt d.jpg d.txt closed/e.jpg")
    for name in ("b.txt", "c.jpg", "c.txt", "closed"):
        (public_path / "raw" / name).chmod(0)

    error = as_nobody(lambda: list_raw_folder(root))
    skipped = as_nobody(lambda: list_raw_folder(root, on_missing="skip"))
    kept = as_nobody(lambda: list_raw_folder(root, on_missing="keep"))

    assert isinstance(error, DatasetError)
    assert "4 files or folders cannot be read" in error.message
    assert "b.txt: cannot be read" in error.message
    assert (keys(skipped), skipped.unreadable, skipped.incomplete) == (["a", "d"], 4, 0)
    assert parts(kept) == {"a": ["jpg", "txt"], "b": ["jpg"], "d": ["jpg", "txt"]}


def test_files_in_folder_without_search_permission_are_unreadable(public_path: Path, as_nobody: AsNobody) -> None:
    root = a_folder(public_path / "raw", "a.jpg b/c.jpg")
    (public_path / "raw" / "b").chmod(0o744)

    listing = as_nobody(lambda: list_raw_folder(root, on_missing="skip"))

    assert (keys(listing), listing.unreadable) == (["a"], 1)


class CountingProgress:
    """A progress that counts items and phases."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.items = 0

    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        self.phases.append(name)

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None:
        self.items += items

    def note(self, message: str) -> None: ...


def test_progress_counts_every_entry_once(tmp_path: Path) -> None:
    progress = CountingProgress()

    list_raw_folder(a_folder(tmp_path, " ".join(f"{i}.t" for i in range(5_000)) + " b/x.t"), progress=progress)

    assert (progress.phases, progress.items) == (["list"], 5_002)


def test_drop_unreadable_removes_and_counts_unreadable_parts(tmp_path: Path) -> None:
    listing = list_raw_folder(a_folder(tmp_path, "a.jpg a.txt b.jpg b.txt c.jpg c.txt"))
    unreadable = {("b", "txt"): "no", ("c", "jpg"): "no", ("c", "txt"): "no"}

    skipped = drop_unreadable(str(tmp_path), listing, unreadable, "skip")
    kept = drop_unreadable(str(tmp_path), listing, unreadable, "keep")

    assert (keys(skipped), skipped.unreadable, skipped.examples) == (["a"], 3, ("b.txt: no", "c.jpg: no", "c.txt: no"))
    assert parts(kept) == {"a": ["jpg", "txt"], "b": ["jpg"]}
    with pytest.raises(InputError, match="no usable samples"):
        drop_unreadable(str(tmp_path), skipped, {("a", "jpg"): "no"}, "skip")


def test_missing_part_hint_names_part_that_differs_by_case(tmp_path: Path) -> None:
    a_folder(tmp_path, " ".join([*(f"{i}.jpg {i}.txt" for i in range(4)), "7.jpg", "7.TXT"]))
    with pytest.raises(DatasetError) as caught:
        list_raw_folder(str(tmp_path))
    assert "7: no txt (it has TXT: names are case-sensitive)" in caught.value.message


def test_dangling_links_are_unreadable_and_not_incomplete(tmp_path: Path) -> None:
    a_folder(tmp_path, " ".join(f"{i}.jpg {i}.txt" for i in range(4)))
    for name in ("8.jpg", "9.jpg"):
        (tmp_path / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(DatasetError) as caught:
        list_raw_folder(str(tmp_path))

    assert caught.value.message.splitlines() == [
        "2 files or folders cannot be read",
        "  8.jpg: cannot be read",
        "  9.jpg: cannot be read",
    ]
    assert "check the mode" in caught.value.hint
    assert "complete" not in caught.value.hint


def test_hint_for_outside_links_suggests_allow_path_first(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "links").mkdir()
    a_folder(tmp_path / "photos", "1.jpg 1.txt")
    for name in ("1.jpg", "1.txt"):
        (tmp_path / "links" / name).symlink_to(tmp_path / "photos" / name)
    with pytest.raises(DatasetError) as caught:
        list_raw_folder(str(tmp_path / "links"))

    assert f"`--allow-path {tmp_path / 'photos'}`" in caught.value.message
    assert caught.value.hint.startswith("allow the folders that the links point to, as above;")
    assert "check the mode" not in caught.value.hint


def test_problems_beyond_examples_are_counted(tmp_path: Path) -> None:
    a_folder(tmp_path, " ".join(f"{i}.jpg {i}.txt" for i in range(20)))
    for i in range(9):
        (tmp_path / f"{i}.txt").unlink()
    with pytest.raises(DatasetError) as caught:
        list_raw_folder(str(tmp_path))
    assert caught.value.message.splitlines()[-1] == "  ... and 4 more"


DATES = " ".join(f"IMG_2024.01.{day:02d}.{part}" for day in range(1, 23) for part in ("jpg", "txt"))


def test_dates_in_names_belong_to_key(tmp_path: Path) -> None:
    listing = list_raw_folder(a_folder(tmp_path, DATES))

    assert len(listing.samples) == 22
    assert parts(listing)["IMG_2024.01.07"] == ["jpg", "txt"]
    assert (listing.keys.rule, listing.expected) == ("known-extension", ("jpg", "txt"))


def test_explicit_key_rule_wins_and_previous_rule_is_kept(tmp_path: Path) -> None:
    root = a_folder(tmp_path, "a.seg.png a.jpg b.seg.png b.jpg")

    explicit = list_raw_folder(root, key_until="last-dot", previous_rule="first-dot", on_missing="keep")
    kept = list_raw_folder(root, previous_rule="last-dot", on_missing="keep")

    assert keys(explicit) == keys(kept) == ["a", "a.seg", "b", "b.seg"]
    assert (explicit.keys.reason, kept.keys.reason) == ("chosen by the user", "as before")


def test_ambiguous_key_rule_error_names_option(tmp_path: Path) -> None:
    root = a_folder(tmp_path, " ".join(f"{d}.{i}.jpg" for d in range(5) for i in range(3)))

    with pytest.raises(DatasetError) as caught:
        list_raw_folder(root)

    assert caught.value.code == "WDS245"
    assert "`--key-until first-dot` (5 samples of up to 3 files)" in caught.value.hint
    assert "`--key-until known-extension` (15 samples)" in caught.value.hint
    assert len(list_raw_folder(root, key_until="first-dot").samples) == 5


def test_names_with_same_key_in_shards_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"a\.1 and a_1 would have the same key a_1") as caught:
        list_raw_folder(a_folder(tmp_path, "a.1.jpg a.1.txt a.2.jpg a.2.txt a_1.jpg a_1.txt"))
    assert caught.value.code == "WDS247"


def test_unreadable_files_follow_key_rule(tmp_path: Path) -> None:
    root = a_folder(tmp_path, DATES)
    (tmp_path / "IMG_2024.01.05.txt").unlink()
    (tmp_path / "IMG_2024.01.05.txt").symlink_to(tmp_path / "nowhere")

    listing = list_raw_folder(root, on_missing="keep")

    assert (listing.unreadable, listing.incomplete) == (1, 0)
    assert parts(listing)["IMG_2024.01.05"] == ["jpg"]


MIXED = " ".join(f"{i}.{'jpg' if i < 14 else 'png'} {i}.txt" for i in range(22))


def test_images_of_several_formats_are_one_part(tmp_path: Path) -> None:
    listing = list_raw_folder(a_folder(tmp_path, MIXED))

    assert (len(listing.samples), listing.incomplete, listing.expected) == (22, 0, ("jpg|png", "txt"))


def test_audio_and_video_formats_are_one_part_each_and_masks_another(tmp_path: Path) -> None:
    root = a_folder(tmp_path, "1.wav 1.mp4 1.seg.png 2.flac 2.mkv 2.seg.jpg 3.MP3 3.webm 3.seg.png")

    assert list_raw_folder(root).expected == ("MP3|flac|wav", "mkv|mp4|webm", "seg.png|seg.jpg")


def test_mixed_media_store_is_complete_but_single_outlier_is_incomplete(tmp_path: Path) -> None:
    store = " ".join([*(f"{i}.wav" for i in range(9)), *(f"{i}.flac" for i in range(9, 12)), "20.jpg 21.jpg 22.mp4"])
    listing = list_raw_folder(a_folder(tmp_path / "store", store))
    assert (listing.incomplete, listing.expected) == (0, ())

    with pytest.raises(DatasetError, match="30: no jpg"):
        list_raw_folder(a_folder(tmp_path / "photos", " ".join([*(f"{i}.jpg" for i in range(20)), "30.mp4"])))


def test_sample_without_any_image_is_incomplete(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"30: no jpg\|png"):
        list_raw_folder(a_folder(tmp_path, f"{MIXED} 30.txt"))


def test_parts_option_accepts_alternatives(tmp_path: Path) -> None:
    root = a_folder(tmp_path, MIXED)

    assert list_raw_folder(root, parts=("png|jpg", "txt")).incomplete == 0
    with pytest.raises(DatasetError) as caught:
        list_raw_folder(root, parts=("jpg", "txt"))
    assert "14: no jpg (it has png: `--parts 'jpg|png'` accepts both)" in caught.value.message


def test_hint_suggests_skipping_samples_last(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        list_raw_folder(a_folder(tmp_path, INCOMPLETE))

    hint = caught.value.hint
    assert hint.index("complete the samples") < hint.index("--on-missing keep") < hint.index("--on-missing skip")
    assert "--on-missing skip` (skips 2 samples; left-out.tsv lists all that it leaves out)" in hint
