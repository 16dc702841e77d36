"""Regions of shared memory: other programs may change the files, but a reader gets whole bytes or a rejection."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from meters import read_descriptors
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.oip.shared_memory import MAX_NAME_BYTES, MAX_REGIONS, Region, SharedMemory
from tensor_reshape.server.runner import Runner

FIELD = "inputs[0].parameters"
SIZE = 4096
CONTENT = bytes(range(256)) * (SIZE // 256)
INT64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-2, SIZE + 2))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with one file, `seen`, next to one that must not be reachable, `hidden`."""
    (tmp_path / "hidden").write_bytes(CONTENT)
    folder = tmp_path / "regions"
    folder.mkdir()
    (folder / "seen").write_bytes(CONTENT)
    return folder


@pytest.fixture
def regions(directory: Path) -> SharedMemory:
    """A region `all` of the whole file, and a region `part` in the middle of it."""
    made = SharedMemory(directory)
    made.register("all", Region("/seen", 0, SIZE))
    made.register("part", Region("seen", 1000, 100))
    return made


def catch_reason(ask: Callable[[], object]) -> str:
    with pytest.raises(ReshapeError) as caught:
        ask()
    return caught.value.reason


def reject_region(directory: Path, name: str, *region: str | int) -> str:
    """Returns the reason why a region is rejected."""
    return catch_reason(lambda: SharedMemory(directory).register(name, Region(*region)))  # type: ignore[arg-type]


def read(regions: SharedMemory, name: str, offset: int, byte_size: int) -> bytes:
    return bytes(regions.read(name, offset, byte_size, FIELD))


def test_bytes_read_from_shared_memory_do_not_change_later(regions: SharedMemory, directory: Path):
    view = regions.read("all", 0, SIZE, FIELD)
    (directory / "seen").write_bytes(bytes(SIZE))
    assert (bytes(view), view.readonly) == (CONTENT, True)


@examples(300)
@given(span=st.tuples(INT64, INT64), size=st.integers(0, SIZE + 2))
@example(span=(10, 20), size=15)
@example(span=(100, 0), size=0)
@example(span=(1, 100), size=100)
@example(span=(0, 101), size=101)
def test_bytes_outside_a_shared_memory_region_are_not_accessed(
    tmp_path_factory: pytest.TempPathFactory, span: tuple[int, int], size: int
):
    folder = tmp_path_factory.getbasetemp()
    (folder / "seen").write_bytes(CONTENT)
    regions = SharedMemory(folder)
    regions.register("part", Region("seen", 1000, 100))
    offset, byte_size = span
    inside = min(offset, byte_size) >= 0 and offset + byte_size <= 100

    if inside:
        assert read(regions, "part", offset, byte_size) == CONTENT[1000 + offset : 1000 + offset + byte_size]
    else:
        assert catch_reason(lambda: read(regions, "part", offset, byte_size)) == Reason.REGION_OUT_OF_RANGE
    data = memoryview(b"\xff" * size)
    if offset >= 0 and offset + size <= 100:
        regions.write("part", offset, data, FIELD)
        written = 1000 + offset
        content = CONTENT[:written] + data + CONTENT[written + size :]
    else:
        content = CONTENT
        assert catch_reason(lambda: regions.write("part", offset, data, FIELD)) == Reason.REGION_OUT_OF_RANGE
    assert (folder / "seen").read_bytes() == content


def replace(make: Callable[[Path, Path], None]) -> Callable[[Path], None]:
    """Replaces a file by something else, which may lead to the hidden file."""

    def change(file: Path) -> None:
        file.unlink()
        make(file, file.parent.parent / "hidden")

    return change


REPLACEMENTS: dict[str, tuple[Callable[[Path], None], Reason]] = {
    "unlinked": (Path.unlink, Reason.REGION_FILE_INVALID),
    "a symbolic link": (replace(Path.symlink_to), Reason.REGION_FILE_INVALID),
    "a hard link": (replace(Path.hardlink_to), Reason.REGION_FILE_INVALID),
    "a pipe": (replace(lambda file, _: os.mkfifo(file)), Reason.REGION_FILE_INVALID),
    "a directory": (replace(lambda file, _: file.mkdir()), Reason.REGION_FILE_INVALID),
    "truncated": (lambda file: os.truncate(file, 1050), Reason.REGION_OUT_OF_RANGE),
}


