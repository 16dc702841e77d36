// Functions of the C++ server and client that convert messages to gRPC's bytes and back.

#pragma once

#include <grpcpp/grpcpp.h>

constexpr char kStreamMethod[] = "/tensor_reshape.v1.ReshapeService/StreamReshape";

template <class Message>
grpc::ByteBuffer Encode(const Message& message) {
  grpc::ByteBuffer buffer;
  bool own_buffer;
  grpc::SerializationTraits<Message>::Serialize(message, &buffer, &own_buffer);
  return buffer;
}

template <class Message>
Message Decode(grpc::ByteBuffer* buffer) {
  Message message;
  grpc::SerializationTraits<Message>::Deserialize(buffer, &message);
  return message;
}
