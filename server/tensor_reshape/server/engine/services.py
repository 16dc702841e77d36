"""What is served, and what all of its calls share."""

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
    """The methods of the service, and what all of their calls share.

    Attributes:
        engine: what decides.
        perform: does what it has decided.
        sources: finds whose a call is.
        methods: all of them.
        pools: threads for what takes long.
        max_calls: how many calls are taken at once.
    """

    engine: Engine
    perform: Perform
    sources: Sources
    methods: MethodTable
    pools: Mapping[Work, Executor]
    max_calls: int
