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
OF_ALL = Finding(code="WDS109", severity="note", message="hardly any")


def test_each_code_is_a_rule_and_each_finding_a_result_in_its_place() -> None:
    (run,) = json.loads(format_sarif("/data/x y", [ODD, OF_ALL]))["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    first, second = run["results"]

    assert run["originalUriBaseIds"]["ROOT"]["uri"] == "file:///data/x%20y/"
    assert [rules[each["ruleIndex"]] for each in (first, second)] == ["WDS144", "WDS109"]
    assert [each["level"] for each in (first, second)] == ["error", "note"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20b/%C3%BC%231.tar", "uriBaseId": "ROOT"}
    assert place["region"]["byteOffset"] == 512
    assert "k.json: " in first["message"]["text"]
    assert "(3 times)" in first["message"]["text"]
    assert second["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": ".", "uriBaseId": "ROOT"}}


def test_the_same_findings_give_the_same_text_and_no_findings_an_empty_run() -> None:
    assert format_sarif("s3://b/x", [ODD]) == format_sarif("s3://b/x", [ODD])
    document = json.loads(format_sarif("s3://b/x", []))
    assert (document["version"], document["runs"][0]["results"]) == ("2.1.0", [])
    assert document["runs"][0]["originalUriBaseIds"]["ROOT"]["uri"] == "s3://b/x/"


@pytest.mark.parametrize("name", ["qa lines.jsonl", "blend.yaml"])
def test_places_are_relative_to_the_folder_of_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    (run,) = json.loads(format_sarif(str(tmp_path / name), [replace(ODD, shard=name)]))["runs"]
    base = run["originalUriBaseIds"]["ROOT"]["uri"]
    place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert unquote(urljoin(base, place["uri"])) == f"file://{tmp_path}/{name}"
    assert base.endswith("/")
    (there,) = json.loads(format_sarif(f"s3://b/x/{name}", []))["runs"]
    assert there["originalUriBaseIds"]["ROOT"]["uri"] == "s3://b/x/"


def test_a_shard_at_a_url_is_named_as_it_is() -> None:
    (run,) = json.loads(format_sarif("blend.yaml", [replace(ODD, shard="s3://b/x/a.tar")]))["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "s3://b/x/a.tar"}
