"""The tokens that callers may show, and the file that holds them."""

import hashlib
from pathlib import Path

import pytest

from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.security.tokens import MAX_TOKENS, MIN_TOKEN_CHARACTERS, Tokens

OLD, NEW, OTHER = ("a" * 40, "b" * 39 + "=", "-._~+/" * 8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def read(path: Path, *lines: str) -> Tokens:
    path.write_text("\n".join(lines))
    return Tokens(path)


def find(tokens: Tokens, *values: str | bytes) -> str:
    return tokens.find_identity(values)


def test_a_token_says_whose_it_is(path: Path):
    tokens = read(path, "# those of the cluster", "", f"web:{OLD}", f"  ci:{OTHER}  ")
    assert find(tokens, f"Bearer {OLD}") == "token:web"
    assert find(tokens, f"bearer {OTHER}") == "token:ci"


def test_a_hash_stands_for_its_token(path: Path):
    tokens = read(path, f"web:sha256:{hash_token(OLD)}", f"ci:sha256:{hash_token(OTHER).upper()}")
    assert (find(tokens, f"Bearer {OLD}"), find(tokens, f"Bearer {OTHER}")) == ("token:web", "token:ci")
    assert find(tokens, f"Bearer sha256:{hash_token(OLD)}") == find(tokens, f"Bearer {hash_token(OLD)}") == ""


def test_a_name_may_have_several_tokens(path: Path):
    tokens = read(path, f"web:{OLD}", f"web:{NEW}")
    assert find(tokens, f"Bearer {OLD}") == find(tokens, f"Bearer {NEW}") == "token:web"


@pytest.mark.parametrize(
    "values",
    [
        (),
        ("",),
        ("Bearer",),
        ("Bearer ",),
        ("Bearer  " + OLD,),
        ("Bearer " + OLD + " ",),
        ("Bearer " + OLD[:-1],),
        ("Bearer " + OLD + "a",),
        ("Bearer " + OLD.upper(),),
        ("Basic " + OLD,),
        (OLD,),
        (b"Bearer " + OLD.encode(),),
        ("Bearer " + OLD, "Bearer " + OLD),
        ("Bearer " + "a" * 100_000,),
        ("Bearer " + "\u00e9" * 40,),
    ],
    ids=lambda values: repr(values)[:40],
)
def test_nothing_else_is_anybodys_token(values: tuple[str | bytes, ...], path: Path):
    assert find(read(path, f"web:{OLD}"), *values) == ""


@pytest.mark.parametrize(
    "line",
    [
        OLD,
        f":{OLD}",
        "web:",
        f"two words:{OLD}",
        f"{'a' * 65}:{OLD}",
        f"web:{OLD[: MIN_TOKEN_CHARACTERS - 1]}",
        f"web:{OLD} {OLD}",
        f"web:{OLD}:{OLD}",
        f"web:{'a' * 10_000}",
        "web:sha256:",
        f"web:sha256:{hash_token(OLD)[1:]}",
        f"web:sha256:{hash_token(OLD)[1:]}g",
        f"web:sha256:{hash_token('')}",
        f"web:sha1:{hash_token(OLD)}",
    ],
    ids=lambda line: line[:30],
)
def test_a_line_that_is_none_is_refused_by_its_number_and_not_shown(line: str, path: Path):
    with pytest.raises(ConfigError, match=f"{path}:2 ") as caught:
        read(path, f"ci:{OTHER}", line)
    assert OLD[:20] not in str(caught.value)
    assert hash_token(OLD)[1:20] not in str(caught.value)


@pytest.mark.parametrize("lines", [(), ("# none",), tuple(f"web:{number:040}" for number in range(MAX_TOKENS + 1))])
def test_a_file_with_no_tokens_or_too_many_is_refused(lines: tuple[str, ...], path: Path):
    with pytest.raises(ConfigError, match=f"from 1 to {MAX_TOKENS}"):
        read(path, *lines)


def test_a_token_of_two_names_is_refused(path: Path):
    with pytest.raises(ConfigError, match="one token twice"):
        read(path, f"web:{OLD}", f"ci:sha256:{hash_token(OLD)}")


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_file_that_cannot_be_read_is_refused(content: bytes | None, path: Path):
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=str(path)):
        Tokens(path)


def test_a_token_that_is_taken_out_of_the_file_is_nobodys(path: Path):
    tokens = read(path, f"web:{OLD}", f"web:{NEW}")
    path.write_text(f"web:{NEW}\n")
    tokens.look()
    assert (find(tokens, f"Bearer {OLD}"), find(tokens, f"Bearer {NEW}")) == ("", "token:web")


def test_all_tokens_are_compared_whichever_fits(path: Path, monkeypatch: pytest.MonkeyPatch):
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return one == other

    tokens = read(path, *(f"web:{number:040}" for number in range(5)))
    monkeypatch.setattr("tensor_reshape.server.security.tokens.hmac.compare_digest", compare)
    for shown in (f"Bearer {0:040}", f"Bearer {4:040}", "Bearer nobody"):
        compared.clear()
        tokens.find_identity([shown])
        assert len(compared) == 5
