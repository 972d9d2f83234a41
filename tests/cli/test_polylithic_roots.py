"""Commands at the root of a polylithic dataset read and change the samples and splits of its primary."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

import wdsctl as api
from tests.build import an_image, rewrite_shard
from tests.cli.conftest import Wdsctl


@pytest.fixture
def root(tmp_path: Path, wdsctl: Wdsctl) -> Path:
    """Twelve questions about three images, each image stored once."""
    source = tmp_path / "source"
    source.mkdir()
    for name in "abc":
        (source / f"{name}.jpg").write_bytes(an_image("JPEG"))
    rows = [{"id": f"{name}{i}", "image": f"{name}.jpg", "answer": "yes"} for name in "abc" for i in range(4)]
    (source / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    dest = tmp_path / "pairs"
    result = wdsctl("prepare", source, dest, "--layout", "polylithic", "--split", "8,2", "-O", "key=id", "--no-input")
    assert result.code == 0, result.stderr
    return dest


@pytest.mark.parametrize(
    "command",
    [
        ["inspect"],
        ["inspect", "--samples", "1"],
        ["ls"],
        ["get", "a0", "json"],
        ["sql", "SELECT count(*) FROM v_sample"],
        ["split"],
        ["view", "list"],
        ["catalog", "info"],
        ["catalog", "check"],
    ],
)
def test_commands_at_root_have_output_of_primary(wdsctl: Wdsctl, root: Path, command: list[str]) -> None:
    verb = 2 if command[0] in ("view", "catalog") else 1
    answers = [wdsctl(*command[:verb], path, *command[verb:]) for path in (root, root / "primary")]

    assert answers[0].code == 0, answers[0].stderr
    assert answers[0].stdout == answers[1].stdout != ""


def test_view_is_addressed_at_root(wdsctl: Wdsctl, root: Path) -> None:
    assert wdsctl("view", "create", root, "first", "--where", "key LIKE 'a%'").code == 0
    assert wdsctl("ls", f"{root}@first", "--samples").stdout.split() == ["a0", "a1", "a2", "a3"]


def test_inspect_prints_media_folder_and_field_of_media(wdsctl: Wdsctl, root: Path) -> None:
    lines = wdsctl("inspect", root).stdout.splitlines()
    document = json.loads(wdsctl("inspect", root, "--json").stdout)

    assert any(line.split() == ["media", str(root / "media")] for line in lines)
    assert document["polylithic"]["media"] == str(root / "media")
    assert "image" in document["polylithic"]["field_map"]
    assert json.loads(wdsctl("inspect", root / "media", "--json").stdout)["polylithic"] is None


def test_split_at_root_splits_primary(wdsctl: Wdsctl, root: Path) -> None:
    assert wdsctl("split", root, "train=1,val=1", "--yes").code == 0
    assert {split.name for split in api.inspect(root).splits} == {"train", "val"}
    api.split(root, "9,1", yes=True)
    assert api.inspect(root / "primary").splits == api.inspect(root).splits


def test_get_of_media_part_names_reference_part(wdsctl: Wdsctl, root: Path) -> None:
    assert "the part refs.json, which names the media of this sample" in wdsctl("get", root, "a0", "jpg").stderr


def test_index_refuses_polylithic_root(wdsctl: Wdsctl, root: Path) -> None:
    for more in ([], ["--dry-run"]):
        result = wdsctl("index", root, *more)
        assert result.code == 2
        assert f"`wdsctl prepare {root}` updates both" in result.stderr.replace("\n", " ").replace("  ", " ")


def test_validate_checks_and_quarantines_primary_and_media(wdsctl: Wdsctl, root: Path) -> None:
    assert wdsctl("validate", root).code == 0
    shard = next((root / "media").glob("*.tar"))
    data = bytearray(shard.read_bytes())
    data[512:1024] = bytes(512)  # the first image
    shard.write_bytes(data)

    found = wdsctl("validate", root, "--level", "content", "--again", "--json")
    assert found.code == 1
    shards = {finding["shard"] for finding in json.loads(found.stdout)["findings"]}
    assert f"media/{shard.name}" in shards
    assert wdsctl("validate", root, "--level", "content", "--quarantine").code == 1
    released = json.loads(wdsctl("validate", root, "--release", "--json").stdout)
    assert released["released"] == 1


def test_validate_level_refs_reports_every_reference_to_missing_media(wdsctl: Wdsctl, root: Path) -> None:
    complete = wdsctl("validate", root, "--level", "refs", "--json")
    assert (complete.code, complete.document["findings"]) == (0, [])

    rewrite_shard(next((root / "media").glob("*.tar")), {f"{name}0.jpg": an_image("JPEG") for name in "ac"})
    assert wdsctl("index", root / "media").code == 0
    result = wdsctl("validate", root, "--level", "refs", "--json")

    assert result.code == 1
    found = [(each["code"], each["severity"], each["key"], each["part"]) for each in result.document["findings"]]
    assert found == [("WDS550", "error", f"b{i}", "refs.json") for i in range(4)]
    messages = {each["message"] for each in result.document["findings"]}
    assert messages == {f"'b0.jpg' does not exist (jpg of {root / 'media'})"}
    assert {each["shard"].split("/")[0] for each in result.document["findings"]} == {"primary"}


def damage_questions(root: Path) -> None:
    """Leave one question without its image, one with an image that is missing, and one with broken references."""
    shard = next((root / "primary").glob("*.tar"))
    with tarfile.open(shard) as tar:
        members = {each.name: tar.extractfile(each).read() for each in tar.getmembers()}  # type: ignore[union-attr]
    values = {"a0.refs.json": b"{}", "b1.refs.json": b'{"jpg": "x.jpg"}', "c2.refs.json": b"[]"}
    assert values.keys() <= members.keys()
    rewrite_shard(shard, members | values)


@pytest.mark.parametrize("dataset", ["", "primary"])
def test_validate_level_schema_checks_complete_samples(wdsctl: Wdsctl, root: Path, dataset: str) -> None:
    intact = wdsctl("validate", root / dataset, "--level", "schema", "--json").document
    assert (intact["findings"], intact["levels"], intact["samples"]) == ([], ["structure", "schema"], 12)

    damage_questions(root)
    assert wdsctl("index", root / "primary").code == 0
    result = wdsctl("validate", root / dataset, "--level", "schema", "--json")

    assert result.code == 1
    found = {(each["key"], each["code"]) for each in result.document["findings"] if each["severity"] == "error"}
    assert found == {("a0", "WDS148"), ("b1", "WDS343"), ("c2", "WDS343")}


def test_validate_lists_no_level_that_was_skipped(wdsctl: Wdsctl, root: Path) -> None:
    (root / "monolithic.yaml").unlink()
    document = wdsctl("validate", root, "--level", "schema", "--json").document

    assert document["levels"] == ["structure"]
    assert document["skipped"] == ["primary: schema skipped: dataset.yaml has no sample type with a field map"]


def test_validate_checks_view_at_root(wdsctl: Wdsctl, root: Path) -> None:
    rewrite_shard(next((root / "media").glob("*.tar")), {f"{name}0.jpg": an_image("JPEG") for name in "ac"})
    assert wdsctl("index", root / "media").code == 0
    for name in "ab":
        assert wdsctl("view", "create", root, name, "--where", f"key LIKE '{name}%'").code == 0

    whole, broken = (wdsctl("validate", f"{root}@{name}", "--level", "refs", "--json") for name in "ab")
    assert (whole.code, whole.document["samples"], whole.document["view"]) == (0, 4, "a")
    assert broken.code == 1
    found = [(each["code"], each["shard"].split("/")[0], each["key"]) for each in broken.document["findings"]]
    assert found == [("WDS550", "primary", f"b{i}") for i in range(4)]


def test_validate_refs_option_is_refused_at_root(wdsctl: Wdsctl, root: Path, tmp_path: Path) -> None:
    result = wdsctl("validate", root, "--refs", f"image={tmp_path}")

    assert (result.code, result.stdout) == (2, "")
    assert "omit --refs: a polylithic dataset has its own media" in result.stderr


def test_blend_file_of_polylithic_root_is_inspected_and_validated(wdsctl: Wdsctl, root: Path) -> None:
    blend = root.parent / "blend.yaml"
    blend.write_text(f"splits:\n  train:\n    path: {root.name}\n")
    inspected = wdsctl("inspect", blend, "--json")
    assert (inspected.code, inspected.document["problems"]) == (0, [])

    rewrite_shard(next((root / "media").glob("*.tar")), {f"{name}0.jpg": an_image("JPEG") for name in "ac"})
    assert wdsctl("index", root / "media").code == 0
    result = wdsctl("validate", blend, "--level", "refs", "--json")

    assert (result.code, result.document["shards"]) == (1, 2)
    found = [(each["code"], each["shard"].split("/")[:2], each["key"]) for each in result.document["findings"]]
    assert found == [("WDS550", ["pairs", "primary"], f"b{i}") for i in range(4)]


@pytest.mark.parametrize(
    ("command", "options"),
    [("diff", ["--since", "1"]), ("export", ["--to", "wids"]), ("export", ["--to", "croissant"])],
)
def test_commands_about_one_dataset_refuse_root_and_name_primary_and_media(
    wdsctl: Wdsctl, root: Path, command: str, options: list[str]
) -> None:
    refused = wdsctl(command, root, *options)
    assert refused.code == 2
    words = " ".join(options)
    for name, what in (("primary", "the samples"), ("media", "the media")):
        assert f"`wdsctl {command} {root}/{name} {words}` for {what}" in refused.stderr
        assert wdsctl(command, root / name, *options).code == 0
    assert wdsctl("diff", root / "primary", root).code == 2


def test_diff_compares_views_at_root(wdsctl: Wdsctl, root: Path) -> None:
    for name, letters in (("one", "ab"), ("two", "b")):
        assert (
            wdsctl("view", "create", root, name, "--where", f"substr(key, 1, 1) IN ({str(list(letters))[1:-1]})").code
            == 0
        )
    result = wdsctl("diff", f"{root}@one", f"{root}@two", "--json")
    assert (result.code, result.document["samples"]["removed"]) == (1, 4)


def test_log_at_root_names_histories_of_primary_and_media(wdsctl: Wdsctl, root: Path) -> None:
    result = wdsctl("log", root)
    assert f"`wdsctl log {root}/primary`, `wdsctl log {root}/media`" in result.stderr
    assert wdsctl("log", root, "--json").stderr == ""


def test_checksum_at_root_hashes_primary_and_media(wdsctl: Wdsctl, root: Path, tmp_path: Path) -> None:
    sums = wdsctl("checksum", root).stdout
    assert {line.split()[1].split("/")[0] for line in sums.splitlines()} == {"primary", "media"}
    (tmp_path / "sums").write_text(sums)
    assert wdsctl("checksum", root, "--check", tmp_path / "sums").code == 0
