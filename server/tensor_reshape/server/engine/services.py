"""A service: its methods, and the objects that all of its calls share."""

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

from tensor_reshape.server.engine.effects import Perform
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.sources import Sources
from tensor_reshape.server.service.method_tables import MethodTable
from tensor_reshape.server.service.works import Work


@dataclass(frozen=True, slots=True)
class Service:
    """The methods of a service, and the objects that all of its calls share.

    Attributes:
        engine: decides admission, memory and the end of calls.
        perform: performs the effects that the engine returns.
        sources: finds the client of a call.
        methods: the methods.
        pools: thread pools for long work.
    """

    engine: Engine
    perform: Perform
    sources: Sources
    methods: MethodTable
    pools: Mapping[Work, Executor]
