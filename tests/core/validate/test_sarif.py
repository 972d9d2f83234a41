from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest

from wdsctl.core.errors import Finding
from wdsctl.core.validate.ci_formats import format_sarif

ODD = Finding(
    code="WDS144",
    severity="error",
    message="no JSON: \ud800",
    shard="a b/ü#1.tar",
    key="k",
    part="json",
    offset=512,
    count=3,
)
DATASET_FINDING = Finding(code="WDS109", severity="note", message="hardly any")


def test_sarif_has_rule_for_each_code_and_result_for_each_finding() -> None:
    (run,) = json.loads(format_sarif("/data/x y", [ODD, DATASET_FINDING]))["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    first, second = run["results"]

    assert run["originalUriBaseIds"]["ROOT"]["uri"] == "file:///data/x%20y/"
    assert [rules[each["ruleIndex"]] for each in (first, second)] == ["WDS144", "WDS109"]
    assert [each["level"] for each in (first, second)] == ["error", "note"]
    location = first["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "a%20b/%C3%BC%231.tar", "uriBaseId": "ROOT"}
    assert location["region"]["byteOffset"] == 512
    assert "k.json: " in first["message"]["text"]
    assert "(3 times)" in first["message"]["text"]
    assert second["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": ".", "uriBaseId": "ROOT"}}


def test_sarif_is_deterministic_and_empty_without_findings() -> None:
    assert format_sarif("s3://b/x", [ODD]) == format_sarif("s3://b/x", [ODD])
    document = json.loads(format_sarif("s3://b/x", []))
    assert (document["version"], document["runs"][0]["results"]) == ("2.1.0", [])
    assert document["runs"][0]["originalUriBaseIds"]["ROOT"]["uri"] == "s3://b/x/"


@pytest.mark.parametrize("name", ["qa lines.jsonl", "blend.yaml"])
def test_sarif_locations_are_relative_to_folder_of_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    (run,) = json.loads(format_sarif(str(tmp_path / name), [replace(ODD, shard=name)]))["runs"]
    base = run["originalUriBaseIds"]["ROOT"]["uri"]
    location = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert unquote(urljoin(base, location["uri"])) == f"file://{tmp_path}/{name}"
    assert base.endswith("/")
    (remote_run,) = json.loads(format_sarif(f"s3://b/x/{name}", []))["runs"]
    assert remote_run["originalUriBaseIds"]["ROOT"]["uri"] == "s3://b/x/"


def test_shard_at_url_is_named_by_its_url() -> None:
    (run,) = json.loads(format_sarif("blend.yaml", [replace(ODD, shard="s3://b/x/a.tar")]))["runs"]
    location = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": "s3://b/x/a.tar"}
