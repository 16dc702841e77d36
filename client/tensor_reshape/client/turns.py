"""Distributes the calls of a client over its channels in turn."""

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Generic, TypeVar

import grpc

Channel = TypeVar("Channel")

_LOST = grpc.ChannelConnectivity.TRANSIENT_FAILURE


class ChannelTurns(Generic[Channel]):
    """The channels of a client, each of which has its own connections. Threads may share this object.

    Attributes:
        channels: the channels.
        take: a function that returns the channel for the next call.
    """

    def __init__(
        self, channels: Sequence[Channel], find_state: Callable[[Channel], grpc.ChannelConnectivity | None]
    ) -> None:
        """Keeps the arguments. `find_state` returns the state of a channel, or None if the state is unknown."""
        self.channels = channels
        self._find_state = find_state
        self._next: Callable[[], Channel] = cycle(channels).__next__
        self.take = self._next if len(channels) == 1 else self._take_usable

    def _take_usable(self) -> Channel:
        """Returns the next channel that has not lost its server.

        If all channels have lost their servers, returns the next channel.
        """
        for _ in self.channels:
            channel = self._next()
            if self._find_state(channel) is not _LOST:
                return channel
        return self._next()

    def find_lost(self) -> tuple[Channel, grpc.ChannelConnectivity | None]:
        """Returns a channel that has lost its server, and the state of this channel.

        If no channel has lost its server, returns the first channel and its state.
        """
        states = [(channel, self._find_state(channel)) for channel in self.channels]
        return next((pair for pair in states if pair[1] is _LOST), states[0])
