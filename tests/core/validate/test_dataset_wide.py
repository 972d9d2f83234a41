from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.build import a_dataset, an_image
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.progress import SilentProgress
from wdsctl.core.validate.validate import ValidateRequest, validate
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view, delete_view

CONTENT = ValidateRequest(levels=("structure", "content"))
GOOD, BAD = b'{"a": 1}', b'{"a": '


def a_dataset_with_a_view(tmp_path: Path) -> str:
    """Broken: a and c of one shard, d of the other. In the view: b and c."""
    members = {"a.json": BAD, "b.json": GOOD, "c.json": BAD}
    root = str(a_dataset(tmp_path, {"one.tar": members, "two.tar": {"d.json": BAD}}))
    index(root)
    create_view(root, "some", ViewDefinition(where="key in ('b', 'c')"))
    return root


def test_of_a_view_only_its_shards_and_its_samples_are_told_of(tmp_path: Path) -> None:
    report = validate(f"{a_dataset_with_a_view(tmp_path)}@some", CONTENT)
    assert (report.view, report.shards, report.samples) == ("some", 1, 2)
    assert [(found.shard, found.key, found.count) for found in report.findings] == [("one.tar", "c", 1)]


def test_all_of_the_dataset_is_told_of_after_its_view(tmp_path: Path) -> None:
    root = a_dataset_with_a_view(tmp_path)
    validate(f"{root}@some", CONTENT)
    told = [(found.shard, found.key, found.count) for found in validate(root, CONTENT).findings]
    assert told == [("one.tar", "a", 1), ("one.tar", "c", 1), ("two.tar", "d", 1)]


class Deleted(SilentProgress):
    """Somebody else deletes the view, and lets go of the lock when they are waited for."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._held = ExitStack()
        self._held.enter_context(hold_lock(locate(root).lock))

    def note(self, message: str) -> None:
        if "waiting for another wdsctl" in message:
            delete_view(self._root, "some")
            self._held.close()


def test_the_samples_of_a_view_are_looked_up_when_nobody_writes_any_more(tmp_path: Path) -> None:
    root = a_dataset_with_a_view(tmp_path)
    request = ValidateRequest(quarantine=True)
    with pytest.raises(InputError, match="no view 'some'"):
        validate(f"{root}@some", request, wait=60, progress=Deleted(root))


def test_a_view_that_is_not_there_is_an_error_with_the_names_that_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no view 'other'; it has some"):
        validate(f"{a_dataset_with_a_view(tmp_path)}@other")


def test_a_verb_of_whole_datasets_says_that_it_takes_no_view(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not on the view 'some'"):
        index(f"{a_dataset_with_a_view(tmp_path)}@some")


def test_samples_without_any_part_of_a_pattern_are_named(tmp_path: Path) -> None:
    turns = b'{"messages": [{"role": "user", "content": "hi"}]}'
    image = an_image("PNG")
    members = {"a.0.png": image, "a.1.png": image, "a.json": turns, "b.json": turns, "c.txt": b"x", "c.json": turns}
    root = str(a_dataset(tmp_path, {"one.tar": members}))
    field_map = {"messages": "json", "images": "*.png"}
    prepare(root, None, PrepareRequest(sample_type="ConversationSample", field_map=field_map, split={"train": 1}))

    told = [
        (found.code, found.message, found.count)
        for found in validate(root, ValidateRequest(levels=("structure",))).findings
    ]

    assert ("WDS108", "it lacks *.png", 1) in told
    # Parts that the pattern takes are not odd because only some samples have them.
    assert [message for code, message, _ in told if code == "WDS109"] == [
        "1 of 3 samples have a part 'txt', and no field is mapped to it"
    ]
