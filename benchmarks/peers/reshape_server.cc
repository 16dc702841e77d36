// The C++ sync server: generated service and messages, as the gRPC tutorial writes it.

#include <grpcpp/grpcpp.h>

#include <iostream>
#include <memory>
#include <string>

#include "tensor_reshape/v1/reshape.grpc.pb.h"

namespace v1 = tensor_reshape::v1;

class ReshapeServer final : public v1::ReshapeService::Service {
  grpc::Status StaticReshape(grpc::ServerContext*, const v1::StaticReshapeRequest* request,
                             v1::StaticReshapeResponse* response) override {
    auto* output = response->mutable_output();
    output->set_data_type(request->data().data_type());
    *output->mutable_dims() = request->shape();
    output->set_data(request->data().data());
    return grpc::Status::OK;
  }
};

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "reshape_server ADDRESS" << std::endl;
    return 2;
  }
  ReshapeServer service;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.AddListeningPort(arguments[1], grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) return 1;
  server->Wait();
}
