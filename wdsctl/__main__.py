"""`python -m wdsctl` is `wdsctl`."""

from __future__ import annotations

from wdsctl.cli.start import run

if __name__ == "__main__":
    run()
