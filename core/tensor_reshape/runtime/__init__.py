"""Switches of the whole process, which neither rules nor messages know of."""
