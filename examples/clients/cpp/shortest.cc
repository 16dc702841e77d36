#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <grpcpp/grpcpp.h>
#include <tensor_reshape/v1/reshape.grpc.pb.h>

#include <iostream>

using namespace tensor_reshape::v1;

int main(int count, char** values) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(32 << 20);
  const std::string address = count > 1 ? values[1] : "localhost:50051";
  auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  auto client = ReshapeService::NewStub(channel);

  const float elements[] = {1, 2, 3, 4, 5, 6};  // little-endian, as on every common machine
  StaticReshapeRequest request;
  request.set_special_zero(false);
  request.mutable_data()->set_data_type(DATA_TYPE_F32);
  for (auto dim : {2, 3}) request.mutable_data()->add_dims(dim);
  request.mutable_data()->set_data(elements, sizeof elements);
  for (auto item : {3, -1}) request.mutable_shape()->add_items(item);

  StaticReshapeResponse response;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  if (!client->StaticReshape(&context, request, &response).ok()) return 1;
  std::cout << response.output().dims(0) << ' ' << response.output().dims(1) << '\n';  // 3 2

  request.mutable_shape()->set_items(0, 4);
  grpc::ClientContext another;
  another.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  auto status = client->StaticReshape(&another, request, &response);
  google::rpc::Status details;
  details.ParseFromString(status.error_details());
  google::rpc::ErrorInfo info;
  for (const auto& detail : details.details())
    if (detail.UnpackTo(&info)) std::cout << info.reason() << '\n';  // NOT_DIVISIBLE
}
