"""`grpc.health.v1` on a thread of its own, so that busy workers do not make the server look dead."""

from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from tensor_reshape.wire.codec import SERVICE


class Health:
    """Says whether this server serves, as a whole ("") and by the name of its service."""

    def __init__(self) -> None:
        """Starts with SERVING: it is registered on a server that is about to start."""
        threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="health")
        self._servicer = health.HealthServicer(experimental_non_blocking=True, experimental_thread_pool=threads)
        # The package gives its own threads to Watch alone; grpcio reads the same attribute on any method.
        self._servicer.Check.__func__.experimental_thread_pool = threads
        self._servicer.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)

    def register(self, server: grpc.Server) -> None:
        """Adds the health service to `server`."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    def stop_serving(self) -> None:
        """Answers NOT_SERVING from now on, for good, and tells all who watch."""
        self._servicer.enter_graceful_shutdown()
