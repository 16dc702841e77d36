"""The plan of `scripts/verify installs`, and the requirements that it reads from a wheel."""

from importlib.metadata import distribution

from verification.installs import ALL, CLIENT, Case, plan, read_requirements


def test_each_installation_is_tried_with_each_age_of_the_dependencies():
    cases = plan(["3.11", "3.12"], [CLIENT, "onnx"], ["newest", "oldest"], [])
    assert len(set(cases)) == len(cases) == 8
    assert Case("3.12", "onnx", "oldest") in cases


def test_each_neighbour_is_installed_before_and_after():
    assert plan(["3.11"], [], ["newest", "oldest"], ["kserve"]) == [
        Case("3.11", ALL, "newest", "kserve", "before"),
        Case("3.11", ALL, "newest", "kserve", "after"),
    ]


def test_requirements_of_a_wheel_have_those_of_included_extras():
    wheel = distribution("tensor-reshape")
    client, http = (set(read_requirements(wheel, extras)) for extras in ((), ("http",)))
    assert {one.partition("<")[0] for one in http - client} == {
        "httptools",
        "prometheus-client",
        "python-json-logger",
        "uvicorn",
    }
