"""An option that would change nothing is refused, with a remedy that works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_folder
from tests.cli.conftest import Wdsctl
from tests.core.captioned import a_jpeg, captions
from wdsctl import index, prepare


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a raw folder, its shards, a folder of media and a table. Refused commands change none of them."""
    place = tmp_path_factory.mktemp("place")
    prepare(a_folder(place / "raw", captions(0, 3)), place / "shards", workers=1)
    index(a_folder(place / "media", {"a.jpg": a_jpeg()}), media=True, workers=1)
    (place / "rows.csv").write_text("id,text\na,b\n")
    return place


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("prepare shards --shard-samples 3", "--shard-samples applies to sources that prepare copies to DEST only"),
        ("prepare shards --shard-size 20KB", "--shard-size applies to sources that prepare copies to DEST only"),
        ("prepare shards --template x-{index}.tar", "--template applies to sources that prepare copies to DEST only"),
        ("prepare shards --overwrite", "--overwrite applies to sources that prepare copies to DEST only"),
        ("prepare raw new --overwrite", "--overwrite applies to tables and other formats only"),
        ("prepare shards --source-moved", "--source-moved applies to raw files only"),
        ("prepare rows.csv new --source-moved", "--source-moved applies to raw files only"),
        ("prepare media --media --source-moved", "--source-moved needs samples"),
        ("prepare raw new --allow-split-changes", "--allow-split-changes only applies with --split"),
        ("prepare media --media --allow-split-changes", "--allow-split-changes needs samples"),
        ("prepare raw new --accept-type --sample-type TextSample", "--accept-type has no effect with --sample-type"),
        ("prepare raw new --accept-type --field-map text=txt", "--accept-type has no effect with --field-map"),
        ("prepare media --media --accept-type", "--accept-type needs samples"),
        ("split shards --allow-split-changes", "--allow-split-changes has no effect without RATIOS, another rule"),
        ("split shards --drop --set a --allow-split-changes", "--allow-split-changes has no effect without RATIOS"),
        ("split shards --exclude-key 0 --allow-split-changes", "--allow-split-changes has no effect without RATIOS"),
        ("prepare rows.csv new --missing keep", "--missing applies to shards and raw files only"),
        ("prepare media --media --explain", "--explain needs samples"),
        ("prepare shards --media jpg --media-index", "--media-index has no effect with --media jpg"),
        ("index shards --ray-address x", "--ray-address has no effect without --executor ray"),
        ("index shards --trust-code", "--trust-code has no effect without --column"),
        ("convert shards new --on-error keep", "--on-error keep has no effect without --image, --max-side or --audio"),
        ("convert shards new --to jsonl --template a{index}.tar", "--template has no effect without --to shards"),
        ("convert shards new --max-side 0", "invalid value for '--max-side': the minimum is 1"),
        ("convert shards new --audio flac --rate 0", "invalid value for '--rate': the minimum is 1"),
        ("split shards --folds 0", "invalid value for '--folds': the minimum is 1"),
        ("inspect shards --images blocks", "--images has no effect without --samples N, --random N or --key KEY"),
        ("trace traces --root a=b", "--root has no effect without --step N"),
        ("trace traces --rank 1", "--rank has no effect without --step N"),
        ("trace traces --counts --out new", "--out has no effect without --step N or --batch N"),
        ("checkpoint redistribute raw new/l{rank}.json", "{rank} in OUT has no effect without --ranks N"),
        ("split shards --drop --yes --allow-empty", "--allow-empty has no effect without RATIOS"),
        ("split shards --exclude-key 0 --set s", "--set has no effect without RATIOS, another rule, or --drop"),
        ("split shards --rest val", "--rest has no effect without --pattern, --keys, --from or --by-value"),
        ("validate shards --sample 10%", "--sample has no effect without --level headers or content or schema or refs"),
        ("validate shards --level hashes --sample 10%", "--sample has no effect without --level headers"),
        ("repair shards --in-place --yes --all", "--all has no effect with --in-place"),
        ("repair shards new --encoding latin-1", "--encoding applies to JSONL only"),
        ("ls shards --json --long", "--long has no effect with --json"),
        ("ls shards --json -0", "--null has no effect with --json"),
        ("ls media --samples", "--samples needs samples"),
        ("ls media --split train", "--split needs samples"),
        ("checksum shards --check sums --again", "--again has no effect with --check"),
        ("view create shards big --split train --timeout 5", "--timeout has no effect without --where or --sql"),
        ("view export shards big --force", "--force has no effect without -o FILE"),
        ("skill --force", "--force has no effect without --install DIR"),
    ],
)
def test_option_without_effect_is_refused(
    wdsctl: Wdsctl, place: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.chdir(place)

    result = wdsctl(*arguments.split())

    assert (result.code, message in result.stdout + result.stderr) == (2, True), result.stderr
    assert not Path("new").exists()


def test_option_without_effect_is_left_out_if_it_is_configured(wdsctl: Wdsctl, place: Path, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[validate]\nsample = "10%"\n[prepare]\nshard-samples = 3\n')

    assert wdsctl("validate", place / "shards", "--config", tmp_path / "c.toml", "--workers", "1").code == 0
    assert wdsctl("prepare", place / "shards", "--config", tmp_path / "c.toml", "--workers", "1").code == 0


@pytest.mark.parametrize(
    ("words", "option", "lost"),
    [
        (["convert", "a", "b", "--where", "x > 1", "--where=y > 1"], "--where", "x > 1"),
        (["prepare", "a", "--field-map", "image=jpg", "--field-map", "caption=txt"], "--field-map", "image=jpg"),
        (["view", "create", "a", "v", "--where", "x > 1", "--where", ""], "--where", "x > 1"),
        (["get", "a", "k", "-o", "x", "--output", "y"], "--output", "x"),
    ],
)
def test_option_with_two_values_is_refused(wdsctl: Wdsctl, words: list[str], option: str, lost: str) -> None:
    result = wdsctl(*words)

    assert result.code == 2
    assert f"{option} is given twice: {lost!r} would have no effect" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--level", "structure", "--level", "headers"],
        ["--wait", "1", "--wait=1"],
        ["--json", "--json"],
        ["--levels", "1", "--levels", "2"],
    ],
)
def test_repeated_options_without_loss_are_not_refused_as_such(wdsctl: Wdsctl, words: list[str]) -> None:
    assert "is given twice" not in wdsctl("validate", "none", *words).stderr
