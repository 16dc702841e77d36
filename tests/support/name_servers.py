"""A name server that knows one name, whose addresses change, as those of a headless Service do."""

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
    """Answers with the IPv4 addresses of `NAME`; whatever else it is asked for is there, and empty.

    Attributes:
        hosts: the addresses; replaced as a whole, so that any thread may do so.
        questions: how often these were asked for.
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
