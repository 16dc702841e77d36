"""Triton's methods for system shared memory, which register, list and unregister regions.

None of these methods runs on the thread that receives calls, because opening a file may take long.
"""

from tensor_reshape.server.oip.messages import InferMessage, Respond, encode, find_class, find_path
from tensor_reshape.server.oip.shared_memory import Region, SharedMemory
from tensor_reshape.server.service.method_tables import Method, limit_header


def build_region_methods(memory: SharedMemory) -> tuple[Method, ...]:
    """Returns the methods that register, list and unregister the regions in `memory`."""

    def register(request: InferMessage) -> InferMessage:
        memory.register(request.name, Region(request.key, request.offset, request.byte_size))
        return find_class("SystemSharedMemoryRegisterResponse")()

    def unregister(request: InferMessage) -> InferMessage:
        memory.unregister(request.name)
        return find_class("SystemSharedMemoryUnregisterResponse")()

    def list_regions(request: InferMessage) -> InferMessage:
        regions = memory.list_regions(request.name)
        listed = {name: {"name": name, **region._asdict()} for name, region in regions.items()}
        return find_class("SystemSharedMemoryStatusResponse")(regions=listed)

    return (
        _build_method("SystemSharedMemoryRegister", register),
        _build_method("SystemSharedMemoryUnregister", unregister),
        _build_method("SystemSharedMemoryStatus", list_regions),
    )


def _build_method(name: str, respond: Respond) -> Method:
    respond_to_short = limit_header(encode(name, respond))
    return Method(find_path(name), lambda raw, _is_over: respond_to_short(raw))
