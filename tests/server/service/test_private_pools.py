"""Messages in a descriptor pool of their own."""

import gc
import weakref
from collections.abc import Iterator

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tensor_reshape.server.service.private_pools import PrivatePool

FILE = FileDescriptorProto(name="private_pools.proto", package="tests.private_pools", syntax="proto3")
_outer = FILE.message_type.add(name="Outer")
_outer.nested_type.add(name="Inner")
_outer.nested_type.add(name="NumbersEntry").options.map_entry = True
for _number, (_name, _kind) in enumerate((("key", "TYPE_STRING"), ("value", "TYPE_INT32")), start=1):
    _outer.nested_type[1].field.add(name=_name, number=_number, label="LABEL_OPTIONAL", type=_kind)
for _number, _name in enumerate(("Inner", "NumbersEntry"), start=1):
    _outer.field.add(
        name=_name.lower(), number=_number, label="LABEL_REPEATED", type_name=f".tests.private_pools.Outer.{_name}"
    )
FILE.service.add(name="Oracle").method.add(
    name="Ask", input_type=".tests.private_pools.Outer", output_type=".tests.private_pools.Outer"
)
ENCODED = FileDescriptorSet(file=[FILE]).SerializeToString()


def test_private_pool_finds_services_and_classes():
    pool = PrivatePool(ENCODED)
    (method,) = pool.find_service("Oracle").methods
    assert pool.find_class("Outer").DESCRIPTOR is method.input_type
    assert pool.find_class("Outer.Inner").DESCRIPTOR.full_name == "tests.private_pools.Outer.Inner"


def test_private_pools_can_have_the_same_names():
    first, second = PrivatePool(ENCODED), PrivatePool(ENCODED)
    assert first.find_class("Outer") is not second.find_class("Outer")
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindFileContainingSymbol("tests.private_pools.Outer")


def test_message_classes_of_a_private_pool_are_never_garbage_collected():
    pool = PrivatePool(ENCODED)
    classes = [weakref.ref(type(message)) for message in build_all(pool)]
    gc.collect()
    assert [found() is not None for found in classes] == [True] * 3


def build_all(pool: PrivatePool) -> Iterator[Message]:
    outer = pool.find_class("Outer").DESCRIPTOR
    for kind in (outer, *outer.nested_types):
        yield GetMessageClass(kind)()
