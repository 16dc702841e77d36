"""The suites: what is compared, and which tables tell it.

Each module has `add_options(parser)`, `list_groups(options)`: the entries that are measured in turn, group by group,
and `build_tables(groups)`: the tables of what was measured so far; its docstring opens the report.
"""
