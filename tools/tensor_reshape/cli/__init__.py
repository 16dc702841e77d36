"""The command line `tensor-reshape`."""
