"""The method ServerInfo, whose response describes the server."""

from tensor_reshape.server.service.method_tables import Method, build_light_method
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.fields import parse_message
from tensor_reshape.wire.methods import SERVER_INFO
from tensor_reshape.wire.servers import ServerInfo, encode_server_info


def build_info_method(info: ServerInfo) -> Method:
    """Returns the method ServerInfo. The response of ServerInfo is serialized once, when the server starts."""
    response = encode_server_info(info)

    def respond(request: bytes) -> bytes:
        # A ServerInfo request has no fields. Parsing it rejects invalid bytes, but accepts unknown fields of newer
        # clients.
        parse_message(reshape_pb2.ServerInfoRequest, request)
        return response

    return build_light_method(SERVER_INFO.path, respond)
