"""Which columns of a source still hold in what is made of it. Pure.

A column is of its sample, so shards, order and selection change none. What changes one is what is done to the parts
that it was made of: the part that a built-in function names; those that a function of Python declares; and of one
that declares none, all.
"""

from __future__ import annotations

from wdsctl.core.column_spec import Spec, parse_spec
from wdsctl.core.convert.part_rules import is_media, new_name
from wdsctl.core.convert.recipe import PartRules, Recipe, Stream
from wdsctl.core.transcode.parts import means, written_name


class NotCarried(Exception):  # noqa: N818 - what it says
    """Why a column does not go along. `spec` makes it anew in the destination; None where nothing does."""

    def __init__(self, why: str, spec: Spec | None = None) -> None:
        super().__init__(why)
        self.spec = spec


def carried_spec(spec: Spec, parts: tuple[str, ...] | None, recipe: Recipe, stream: Stream) -> Spec:
    """What the column is made by in the destination: the same, with the part under its new name.

    `parts`: that a function of Python declares. `stream`: which half of a polylithic layout is meant, if any.
    Raises NotCarried. A value of Python stays with a sample of which media are kept apart: nothing makes it anew
    unless it is asked for, where built-in functions are run on whatever the dataset grows by.
    """
    if not spec.is_built_in:
        _check_declared(spec, parts, recipe)
        return spec
    new = new_name(recipe.parts, spec.first)
    if new is None:
        raise NotCarried(f"the part {spec.first} does not go along")
    if stream == "primary" and is_media(new, recipe.media):
        raise NotCarried(f"the part {spec.first} is kept apart")
    if stream == "primary" and recipe.primary == "jsonl":
        raise NotCarried("parts are fields of the lines of the primary")
    made = _of_part(spec, written_name(new, recipe.image, recipe.audio))
    if spec.reads and is_changed(new, recipe):
        raise NotCarried(f"the part {spec.first} is written anew", made)
    return made


def is_changed(part: str, recipe: Recipe) -> bool:
    """Whether a part is written anew, or may be."""
    return any(options is not None and means(part, options) for options in (recipe.image, recipe.audio))


def _check_declared(spec: Spec, parts: tuple[str, ...] | None, recipe: Recipe) -> None:
    if recipe.parts == PartRules() and recipe.image is None and recipe.audio is None:
        return
    if parts is None:
        why = f"{spec.text} may look at any part, and not all go along as they are (`{spec.rest[-1]}.parts` would tell)"
        raise NotCarried(why, spec)
    taken = {new for old, new in recipe.parts.rename if old != new}
    for part in parts:
        if new_name(recipe.parts, part) != part or part in taken or is_changed(part, recipe):
            raise NotCarried(f"the part {part}, which {spec.text} looks at, does not go along as it is", spec)


def _of_part(spec: Spec, part: str) -> Spec:
    return parse_spec(":".join((spec.kind, part, *([".".join(spec.rest)] if spec.rest else []))))
