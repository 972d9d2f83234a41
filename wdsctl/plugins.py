"""What commands look up by name while they run: the command line and the Python API import no runtime.

The types list all names that there are, so that units of a job, which are read from files, can name nothing else.
"""

from __future__ import annotations

from typing import Literal

#: `module:function` of the loader, for `validate --level load`; it needs the extra `loader`.
LoadCheckName = Literal["wdsctl.loader.plan.load_check:open_load_check"]

#: `module:function` of the loader: whether samples of the entries of a blend can be in one batch.
BLEND_CHECK = "wdsctl.loader.plan.blend_check:find_blend_conflicts"

LOAD_CHECK: LoadCheckName = "wdsctl.loader.plan.load_check:open_load_check"
