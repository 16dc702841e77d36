"""The suites: what is compared, and the tables of a report.

Each module has `add_options(parser)`, `list_groups(options)`: the entries that are measured in turn, group by group,
and `build_tables(groups)`: the tables of the groups that are measured so far. Its docstring opens the report.
"""
