"""What all tests stand on."""

from __future__ import annotations

import signal

# A shell starts what it runs in the background with Ctrl-C ignored, and every process below inherits that: tests of
# Ctrl-C would wait for one that never comes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
