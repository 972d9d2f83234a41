"""What a conversion is asked to do with parts that no sample has, such as one whose name was mistyped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from wdsctl.core.convert.part_rules import is_media, new_name, unmet
from wdsctl.core.transcode.parts import unmet as unmet_media

if TYPE_CHECKING:
    from wdsctl.core.convert.plan import PlanRequest


def unmet_parts(names: Iterable[str], request: PlanRequest) -> list[str]:
    """`names`: of the parts in the source. Raises InputError WDS003 for images and sounds that are named, of which none
    is there.
    """
    there = list(names)
    called = {new for name in there if (new := new_name(request.parts, name)) is not None}
    apart = [f"--media {each}" for each in request.media if not any(is_media(name, (each,)) for name in called)]
    return [*unmet(request.parts, there), *apart, *unmet_media(called, request.image, request.audio)]
