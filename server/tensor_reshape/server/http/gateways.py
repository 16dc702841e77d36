"""The HTTP gateway of a server, which serves methods and the shape explorer.

HTTP calls and gRPC calls share the same limits.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from starlette.routing import BaseRoute

from tensor_reshape.runtime.addresses import is_local
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.http.apps import build_app, build_health_route, build_method_routes, build_openapi_route
from tensor_reshape.server.http.calls import serve_call
from tensor_reshape.server.http.connections import FindContext
from tensor_reshape.server.http.explorer.pages import build_routes as build_explorer_routes
from tensor_reshape.server.http.json_methods import build_json_methods
from tensor_reshape.server.http.ports import HttpPort
from tensor_reshape.server.http.requests import LOCAL_HOSTS
from tensor_reshape.server.process.pools import Pool
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.server.service.works import WORK_THREADS, Work

BuildRoutes = Callable[..., list[BaseRoute]]
"""Function that returns the routes of another protocol. Its argument is `serve_call` of this server."""


class Gateway:
    """Serves methods of a server over HTTP.

    Attributes:
        port: the HTTP port.
    """

    def __init__(  # noqa: PLR0913 - each argument has its name
        self,
        config: Config,
        service: Service,
        reshapes: ReshapeService,
        *,
        is_serving: Callable[[], bool],
        find_context: FindContext | None,
        shares: bool,
        build_routes: BuildRoutes,
    ) -> None:
        """Binds the HTTP address of `config`, which must be set.

        Args:
            config: the server's settings, with the ports that are bound.
            service: the service whose admission control (engine) also admits the gRPC calls.
            reshapes: the implementation of the methods.
            is_serving: function that returns whether the server is ready for calls.
            find_context: function that returns the TLS context, or None for plain text.
            shares: whether other processes listen on the same port.
            build_routes: returns the routes of another protocol.

        Raises:
            ConfigError: the address cannot be bound, or the system has no memory for threads.
        """
        address = config.http_listen or ""
        self._pools = {work: Pool(WORK_THREADS[work], f"http-{work.name.lower()}") for work in Work}
        serve = partial(serve_call, replace(service, pools=self._pools))
        routes = [
            *build_method_routes(serve, build_json_methods(reshapes), reshapes.methods.unary),
            build_health_route(is_serving),
            *build_routes(serve),
            *build_explorer_routes(serve, reshapes, config.listen),
        ]
        # The server does not authenticate clients that request the OpenAPI description.
        if config.reflects and not config.authenticates:
            routes.append(build_openapi_route())
        hosts = LOCAL_HOSTS | {address.rpartition(":")[0].lower()} if is_local(address) else ()
        self.port = HttpPort(address, build_app(routes, hosts, config.http_allow_origin), find_context, shares=shares)

    def end(self) -> None:
        """Closes the port and ends all running calls."""
        self.port.end()
        for pool in self._pools.values():
            pool.shutdown(wait=False)  # `shutdown` does not wait, because the work of an ended call may take long
