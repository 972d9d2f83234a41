from __future__ import annotations

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.core.samples.naming import check_shard_template


@pytest.mark.parametrize(
    "template",
    [
        "shard-{index:06d}.tar",
        "{index}.tar",
        "train/part {index:3}.tar",
        "a/b/{index}-{index:02d}.tar",
        "{{{index}}}.tar",
    ],
)
def test_shard_template_with_index_is_accepted(template: str) -> None:
    assert check_shard_template(template) == template


@pytest.mark.parametrize(
    "template",
    [
        "shard.tar",
        "shard-{index:06d}",
        "shard-{index:06d}.tar.gz",
        "shard-{name}-{index}.tar",
        "shard-{}.tar",
        "shard-{0}.tar",
        "shard-{index!r}.tar",
        "shard-{index:x>6}.tar",
        "shard-{index:c}.tar",
        "shard-{index:{index}}.tar",
        "shard-{index.real}.tar",
        "shard-{index:06d.tar",
        "/data/{index}.tar",
        "../{index}.tar",
        "a/../{index}.tar",
        "a//{index}.tar",
        ".hidden/{index}.tar",
        ".{index}.tar",
        "a\n{index}.tar",
        "",
    ],
)
def test_invalid_shard_template_is_refused(template: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_shard_template(template)

    assert caught.value.code == "WDS001"
    assert repr(template) in caught.value.message
