"""The messages of the protocol are in a separate pool, so the default pool does not have them."""

import gc
import weakref
from collections.abc import Iterator

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tensor_reshape.server.oip.messages import SERVICE, find_class, find_path


def test_inference_messages_are_absent_from_the_default_descriptor_pool():
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindFileContainingSymbol(SERVICE.full_name)


def test_inference_methods_have_their_path_and_message_classes():
    assert find_path("ModelInfer") == "/inference.GRPCInferenceService/ModelInfer"
    for method in SERVICE.methods:
        assert find_class(method.input_type.name).DESCRIPTOR is method.input_type


def test_inference_message_classes_are_never_garbage_collected():
    classes = [weakref.ref(type(message)) for message in build_all()]
    gc.collect()
    assert classes
    assert all(found() is not None for found in classes)


def build_all() -> Iterator[Message]:
    """Yields one message of each class that occurs in the messages of a method."""
    waiting = [kind for method in SERVICE.methods for kind in (method.input_type, method.output_type)]
    seen = set()
    while waiting:
        kind = waiting.pop()
        if kind.full_name not in seen:
            seen.add(kind.full_name)
            waiting += [field.message_type for field in kind.fields if field.message_type is not None]
            yield GetMessageClass(kind)()
