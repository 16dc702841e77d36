"""The suites. A suite has the compared contestants and the tables of a report.

Each module has `add_options(parser)`, `list_groups(options)` and `build_tables(groups)`. `list_groups` returns groups
of entries that are measured in turn. `build_tables` returns the tables of the groups that are measured so far. The
module's docstring is the introduction of the report.
"""
