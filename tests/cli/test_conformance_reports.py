"""The report in a pipe and on a terminal."""

from pathlib import Path

from command_line import PROGRAM
from conformance_runs import make_case, make_mixed_results, make_results
from tensor_reshape.cli.conformance_reports import build_page, list_examples, write_report, write_title
from terminals import run_on_terminal, strip_styles

RESULTS = make_mixed_results()


def test_conformance_examples_are_listed_worst_first_with_counts():
    assert [(one.id.partition("@")[0], count) for one, count in list_examples(RESULTS)] == [
        ("inferred/crash", 1),
        ("inferred/hang", 1),
        ("target/rows", 1),
        ("inferred/wrong", 2),
        ("partial/bounded", 1),
    ]


def test_conformance_report_has_a_title_and_untruncated_examples():
    assert write_title(RESULTS) == "mine (lib 1.2): 9 cases of the conformance suite 1, core"
    text = "\n".join(write_report([RESULTS]))
    assert (
        "\nwrong_shape, inferred: inferred/wrong@reshape, the smallest of 2\n"
        "  case     reshape of [2, 3] to [-1], special_zero false\n"
        "  expected [6]\n"
        "  answer   [7]\n"
        "  differs  dim 0 is 7, not 6\n"
        "  because  The output has as many elements as the data (both).\n"
    ) in text
    assert text.endswith("rejected with another reason, which is not a difference, 1 cases: OTHER, not NOT_DIVISIBLE")
    other = make_results((make_case(), {"shape": [6]}), name="other")
    assert "\nmine: crash, inferred: inferred/crash@reshape\n" in "\n".join(write_report([RESULTS, other]))


def test_conformance_report_on_a_terminal_escapes_control_characters(tmp_path: Path):
    (tmp_path / "results.json").write_text(RESULTS.write())
    code, drawn = run_on_terminal(PROGRAM, "conformance", "report", tmp_path / "results.json", columns=120)
    text = strip_styles(drawn)
    assert code == 0
    assert "┃ rule" in text
    assert "SIGSEGV: <script>alert(1)</script>\\ud800\\x1b[31m]]>&\\x00" in text
    assert "crash, inferred: inferred/crash@reshape" in text


def test_html_report_shows_the_smallest_example_of_each_difference():
    page = build_page([RESULTS]).decode()
    assert "wrong_shape, inferred: inferred/wrong@reshape, the smallest of 2" in page
    assert "wrong_shape, inferred: inferred/longer@reshape</span>" in page
    many = make_results(*((make_case(f"inferred/{number}"), {"shape": [7]}) for number in range(1000)))
    assert build_page([many]).count(b"because") == 40


def test_html_report_escapes_markup_in_conformance_results():
    page = build_page([RESULTS]).decode()
    assert "<script>" not in page
    assert "SIGSEGV: &lt;script&gt;alert(1)&lt;/script&gt;\\ud800\\x1b[31m]]&gt;&amp;\\x00" in page
