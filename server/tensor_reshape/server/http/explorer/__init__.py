"""The explorer over HTTP: its routes, its method, and the command `tensor-reshape explore`."""
