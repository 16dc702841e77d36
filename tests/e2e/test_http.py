"""A server that speaks HTTP beside gRPC, as users run it: TLS, tokens, workers, stopping, and what operators see."""

import json
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from certificates import Certificates, issue_certificates, replace_file, write_certificate
from collectors import read_attributes, run_collector
from http_calls import connect, find_http, post, read_answer, receive_all, request, write_request
from json_bodies import ANSWER, BATCH_PATH, INFER_PATH, QUESTION, write_json
from scrapes import await_scrape, find_metrics
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, ShapeQuery
from tensor_reshape.rules.errors import Reason

ANY = "127.0.0.1:0"
BATCH, VIEWER, UNKNOWN = "batch-" * 8, "viewer-" * 8, "nobody-" * 8
SERVICE = "/tensor_reshape.v1.ReshapeService"


@pytest.fixture(scope="module")
def both(serving: str, start_for_file: Callable[..., ServerProcess]) -> ServerProcess:
    """A server that speaks both."""
    return start_for_file("--serving", serving, "--http-listen", ANY, "--metrics-listen", ANY, "--access-log", "1")


def test_the_same_question_has_the_same_answer(both: ServerProcess):
    with Client(both.address) as client:
        answer = client.infer_shape([2, "N"], [-1], special_zero=True)
        (result,) = client.infer_shapes([ShapeQuery(data_shape=[2, "N"], shape=[-1], special_zero=True)])
    assert [str(dim) for dim in answer.dims or ()] == ["2*N"]
    assert post(find_http(both)).document == ANSWER
    assert post(find_http(both), {"items": [{"question": QUESTION}]}, BATCH_PATH).document["results"] == [
        {"answer": ANSWER}
    ]
    assert result


def test_a_call_is_counted_and_logged_as_one_of_grpc(both: ServerProcess):
    reply = post(find_http(both), {**QUESTION, "shape": {"dims": [{"value": -2}]}}, headers={"x-request-id": "counted"})
    assert reply.reason == Reason.INVALID_TARGET_VALUE
    (line,) = both.await_records(1, "refused", request_id="counted")
    assert (line["method"], line["code"], line["field"]) == (INFER_PATH, "INVALID_ARGUMENT", "shape[0]")
    (line,) = both.await_records(1, "call", request_id="counted")
    assert line["request_bytes"] > 0
    service, method = INFER_PATH[1:].split("/")
    labels = {"service": service, "method": method, "code": "INVALID_ARGUMENT"}
    await_scrape(find_metrics(both), lambda page: page.find("tensor_reshape_calls_total", **labels) >= 1)


def test_its_connections_are_counted_with_those_of_grpc(both: ServerProcess):
    def hold(count: int) -> None:
        await_scrape(find_metrics(both), lambda page: page.find("tensor_reshape_connections") == count)

    hold(0)
    with connect(find_http(both)), connect(find_http(both)):
        hold(2)
    hold(0)


def test_two_workers_share_the_port_and_end_with_the_server():
    with run_server("--workers", "2", "--http-listen", ANY, "--access-log", "1") as server:
        address = find_http(server)
        workers = set[int]()
        for number in range(200):
            assert post(address, headers={"x-request-id": f"call-{number}"}).document == ANSWER
            (line,) = server.await_records(1, "call", request_id=f"call-{number}")
            workers.add(line["worker"])
            if len(workers) == 2:
                break
        assert len(workers) == 2
        assert server.stop() == 0
    with pytest.raises(ConnectionRefusedError):
        connect(address)


def test_a_server_that_stops_says_so_and_answers_what_is_under_way():
    with run_server("--http-listen", ANY, "--drain-seconds", "60") as server:
        address = find_http(server)
        with connect(address) as busy, connect(address) as idle:
            body = write_json(QUESTION)
            busy.sendall(write_request(body[:10], length=len(body)))
            server.process.send_signal(signal.SIGTERM)
            server.await_records(1, "stopping")
            while request(address, "GET", "/healthz").code == 200:
                pass
            assert post(address).code == 200  # who balances the load may not know yet
            busy.sendall(body[10:])
            assert read_answer(busy) == (200, json.dumps(ANSWER, separators=(",", ":")).encode())
            server.process.send_signal(signal.SIGTERM)
            assert receive_all(idle) == b""
        assert server.wait() == 0


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return issue_certificates(tmp_path_factory.mktemp("certificates"))


