"""Opens files and nothing else: a pipe that lies in a dataset would be waited for without end."""

from __future__ import annotations

import errno
import os
import stat


def regular(path: str, flags: int) -> int:
    """The `opener` of `open` for files that data names. Raises OSError of pipes, sockets and devices."""
    try:
        handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise OSError(errno.EINVAL, "it is no regular file", path) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file", path)
    return handle
