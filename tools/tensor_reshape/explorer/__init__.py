"""The shape explorer: the files of its page."""
