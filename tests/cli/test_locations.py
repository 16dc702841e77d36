"""How the command line names arrays."""

import pytest

from tensor_reshape.cli.locations import Location, read_location


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("-", Location("-")),
        ("a.npy", Location("a.npy")),
        ("a:b.npy", Location("a:b.npy")),
        ("plain", Location("plain")),
        ("a.npz", Location("a.npz", "npz")),
        ("a.npz:", Location("a.npz", "npz")),
        ("a.npz:x", Location("a.npz", "npz", "x")),
        ("d:e/a.npz:x:y", Location("d:e/a.npz", "npz", "x:y")),
        ("m.safetensors:layer.0.weight", Location("m.safetensors", "safetensors", "layer.0.weight")),
        ("m.safetensors", Location("m.safetensors", "safetensors")),
        (".npz:x", Location(".npz:x")),
    ],
    ids=str,
)
def test_a_text_names_a_file_and_what_is_in_it(text: str, location: Location):
    assert read_location(text) == location


def test_a_dash_is_a_pipe():
    assert (read_location("-").is_pipe, read_location("a.npy").is_pipe) == (True, False)
