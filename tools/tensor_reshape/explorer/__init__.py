"""The shape explorer: the files of its page, and the drawings of queries."""