@pytest.mark.parametrize(("change", "reason"), REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_missing_or_irregular_shared_memory_file_is_rejected(
    directory: Path, change: Callable[[Path], None], reason: Reason
):
    regions = SharedMemory(directory)
    regions.register("all", Region("seen", 0, SIZE))
    change(directory / "seen")
    assert reject_region(directory, "all", "seen", 0, SIZE) == reason
    assert catch_reason(lambda: read(regions, "all", 0, SIZE)) == reason
    assert catch_reason(lambda: regions.write("all", 0, memoryview(bytes(SIZE)), FIELD)) == reason
    assert (directory.parent / "hidden").read_bytes() == CONTENT


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_shared_memory_file_of_another_user_is_rejected(directory: Path):
    os.chown(directory / "seen", 65534, 65534)
    assert reject_region(directory, "all", "seen", 0, SIZE) == Reason.REGION_FILE_INVALID


def test_resized_shared_memory_file_is_read_completely_or_rejected(regions: SharedMemory, directory: Path):
    over = threading.Event()

    def shake() -> None:
        while not over.is_set():
            os.truncate(directory / "seen", 10)
            (directory / "seen").write_bytes(CONTENT)

    thread = threading.Thread(target=shake)
    thread.start()
    lengths = set()
    try:
        for _ in range(2000):
            try:
                lengths.add(len(read(regions, "all", 0, SIZE)))
            except InvalidRequestError:
                lengths.add(0)
    finally:
        over.set()
        thread.join()
    assert lengths <= {0, SIZE}


def test_shared_memory_key_with_a_path_is_rejected(directory: Path):
    keys = ["", "/", ".", "..", "../hidden", "/../hidden", "//seen", "regions/seen", "seen/", "se\0en", "x" * 256]
    keys.append(str(directory / "seen"))
    assert {key: reject_region(directory, "all", key, 0, SIZE) for key in keys} == dict.fromkeys(
        keys, Reason.REGION_INVALID
    )


def test_shared_memory_region_must_lie_within_its_file(directory: Path):
    for name in ("", "x" * (MAX_NAME_BYTES + 1), "\u00e9" * 128):
        assert reject_region(directory, name, "seen", 0, SIZE) == Reason.REGION_INVALID
    for span in ((0, SIZE + 1), (1, SIZE), (SIZE, 1), (2**63, 1), (0, 2**64 - 1)):
        assert reject_region(directory, "all", "seen", *span) == Reason.REGION_OUT_OF_RANGE, span
    assert reject_region(directory, "none", "seen", 0, 0) == Reason.REGION_INVALID


def test_shared_memory_region_name_can_be_registered_only_once(regions: SharedMemory):
    again = Region("seen", 0, 10)
    assert catch_reason(lambda: regions.register("all", again)) == Reason.REGION_INVALID
    regions.unregister("all")
    regions.register("all", again)
    assert regions.list_regions("all") == {"all": again}


@pytest.mark.parametrize("place", ["directory", "parent"])
def test_shared_memory_directory_replaced_by_a_link_is_not_followed(tmp_path: Path, place: str):
    directory = tmp_path / "parent" / "directory"
    directory.mkdir(parents=True)
    regions = SharedMemory(directory)
    (directory / "seen").write_bytes(b"seen")
    regions.register("one", Region("seen", 0, 4))
    (tmp_path / "others" / "directory").mkdir(parents=True)
    for secret in (tmp_path / "others", tmp_path / "others" / "directory"):
        (secret / "seen").write_bytes(b"hide")
    replaced = directory if place == "directory" else directory.parent
    replaced.rename(tmp_path / "old")
    replaced.symlink_to(tmp_path / "others", target_is_directory=True)
    assert read(regions, "one", 0, 4) == b"seen"


def test_shared_memory_regions_are_unregistered_individually_or_all(regions: SharedMemory):
    assert list(regions.list_regions("")) == ["all", "part"]
    regions.unregister("part")
    regions.unregister("part")  # a second time changes nothing
    assert catch_reason(lambda: read(regions, "part", 0, 1)) == Reason.REGION_UNKNOWN
    assert catch_reason(lambda: regions.list_regions("part")) == Reason.REGION_UNKNOWN
    assert list(regions.list_regions("")) == ["all"]
    regions.unregister("")
    assert regions.list_regions("") == {}


def test_number_of_shared_memory_regions_is_limited(directory: Path):
    regions, region = SharedMemory(directory), Region("seen", 0, SIZE)
    for index in range(MAX_REGIONS):
        regions.register(f"region {index}", region)
    with pytest.raises(LimitError) as caught:
        regions.register("one more", region)
    assert caught.value.reason == Reason.REGION_LIMIT_EXCEEDED
    regions.unregister("region 0")
    regions.register("one more", region)


def test_shared_memory_leaves_no_file_descriptor_open(regions: SharedMemory, directory: Path):
    read(regions, "all", 0, SIZE)
    regions.write("all", 0, memoryview(CONTENT), FIELD)
    assert [name for name in read_descriptors(os.getpid()).values() if name.startswith(f"{directory}/")] == []


def test_shared_memory_is_rejected_without_a_configured_directory():
    regions = SharedMemory(None)
    for ask in (
        lambda: regions.register("all", Region("seen", 0, SIZE)),
        lambda: regions.unregister("all"),
        lambda: regions.list_regions(""),
        lambda: regions.read("all", 0, 1, FIELD),
        lambda: regions.write("all", 0, memoryview(b"x"), FIELD),
    ):
        assert catch_reason(ask) == Reason.SHARED_MEMORY_DISABLED


def test_shared_memory_error_does_not_reveal_the_directory(regions: SharedMemory, directory: Path):
    (directory / "seen").unlink()
    with pytest.raises(InvalidRequestError) as caught:
        read(regions, "all", 0, 1)
    assert str(caught.value) == "the file of the region 'all' cannot be used: No such file or directory"
    assert caught.value.field == FIELD


def test_unusable_shared_memory_directory_raises_an_error(tmp_path: Path):
    gone = tmp_path / "gone"
    with pytest.raises(ConfigError, match=f"^cannot open --shared-memory-dir {gone}: No such file or directory$"):
        Runner(Config(listen=("127.0.0.1:0",), shared_memory_dir=gone))
