"""What commands look up by name while they run: the command line and the Python API import no runtime."""

from __future__ import annotations

#: `module:function` of the loader, for `validate --level load`; it needs the extra `loader`.
LOAD_CHECK = "wdsctl.loader.plan.load_check:open_load_check"
