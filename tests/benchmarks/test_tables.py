from benchmarks.tables import BARS, RUNS, Table, merge_tables, read_tables

SMALL = Table("1 KiB, 1 client, tcp", ("", "calls a second"), [("ours", "820 (649-1,484)")])
LARGE = Table("16 MiB, 1 client, tcp", ("", "calls a second"), [("ours", "24.3")])


def build_bars(*cells: str) -> Table:
    return Table(BARS, ("bar", "cell"), [("a bar", cell) for cell in cells])


def build_runs(*moments: str) -> Table:
    return Table(RUNS, ("begin",), [(moment,) for moment in moments])


def test_a_table_is_read_as_it_was_written():
    text = "\n\n".join(["# A report", "Words | and a bar.", "## The machine\n\n- two cores", str(SMALL), str(LARGE)])

    assert read_tables(text) == [SMALL, LARGE]


def test_a_table_without_rows_is_read_as_it_was_written():
    assert read_tables(f"# A report\n\n{build_bars()}") == [build_bars()]


def test_a_cell_that_is_measured_again_has_the_later_table_alone():
    again = Table(SMALL.title, SMALL.head, [("stock", "557")])

    assert merge_tables([SMALL, LARGE], [again]) == [again, LARGE]


def test_cells_are_sorted_by_transport_clients_and_size():
    titles = ["1 GiB, 1 client, tcp", "1 KiB, 16 clients, tcp", "0, 1 client, unix"]
    tables = [Table(title, ("",)) for title in reversed(titles)]

    assert [table.title for table in merge_tables(tables, [])] == titles


def test_runs_are_added_up():
    (runs,) = merge_tables([build_runs("on Monday")], [build_runs("on Tuesday")])

    assert runs == build_runs("on Monday", "on Tuesday")


def test_a_bar_keeps_its_verdict_in_cells_that_are_not_measured_again():
    bars, *_ = merge_tables([build_bars(SMALL.title, LARGE.title)], [build_bars(SMALL.title), SMALL])

    assert bars == build_bars(LARGE.title, SMALL.title)
