"""ServerInfo: the one method whose answer is the server's, and not the request's."""

from tensor_reshape.server.service.method_tables import Method
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.fields import check_header_size, parse_message
from tensor_reshape.wire.methods import SERVER_INFO
from tensor_reshape.wire.servers import ServerInfo, encode_server_info


def build_info_method(info: ServerInfo) -> Method:
    """Returns the method: its answer is written once, so it never takes long."""
    response = encode_server_info(info)

    def answer(request: bytes) -> bytes:
        check_header_size(len(request))
        parse_message(reshape_pb2.ServerInfoRequest, request)  # a newer client may ask for more, but not in garbage
        return response

    return Method(SERVER_INFO.path, lambda request, _is_over: answer(request), answer)
