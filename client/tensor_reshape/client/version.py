"""The version of the installed distribution. Importing `importlib.metadata` takes longer than local shape inference."""

from importlib.metadata import version

__version__ = version("tensor-reshape")
