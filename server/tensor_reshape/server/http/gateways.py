"""The gateway of a server: its port for HTTP, with the methods and the explorer, joined to its calls."""

import ssl
from collections.abc import Callable

from tensor_reshape.runtime.addresses import is_local
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.http.apps import build_app
from tensor_reshape.server.http.calls import CallAsker
from tensor_reshape.server.http.explorer.pages import build_routes
from tensor_reshape.server.http.json_methods import build_json_methods
from tensor_reshape.server.http.ports import HttpPort
from tensor_reshape.server.http.requests import LOCAL_HOSTS
from tensor_reshape.server.process.pools import Pool
from tensor_reshape.server.service.works import WORK_THREADS, Work

_KINDS = (Work.QUESTIONS, Work.BATCHES)


class Gateway:
    """Serves methods of a server over HTTP.

    Attributes:
        port: where.
    """

    def __init__(
        self,
        config: Config,
        service: Service,
        *,
        is_serving: Callable[[], bool],
        find_context: Callable[[], ssl.SSLContext | None],
        shares: bool,
    ) -> None:
        """Binds the address of `config`, which has one.

        Args:
            config: of the server, with its real ports.
            service: of the server.
            is_serving: whether it is to be sent calls.
            find_context: returns what TLS is served with now; None: plain text.
            shares: whether other processes listen on the same port.

        Raises:
            ConfigError: the address cannot be bound, or there is no room for the threads.
        """
        address = config.http_listen or ""
        self._pools = {work: Pool(WORK_THREADS[work], f"http-{work.name.lower()}") for work in _KINDS}
        ask = CallAsker(service, self._pools)
        app = build_app(
            ask,
            build_json_methods(service.answers),
            is_serving=is_serving,
            tells_contract=config.reflects and not config.authenticates,  # whoever asks says not who he is
            hosts=LOCAL_HOSTS | {address.rpartition(":")[0].lower()} if is_local(address) else (),
            routes=build_routes(ask, service.answers, config.listen),
        )
        self.port = HttpPort(config, address, app, find_context, shares=shares)

    def end(self) -> None:
        """Ends all that is under way."""
        self.port.end()
        for pool in self._pools.values():
            pool.shutdown(wait=False)  # what no call waits for any more may take long
