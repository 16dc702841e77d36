"""Whatever strangers do to the files of regions, a reader gets whole bytes or a refusal."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    """A directory with one file, `seen`, beside one that is not to be reached, `hidden`."""
    (tmp_path / "hidden").write_bytes(CONTENT)
    folder = tmp_path / "regions"
    folder.mkdir()
    (folder / "seen").write_bytes(CONTENT)
    return folder


@pytest.fixture
def regions(directory: Path) -> SharedMemory:
    """A region `all` of the whole file, and one `part` in its midst."""
    made = SharedMemory(directory)
    made.register("all", Region("/seen", 0, SIZE))
    made.register("part", Region("seen", 1000, 100))
    return made


def catch_reason(ask: Callable[[], object]) -> str:
    with pytest.raises(ReshapeError) as caught:
        ask()
    return caught.value.reason


def register(regions: SharedMemory, name: str, region: Region) -> Callable[[], None]:
    return lambda: regions.register(name, region)


def read(regions: SharedMemory, name: str, offset: int, byte_size: int) -> bytes:
    return bytes(regions.read(name, offset, byte_size, FIELD))


def test_a_span_is_part_of_a_region_and_a_region_part_of_a_file(regions: SharedMemory):
    assert read(regions, "part", 10, 20) == CONTENT[1010:1030]


def test_what_was_read_does_not_change_with_the_file(regions: SharedMemory, directory: Path):
    view = regions.read("all", 0, SIZE, FIELD)
    (directory / "seen").write_bytes(bytes(SIZE))
    assert (bytes(view), view.readonly) == (CONTENT, True)


def test_an_empty_span_is_empty(regions: SharedMemory):
    assert read(regions, "part", 100, 0) == b""


def test_what_is_written_changes_nothing_beside_it(regions: SharedMemory, directory: Path):
    regions.write("part", 10, memoryview(b"x" * 15), FIELD)
    assert (directory / "seen").read_bytes() == CONTENT[:1010] + b"x" * 15 + CONTENT[1025:]


@settings(max_examples=300, deadline=None)
@given(span=st.tuples(INT64, INT64), size=st.integers(0, SIZE + 2))
def test_nothing_beyond_a_region_is_read_or_written(
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
    else:
        refused = catch_reason(lambda: regions.write("part", offset, data, FIELD))
        assert refused == Reason.REGION_OUT_OF_RANGE
    content = (folder / "seen").read_bytes()
    assert (content[:1000], content[1100:]) == (CONTENT[:1000], CONTENT[1100:])


def replace_by_symlink(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.parent.parent / "hidden")


def replace_by_hard_link(file: Path) -> None:
    file.unlink()
    file.hardlink_to(file.parent.parent / "hidden")


def replace_by_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def replace_by_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def truncate(file: Path) -> None:
    os.truncate(file, 1050)


REPLACEMENTS = {
    "unlinked": (Path.unlink, Reason.REGION_UNUSABLE),
    "a symbolic link": (replace_by_symlink, Reason.REGION_UNUSABLE),
    "a hard link": (replace_by_hard_link, Reason.REGION_UNUSABLE),
    "a pipe": (replace_by_pipe, Reason.REGION_UNUSABLE),
    "a directory": (replace_by_directory, Reason.REGION_UNUSABLE),
    "truncated": (truncate, Reason.REGION_OUT_OF_RANGE),
}


@pytest.mark.parametrize(("replace", "reason"), REPLACEMENTS.values(), ids=REPLACEMENTS)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_file_that_is_not_plain_or_not_there_is_refused(
    directory: Path, replace: Callable[[Path], None], reason: Reason, moment: str
):
    regions = SharedMemory(directory)
    if moment == "before":
        replace(directory / "seen")
        assert catch_reason(lambda: regions.register("all", Region("seen", 0, SIZE))) == reason
        return
    regions.register("all", Region("seen", 0, SIZE))
    replace(directory / "seen")
    assert catch_reason(lambda: read(regions, "all", 0, SIZE)) == reason
    data = memoryview(bytes(SIZE))
    assert catch_reason(lambda: regions.write("all", 0, data, FIELD)) == reason
    assert (directory.parent / "hidden").read_bytes() == CONTENT


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_of_another_user_is_refused(directory: Path):
    os.chown(directory / "seen", 65534, 65534)
    attempt = register(SharedMemory(directory), "all", Region("seen", 0, SIZE))
    assert catch_reason(attempt) == Reason.REGION_UNUSABLE


def test_a_file_that_shrinks_and_grows_all_the_time_is_read_whole_or_refused(regions: SharedMemory, directory: Path):
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


@pytest.mark.parametrize(
    "key", ["", "/", ".", "..", "../hidden", "/../hidden", "//seen", "regions/seen", "seen/", "se\0en", "x" * 256]
)
def test_a_key_is_the_name_of_a_file_in_the_directory(directory: Path, key: str):
    attempt = register(SharedMemory(directory), "all", Region(key, 0, SIZE))
    assert catch_reason(attempt) == Reason.REGION_INVALID


def test_an_absolute_path_is_no_key(directory: Path):
    region = Region(str(directory / "seen"), 0, SIZE)
    assert catch_reason(lambda: SharedMemory(directory).register("all", region)) == Reason.REGION_INVALID


@pytest.mark.parametrize("name", ["", "x" * (MAX_NAME_BYTES + 1), "\u00e9" * 128])
def test_a_name_is_short(directory: Path, name: str):
    attempt = register(SharedMemory(directory), name, Region("seen", 0, SIZE))
    assert catch_reason(attempt) == Reason.REGION_INVALID


@pytest.mark.parametrize(("offset", "byte_size"), [(0, SIZE + 1), (1, SIZE), (SIZE, 1), (2**63, 1), (0, 2**64 - 1)])
def test_a_region_is_part_of_its_file(directory: Path, offset: int, byte_size: int):
    attempt = register(SharedMemory(directory), "all", Region("seen", offset, byte_size))
    assert catch_reason(attempt) == Reason.REGION_OUT_OF_RANGE


def test_no_region_is_empty(directory: Path):
    attempt = register(SharedMemory(directory), "none", Region("seen", 0, 0))
    assert catch_reason(attempt) == Reason.REGION_INVALID


def test_a_name_is_registered_once_until_it_is_unregistered(regions: SharedMemory):
    again = register(regions, "all", Region("seen", 0, 10))
    assert catch_reason(again) == Reason.REGION_INVALID
    regions.unregister("all")
    again()
    assert regions.list_regions("all") == {"all": Region("seen", 0, 10)}


@pytest.mark.parametrize("place", ["directory", "parent"])
def test_nothing_is_served_of_what_takes_the_place_of_the_directory(tmp_path: Path, place: str):
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


def test_all_are_listed_and_unregistered_together(regions: SharedMemory):
    assert list(regions.list_regions("")) == ["all", "part"]
    regions.unregister("")
    assert regions.list_regions("") == {}


def test_what_is_not_registered_is_unknown(regions: SharedMemory):
    regions.unregister("part")
    regions.unregister("part")  # twice is no mistake
    assert catch_reason(lambda: read(regions, "part", 0, 1)) == Reason.REGION_UNKNOWN
    assert catch_reason(lambda: regions.list_regions("part")) == Reason.REGION_UNKNOWN


def test_there_are_so_many_regions_and_no_more(directory: Path):
    regions = SharedMemory(directory)
    for index in range(MAX_REGIONS):
        regions.register(f"region {index}", Region("seen", 0, SIZE))
    one_more = register(regions, "one more", Region("seen", 0, SIZE))
    with pytest.raises(LimitError) as caught:
        one_more()
    assert caught.value.reason == Reason.REGION_LIMIT_EXCEEDED
    regions.unregister("region 0")
    one_more()


def test_no_descriptor_stays_open(regions: SharedMemory):
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    read(regions, "all", 0, SIZE)
    regions.write("all", 0, memoryview(CONTENT), FIELD)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize(
    "ask",
    [
        lambda regions: regions.register("all", Region("seen", 0, SIZE)),
        lambda regions: regions.unregister("all"),
        lambda regions: regions.list_regions(""),
        lambda regions: regions.read("all", 0, 1, FIELD),
        lambda regions: regions.write("all", 0, memoryview(b"x"), FIELD),
    ],
)
def test_without_a_directory_there_is_no_shared_memory(ask: Callable[[SharedMemory], object]):
    assert catch_reason(lambda: ask(SharedMemory(None))) == Reason.SHARED_MEMORY_DISABLED


def test_a_refusal_says_nothing_of_the_directory(regions: SharedMemory, directory: Path):
    (directory / "seen").unlink()
    with pytest.raises(InvalidRequestError) as caught:
        read(regions, "all", 0, 1)
    assert str(caught.value) == "the file of the region 'all' cannot be used: No such file or directory"
    assert caught.value.field == FIELD


def test_a_directory_that_cannot_be_opened_is_a_fault_of_the_configuration(tmp_path: Path):
    gone = tmp_path / "gone"
    with pytest.raises(ConfigError, match=f"^cannot open --shared-memory-dir {gone}: No such file or directory$"):
        Runner(Config(listen=("127.0.0.1:0",), shared_memory_dir=gone))
