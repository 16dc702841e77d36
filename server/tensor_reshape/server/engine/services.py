"""The class `Service`, a set of gRPC methods and the objects that the calls of these methods share."""

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

from tensor_reshape.server.calls.sources import Sources
from tensor_reshape.server.engine.effects import Perform
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.service.method_tables import MethodTable, Work


@dataclass(frozen=True, slots=True)
class Service:
    """A set of gRPC methods, and the objects that the calls of these methods share.

    Attributes:
        engine: the engine, which decides about admission, memory and the end of calls.
        perform: the function that performs the effects of the engine.
        sources: the object that determines the client of a call.
        methods: the methods.
        pools: the thread pool for each kind of long work.
    """

    engine: Engine
    perform: Perform
    sources: Sources
    methods: MethodTable
    pools: Mapping[Work, Executor]
