"""Authenticates callers by certificates and tokens, and authorizes them by the permissions of their identities."""
