"""A name server with one name whose addresses change, like those of a headless Service."""

import socketserver
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

import dns.flags
import dns.message
import dns.rdatatype
import dns.rrset

NAME = "reshape.test"
_PORT = 53
_TTL_SECONDS = 1


class NameServer(socketserver.UDPServer):
    """Responds with the IPv4 addresses of `NAME`. For all other requests, the response is empty.

    Attributes:
        hosts: the addresses. Any thread may replace the whole list.
        questions: number of requests for these addresses.
    """

    allow_reuse_address = True

    def __init__(self, address: str, hosts: Sequence[str]) -> None:
        self.hosts = tuple(hosts)
        self.questions = 0
        super().__init__((address, _PORT), _Question)


class _Question(socketserver.BaseRequestHandler):
    server: NameServer

    def handle(self) -> None:
        query, socket = self.request
        question = dns.message.from_wire(query)
        answer = dns.message.make_response(question, recursion_available=True)
        (asked,) = question.question
        hosts = self.server.hosts
        if asked.rdtype == dns.rdatatype.A and asked.name.to_text(omit_final_dot=True) == NAME and hosts:
            self.server.questions += 1
            answer.answer.append(dns.rrset.from_text_list(asked.name, _TTL_SECONDS, "IN", "A", hosts))
        socket.sendto(answer.to_wire(), self.client_address)


@contextmanager
def run_name_server(address: str, hosts: Sequence[str]) -> Iterator[NameServer]:
    with NameServer(address, hosts) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
