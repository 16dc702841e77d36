// The C++ sync server: a generated service with generated messages, as in the gRPC tutorial. With the argument `slices`,
// it serves only streams, and sends their chunks back as the slices that gRPC received, without making messages.

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/service_type.h>

#include <iostream>
#include <memory>
#include <string>

#include "messages.h"
#include "tensor_reshape/v1/reshape.grpc.pb.h"

namespace v1 = tensor_reshape::v1;

// Returns the message that accepts the tensor of a message.
static v1::StreamReshapeResponse Accept(const v1::StreamReshapeRequest& request) {
  v1::StreamReshapeResponse response;
  response.mutable_output()->set_data_type(request.static_reshape().data().data_type());
  *response.mutable_output()->mutable_dims() = request.static_reshape().shape().items();
  return response;
}

class ReshapeServer final : public v1::ReshapeService::Service {
  using Stream = grpc::ServerReaderWriter<v1::StreamReshapeResponse, v1::StreamReshapeRequest>;

  grpc::Status StaticReshape(grpc::ServerContext*, const v1::StaticReshapeRequest* request,
                             v1::StaticReshapeResponse* response) override {
    auto* output = response->mutable_output();
    output->set_data_type(request->data().data_type());
    *output->mutable_dims() = request->shape().items();
    output->set_data(request->data().data());
    return grpc::Status::OK;
  }

  grpc::Status StreamReshape(grpc::ServerContext*, Stream* stream) override {
    v1::StreamReshapeRequest request;
    while (stream->Read(&request)) {
      v1::StreamReshapeResponse response;
      if (request.has_static_reshape()) {
        response = Accept(request);
      } else {
        response.set_allocated_chunk(request.release_chunk());  // moves the bytes without a copy
        response.set_offset(request.offset());
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  }
};

// Registers the method as generated code does, but with bytes instead of messages.
class SlicesServer final : public grpc::Service {
 public:
  SlicesServer() {
    AddMethod(new grpc::internal::RpcServiceMethod(
        kStreamMethod, grpc::internal::RpcMethod::BIDI_STREAMING,
        new grpc::internal::BidiStreamingHandler<SlicesServer, grpc::ByteBuffer, grpc::ByteBuffer>(
            [](SlicesServer*, grpc::ServerContext*, Stream* stream) { return Answer(stream); }, this)));
  }

 private:
  using Stream = grpc::ServerReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  static grpc::Status Answer(Stream* stream) {
    grpc::ByteBuffer buffer;
    if (!stream->Read(&buffer)) return grpc::Status::OK;
    stream->Write(Encode(Accept(Decode<v1::StreamReshapeRequest>(&buffer))));
    // Both directions encode a chunk in the same way: field 4 is the offset, and field 15 has the bytes.
    while (stream->Read(&buffer)) stream->Write(buffer);
    return grpc::Status::OK;
  }
};

int main(int count, char** arguments) {
  if (count < 2) {
    std::cerr << "reshape_server ADDRESS [slices]" << std::endl;
    return 2;
  }
  std::unique_ptr<grpc::Service> service;
  if (count > 2) {
    service = std::make_unique<SlicesServer>();
  } else {
    service = std::make_unique<ReshapeServer>();
  }
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.AddListeningPort(arguments[1], grpc::InsecureServerCredentials());
  builder.RegisterService(service.get());
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) return 1;
  server->Wait();
}