def write_tls(files: Certificates, *flags: str) -> list[str]:
    return ["--tls-certificate", str(files.server), "--tls-key", str(files.server_key), *flags]


def trust(files: Certificates, *, shows: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(files.authority))
    if shows:
        context.load_cert_chain(files.client, files.client_key)
    return context


def find_named(server: ServerProcess) -> str:
    return find_http(server).replace("127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def guarded(files: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that asks for tokens, and permits each something else."""
    directory = tmp_path_factory.mktemp("guarded")
    (directory / "tokens").write_text(f"batch:{BATCH}\nviewer:{VIEWER}\n")
    (directory / "permitted.toml").write_text(
        f'[callers]\n"token:batch" = ["*"]\n"token:viewer" = ["{SERVICE}/InferShape"]\n'
    )
    access = ["--token-file", str(directory / "tokens"), "--authorization-file", str(directory / "permitted.toml")]
    with run_server(*write_tls(files, *access), "--http-listen", ANY, "--log-level", "debug") as server:
        yield server
        server.stop()
        log = "".join(map(str, server.records))
        assert all(token not in log for token in (BATCH, VIEWER, UNKNOWN))


@pytest.mark.parametrize(
    ("token", "path", "code"),
    [
        (BATCH, INFER_PATH, 200), (BATCH, BATCH_PATH, 200), (VIEWER, INFER_PATH, 200), (VIEWER, BATCH_PATH, 403),
        (UNKNOWN, INFER_PATH, 401), ("", INFER_PATH, 401),
    ],
)  # fmt: skip
def test_who_shows_a_token_may_call_what_it_permits(
    guarded: ServerProcess, files: Certificates, token: str, path: str, code: int
):
    headers = {"authorization": f"Bearer {token}"} if token else {}
    document = QUESTION if path == INFER_PATH else {"items": []}
    reply = post(find_named(guarded), document, path, headers, context=trust(files))
    assert reply.code == code
    assert ("www-authenticate" in reply.headers) == (code == 401)


def test_health_is_open_to_all(guarded: ServerProcess, files: Certificates):
    assert request(find_named(guarded), "GET", "/healthz", context=trust(files)).code == 200


def test_certificates_are_demanded_read_and_replaced(tmp_path: Path):
    authority = trustme.CA()
    files = issue_certificates(tmp_path, authority)
    demands = ("--tls-client-ca", str(files.authority), "--allow-identity", "email:*@example.org")
    with run_server(*write_tls(files, *demands), "--http-listen", ANY, "--access-log", "1") as server:
        address = find_named(server)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            post(address, context=trust(files))
        shown = trust(files, shows=True)
        assert post(address, headers={"x-request-id": "known"}, context=shown).document == ANSWER
        (line,) = server.await_records(1, "call", request_id="known")
        assert line["identity"] == "email:client@example.org"

        other = trustme.CA()
        write_certificate(other.issue_cert("localhost"), tmp_path / "new", tmp_path / "new-key")
        replace_file(files.server_key, (tmp_path / "new-key").read_bytes())
        replace_file(files.server, (tmp_path / "new").read_bytes())
        server.await_records(1, "reloaded")
        other.cert_pem.write_to_path(str(tmp_path / "other-ca.pem"))
        changed = ssl.create_default_context(cafile=str(tmp_path / "other-ca.pem"))
        changed.load_cert_chain(files.client, files.client_key)
        assert post(address, context=changed).document == ANSWER


def test_a_call_over_http_is_a_span_in_the_trace_of_its_caller():
    trace = "0af7651916cd43dd8448eb211c80319c"
    with run_collector() as collector, run_server("--tracing", "--http-listen", ANY, env=collector.variables) as server:
        post(find_http(server), headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01", "x-request-id": "traced"})
        (span,) = collector.await_spans(1)
    assert (span.name, span.trace_id.hex()) == ("tensor_reshape.v1.ReshapeService/InferShape", trace)
    assert read_attributes(span)["tensor_reshape.request_id"] == "traced"
