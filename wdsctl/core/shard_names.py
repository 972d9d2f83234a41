"""Names of shards by template, such as `train/shard-{index:06d}.tar`."""

from __future__ import annotations

import re
from string import Formatter

from wdsctl.core.errors import UsageError

_SPEC = re.compile(r"\d{0,4}d?")


def check_template(template: str) -> str:
    """`template` as it stands. Raises UsageError where it does not give every index a name below the destination."""
    try:
        fields = [
            (name, spec, conversion) for _, name, spec, conversion in Formatter().parse(template) if name is not None
        ]
    except ValueError as error:
        raise _refused(template, str(error)) from error
    if not fields:
        raise _refused(template, "it has no {index}, so all shards would have one name")
    for name, spec, conversion in fields:
        if name != "index" or conversion or not _SPEC.fullmatch(spec or ""):
            raise _refused(template, "{index} is the only field, with a width at most: {index:06d}")
    _check_path(template, template.format(index=0))
    return template


def _check_path(template: str, example: str) -> None:
    if not example.endswith(".tar"):
        raise _refused(template, "it does not end in .tar")
    for name in example.split("/"):
        if not name or name.startswith("."):
            raise _refused(template, "it must be a path below the destination, without hidden folders")
    if not example.isprintable():
        raise _refused(template, "it has characters that cannot be printed")


def _refused(template: str, reason: str) -> UsageError:
    return UsageError(
        f"the template {template!r} cannot name shards: {reason}",
        hint="shard-{index:06d}.tar is the default; folders are fine: train/shard-{index:06d}.tar",
    )
