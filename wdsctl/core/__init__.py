"""The core of wdsctl: everything about datasets on disk that needs neither a terminal nor torch.

The modules at this level (errors, files, jobs, hashing, text, URLs, ...) do not depend on datasets, and every room
may import them. Rooms are layered: `pyproject.toml` lists them from `prepare` at the top to these modules at the
bottom, and a room imports only rooms below its own. `wdsctl.cli` and `wdsctl.loader` import `core`; `core` imports
neither.
"""

from __future__ import annotations
