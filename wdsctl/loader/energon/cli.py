"""`megatron.energon.cli`: the commands of Energon, which wdsctl's replace."""

from __future__ import annotations

from wdsctl.loader.energon.replaced import replaced
from wdsctl.loader.energon.submodules import publish_submodules

__all__ = ["main", "prepare_media_command"]

main = replaced("main")
prepare_media_command = replaced("prepare_media_command")

publish_submodules(__name__)
