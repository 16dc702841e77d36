"""The shape explorer over HTTP, which has routes, a method, and the command `tensor-reshape explore`."""
