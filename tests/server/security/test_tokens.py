"""The tokens of callers, and their file."""

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


def test_bearer_token_has_the_identity_of_its_file_line(path: Path):
    tokens = read(path, "# those of the cluster", "", f"web:{OLD}", f"  ci:{OTHER}  ")
    assert find(tokens, f"Bearer {OLD}") == "token:web"
    assert find(tokens, f"bearer {OTHER}") == "token:ci"


def test_bearer_token_matches_its_hash_in_the_file(path: Path):
    tokens = read(path, f"web:sha256:{hash_token(OLD)}", f"ci:sha256:{hash_token(OTHER).upper()}")
    assert (find(tokens, f"Bearer {OLD}"), find(tokens, f"Bearer {OTHER}")) == ("token:web", "token:ci")
    assert find(tokens, f"Bearer sha256:{hash_token(OLD)}") == find(tokens, f"Bearer {hash_token(OLD)}") == ""


def test_identity_may_have_several_tokens(path: Path):
    tokens = read(path, f"web:{OLD}", f"web:{NEW}")
    assert find(tokens, f"Bearer {OLD}") == find(tokens, f"Bearer {NEW}") == "token:web"


def test_invalid_authorization_headers_give_no_identity(path: Path):
    tokens = read(path, f"web:{OLD}")
    rows: list[tuple[str | bytes, ...]] = [
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
    ]
    assert [values for values in rows if find(tokens, *values) != ""] == []


def test_malformed_token_line_error_hides_the_line_text(path: Path):
    for line in (
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
    ):
        with pytest.raises(ConfigError, match=f"{path}:2 ") as caught:
            pytest.fail(f"{line} is {read(path, f'ci:{OTHER}', line)}")
        assert OLD[:20] not in str(caught.value)
        assert hash_token(OLD)[1:20] not in str(caught.value)


def test_number_of_tokens_in_a_file_is_limited(path: Path):
    for lines in ((), ("# none",), tuple(f"web:{number:040}" for number in range(MAX_TOKENS + 1))):
        with pytest.raises(ConfigError, match=f"must have 1 to {MAX_TOKENS}"):
            read(path, *lines)


def test_token_assigned_to_two_identities_is_rejected(path: Path):
    with pytest.raises(ConfigError, match="the same token twice"):
        read(path, f"web:{OLD}", f"ci:sha256:{hash_token(OLD)}")


def test_unreadable_token_file_is_rejected(path: Path):
    with pytest.raises(ConfigError, match=str(path)):
        Tokens(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=str(path)):
        Tokens(path)


def test_each_call_compares_its_token_with_all_tokens(path: Path, monkeypatch: pytest.MonkeyPatch):
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
