"""`grpc.reflection.v1alpha`: the contract, for tools that do not have its files."""

from grpc_reflection.v1alpha import reflection, reflection_pb2

from tensor_reshape.server.auxiliary.bounded_calls import MAX_SILENT, AuxiliaryCall, end_calls
from tensor_reshape.server.auxiliary.call_slots import CallSlots
from tensor_reshape.server.auxiliary.foreign_methods import HEALTH_SERVICE, Method, build_exchange
from tensor_reshape.server.calls.resets import ResetBuckets
from tensor_reshape.wire.fields import parse_message
from tensor_reshape.wire.methods import SERVICE


class Reflection:
    """Answers each message of a reflection stream by itself, by grpcio-reflection's servicer."""

    def __init__(self) -> None:
        """Knows the services of this server."""
        self._servicer = reflection.ReflectionServicer((SERVICE, HEALTH_SERVICE, reflection.SERVICE_NAME))
        self._streams = CallSlots[AuxiliaryCall](MAX_SILENT)

    def build_methods(self, resets: ResetBuckets) -> list[Method]:
        """Returns the methods; `resets` is told how their calls end."""
        return [build_exchange(f"/{reflection.SERVICE_NAME}/ServerReflectionInfo", self.respond, self._streams, resets)]

    def end_streams(self) -> None:
        """Ends every stream: one that stays open is a call under way, which would use up the grace."""
        end_calls(self._streams)

    def respond(self, raw: bytes) -> bytes:
        """Answers a message.

        Raises:
            ReshapeError: MESSAGE_MALFORMED.
        """
        request = parse_message(reflection_pb2.ServerReflectionRequest, raw)
        (response,) = self._servicer.ServerReflectionInfo(iter((request,)), None)
        return bytes(response.SerializeToString())
