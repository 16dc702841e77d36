"""The sums of docs/deployment/sizing.md are those of the memory by which the tests judge the manifests."""

import math
import re
from pathlib import Path

import pytest

from deployment_files import Memory
from tensor_reshape.server.config import Config, find_least_budget

ROOT = Path(__file__).parents[2]
WORDS = " ".join((ROOT / "docs/deployment/sizing.md").read_text().split())
MIB = 2**20


def build_default(workers: int) -> Config:
    """Returns the default configuration with this number of workers on a large machine."""
    least = find_least_budget(Config().max_message_bytes, 2 * workers)
    return Config(workers=workers, memory_budget_bytes=max(Config().memory_budget_bytes, least))


def write_sum(config: Config) -> str:
    memory = Memory(config)
    return f"{memory}, or {math.ceil(memory.sum / 2**30 * 10) / 10} GiB"


@pytest.mark.parametrize("workers", [1, 2, 4, 16])
def test_sizing_page_has_the_sum_of_default_servers(workers: int):
    assert f"| {workers} | {write_sum(build_default(workers))} |" in WORDS


def test_faq_has_the_sum_of_a_default_server():
    (size,) = re.findall(r"or (\S+ GiB)", write_sum(build_default(1)))
    assert f"default settings and one worker, a server needs about {size}." in (ROOT / "docs/faq.md").read_text()


@pytest.mark.parametrize("max_calls", [2048, 256])
def test_sizing_page_has_the_sum_of_its_example(max_calls: int):
    example = Config(max_message_bytes=65600 * 1024, memory_budget_bytes=525 * MIB, max_calls=max_calls)
    assert write_sum(example) in WORDS


def test_sizing_page_names_the_workers_that_raise_the_default_budget():
    budgets = {workers: build_default(workers).memory_budget_bytes for workers in (7, 8)}
    assert budgets[7] == Config().memory_budget_bytes < budgets[8]
    assert "From eight workers on, the default budget grows" in WORDS


def test_container_of_the_server_page_has_the_memory_of_its_workers():
    page = " ".join((ROOT / "docs/deployment/server.md").read_text().split())
    limit = Memory(build_default(2)).limit // MIB
    assert f"`--cpus 2` starts [two workers](#use-several-processes), which need `--memory {limit}m`" in page
    assert "TENSOR_RESHAPE_WORKERS=auto" in (ROOT / "Dockerfile").read_text()
