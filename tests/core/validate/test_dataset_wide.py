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
    """Samples a and c of one shard and d of the other are broken. The view contains b and c."""
    members = {"a.json": BAD, "b.json": GOOD, "c.json": BAD}
    root = str(a_dataset(tmp_path, {"one.tar": members, "two.tar": {"d.json": BAD}}))
    index(root)
    create_view(root, "some", ViewDefinition(where="key in ('b', 'c')"))
    return root


def test_validate_view_reports_only_its_shards_and_samples(tmp_path: Path) -> None:
    report = validate(f"{a_dataset_with_a_view(tmp_path)}@some", CONTENT)
    assert (report.view, report.shards, report.samples) == ("some", 1, 2)
    assert [(found.shard, found.key, found.count) for found in report.findings] == [("one.tar", "c", 1)]


def test_validate_dataset_reports_everything_after_its_view(tmp_path: Path) -> None:
    root = a_dataset_with_a_view(tmp_path)
    validate(f"{root}@some", CONTENT)
    findings = [(found.shard, found.key, found.count) for found in validate(root, CONTENT).findings]
    assert findings == [("one.tar", "a", 1), ("one.tar", "c", 1), ("two.tar", "d", 1)]


class DeleteViewOnWait(SilentProgress):
    """Deletes the view and releases the lock as soon as the command waits for it."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._held = ExitStack()
        self._held.enter_context(hold_lock(locate(root).lock))

    def note(self, message: str) -> None:
        if "waiting for another wdsctl" in message:
            delete_view(self._root, "some")
            self._held.close()


def test_samples_of_view_are_looked_up_after_lock_is_acquired(tmp_path: Path) -> None:
    root = a_dataset_with_a_view(tmp_path)
    request = ValidateRequest(quarantine=True)
    with pytest.raises(InputError, match="no view 'some'"):
        validate(f"{root}@some", request, wait=60, progress=DeleteViewOnWait(root))


def test_missing_view_is_refused_with_existing_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no view 'other'; it has some"):
        validate(f"{a_dataset_with_a_view(tmp_path)}@other")


def test_index_refuses_view(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not on the view 'some'"):
        index(f"{a_dataset_with_a_view(tmp_path)}@some")


def test_sample_without_part_of_pattern_is_reported(tmp_path: Path) -> None:
    conversation = b'{"messages": [{"role": "user", "content": "hi"}]}'
    image = an_image("PNG")
    members = {
        "a.0.png": image,
        "a.1.png": image,
        "a.json": conversation,
        "b.json": conversation,
        "c.txt": b"x",
        "c.json": conversation,
    }
    root = str(a_dataset(tmp_path, {"one.tar": members}))
    field_map = {"messages": "json", "images": "*.png"}
    prepare(root, None, PrepareRequest(sample_type="ConversationSample", field_map=field_map, split={"train": 1}))

    findings = [
        (found.code, found.message, found.count)
        for found in validate(root, ValidateRequest(levels=("structure",))).findings
    ]

    assert ("WDS108", "it lacks *.png", 1) in findings
    # Parts that match the pattern are not reported although only some samples have them.
    assert [message for code, message, _ in findings if code == "WDS109"] == [
        "1 of 3 samples have a part 'txt', and no field is mapped to it"
    ]
