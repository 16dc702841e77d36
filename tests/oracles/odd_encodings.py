"""A ModelInferRequest as no client writes it, and as every parser reads it: what it says is the same."""

from collections.abc import Iterable
from random import Random

from google.protobuf.message import Message

from verification.fuzz.encodings import Encoder, encode_varint

_RAW, _SHAPE = 7, 3
_DELIMITED = 2


def encode_oddly(message: Message, seed: int) -> bytes:
    """Returns the message with its fields in another order, with unknown ones, and with liberties taken."""
    random = Random(seed)
    encoder = Encoder(random, random.choice((0.0, 0.3, 1.0)))
    fields = [(number, _encode(encoder, number, content)) for number, content in _cut(message, random)]
    if random.random() < 0.8:
        _shuffle(fields, random)
    noise = [encoder.tag(number, _DELIMITED) + b"\x02ab" for number in (9, 100) if random.random() < 0.3]
    return b"".join([*noise, *(encoded for _, encoded in fields)])


def _cut(message: Message, random: Random) -> Iterable[tuple[int, bytes]]:
    """Yields the fields, each with its number: every one of this message is length-delimited."""
    for descriptor, value in message.ListFields():
        alone = type(message)()
        if descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry:
            for key in value:
                alone.Clear()
                getattr(alone, descriptor.name)[key].CopyFrom(value[key])
                yield descriptor.number, _strip(alone.SerializeToString())
        elif descriptor.number == _RAW:
            yield from ((_RAW, content) for content in value)
        elif descriptor.message_type is not None:
            yield from ((descriptor.number, _cut_tensor(tensor, random)) for tensor in value)
        else:
            yield descriptor.number, value.encode()


def _cut_tensor(tensor: Message, random: Random) -> bytes:
    """Returns an input or output with its fields in another order, and now and then with a shape that is not packed."""
    pieces: list[tuple[int, bytes]] = []
    for descriptor, value in tensor.ListFields():
        if descriptor.number == _SHAPE and random.random() < 0.5:
            pieces += [(_SHAPE, _encode_dim(dim)) for dim in value]
            continue
        alone = type(tensor)()
        alone.MergeFrom(tensor)
        for other, _ in tensor.ListFields():
            if other.number != descriptor.number:
                alone.ClearField(other.name)
        pieces.append((descriptor.number, alone.SerializeToString()))
    _shuffle(pieces, random)
    return b"".join(encoded for _, encoded in pieces)


def _encode_dim(dim: int) -> bytes:
    return b"\x18" + encode_varint(dim % 2**64)


def _strip(serialized: bytes) -> bytes:
    """Returns the content of the one field of a message of less than 128 bytes."""
    return serialized[2:]


def _encode(encoder: Encoder, number: int, content: bytes) -> bytes:
    return encoder.tag(number, _DELIMITED) + encoder.varint(len(content)) + content


def _shuffle(fields: list[tuple[int, bytes]], random: Random) -> None:
    """Changes the order of fields, but of those of one number."""
    numbers = [number for number, _ in fields]
    queues = {number: [encoded for other, encoded in fields if other == number] for number in numbers}
    random.shuffle(numbers)
    fields[:] = [(number, queues[number].pop(0)) for number in numbers]
