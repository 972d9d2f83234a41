"""`megatron.energon.tools`: the commands of Energon, which wdsctl's replace."""

from __future__ import annotations

from wdsctl.loader.energon.replaced import replaced
from wdsctl.loader.energon.submodules import publish_submodules

__all__ = ["command", "command_info", "command_redist"]

command = replaced("command")
command_info = replaced("command_info")
command_redist = replaced("command_redist")

publish_submodules(__name__)
