"""The explorer over HTTP, with its routes, its method, and the command `tensor-reshape explore`."""
