"""The version of the installed distribution.

`__version__` has its own module, because importing `importlib.metadata` takes longer than local shape inference.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("tensor-reshape")
except PackageNotFoundError as error:  # for example, this package was copied into the folder of another package
    raise AttributeError("tensor_reshape.client was not installed, so it has no __version__") from error
