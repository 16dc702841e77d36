import pytest
from benchmarks.cells import Cell, parse_cell, parse_size


@pytest.mark.parametrize(
    "cell", [Cell(0), Cell(1024, 16), Cell(1024**3, 1, "unix"), Cell(24), Cell(1024, 16, processes=4)]
)
def test_the_text_of_a_cell_is_read_back(cell: Cell):
    assert parse_cell(str(cell)) == cell


@pytest.mark.parametrize("text", ["Bars", "Hostile questions, 20 a batch", str(Cell(20, load="mixed"))])
def test_other_titles_are_no_cells(text: str):
    assert parse_cell(text) is None


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("1KiB", 1024), ("16 MiB", 16 * 1024**2), ("8B", 8)])
def test_sizes_have_binary_units(text: str, size: int):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["7", "1 KB", "-8", "big"])
def test_other_sizes_are_refused(text: str):
    with pytest.raises(ValueError, match="multiple of 8 bytes"):
        parse_size(text)
