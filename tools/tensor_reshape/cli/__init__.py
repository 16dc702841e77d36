"""The command line program `tensor-reshape`."""
