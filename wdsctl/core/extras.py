"""Name the optional packages, the extras of wdsctl that install them, and the command to type.

`pip install wdsctl` brings what every command needs. A test compares this table with pyproject.toml.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wdsctl.core.errors import UsageError

#: Package, as it is imported -> the extra that installs it.
EXTRA_OF_PACKAGE = {
    "torch": "loader",
    "webdataset": "loader",
    "s3fs": "s3",
    "gcsfs": "gcs",
    "adlfs": "azure",
    "aiohttp": "http",
    "huggingface_hub": "hf",
    "pyarrow": "parquet",
    "ray": "ray",
}


def install_command(package: str) -> str:
    """The command that installs a package: through its extra, which states the versions that wdsctl works with."""
    extra = EXTRA_OF_PACKAGE.get(package)
    return f"pip install 'wdsctl[{extra}]'" if extra else f"pip install {package}"


def missing_package_error(what: str, package: str) -> UsageError:
    """Build the error for an optional package that `what` needs."""
    return UsageError(f"{what} needs {package}, which is not installed", hint=install_command(package), code="WDS236")


@contextmanager
def require_packages(what: str) -> Iterator[None]:
    """Turn the failed import of an optional package in the block into UsageError WDS236.

    Other failed imports pass through: they are errors of an installation or of the user's code.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA_OF_PACKAGE:
            raise
        raise missing_package_error(what, package) from error
