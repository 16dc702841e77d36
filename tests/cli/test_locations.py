"""The names of arrays on the command line."""

import pytest

from tensor_reshape.cli.locations import Location, choose_member, read_location


def test_file_argument_is_split_into_path_format_and_member():
    locations = {
        "-": Location("-"),
        "a.npy": Location("a.npy"),
        "a:b.npy": Location("a:b.npy"),
        "plain": Location("plain"),
        "a.npz": Location("a.npz", "npz"),
        "a.npz:": Location("a.npz", "npz"),
        "a.npz:x": Location("a.npz", "npz", "x"),
        "d:e/a.npz:x:y": Location("d:e/a.npz", "npz", "x:y"),
        "m.safetensors:layer.0.weight": Location("m.safetensors", "safetensors", "layer.0.weight"),
        "m.safetensors": Location("m.safetensors", "safetensors"),
        ".npz:x": Location(".npz:x"),
    }
    assert {text: read_location(text) for text in locations} == locations
    assert [text for text in locations if read_location(text).is_pipe] == ["-"]


def test_npz_member_name_is_optional_for_a_single_array():
    assert choose_member(["a"], "") == "a"
    for names, member, message in (
        (["a", "b"], "", "has several arrays: add a colon and one of the names a, b"),
        (["a"], "c", "has no array 'c'; it has a"),
        ([], "", "contains no array"),
        ([str(number) for number in range(25)], "", "18, 19 and 5 more"),
    ):
        with pytest.raises(ValueError, match=message):
            choose_member(names, member)
