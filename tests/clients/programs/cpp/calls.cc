// Makes calls with the generated client. The calls come on stdin, and each result is printed as one line of JSON.

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "inference/open_inference.grpc.pb.h"
#include "tensor_reshape/v1/reshape.grpc.pb.h"

using google::protobuf::ListValue;
using google::protobuf::Message;
using google::protobuf::Struct;
using google::protobuf::Value;
using inference::GRPCInferenceService;
using tensor_reshape::v1::ReshapeService;

constexpr int kMaxAnswerBytes = 64 << 20;  // the default of gRPC is 4 MiB

using Responses = std::vector<std::string>;
using Method = std::function<grpc::Status(grpc::ClientContext&, const Struct&, Responses&)>;

template <typename Request>
Request Parse(const Value& value) {
  std::string json;
  Request request;
  auto status = google::protobuf::util::MessageToJsonString(value, &json);
  if (status.ok()) status = google::protobuf::util::JsonStringToMessage(json, &request);
  if (!status.ok()) throw std::invalid_argument(status.ToString());
  return request;
}

std::string Format(const Message& message) {
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) throw std::invalid_argument(status.ToString());
  return json;
}

const ListValue& ListRequests(const Struct& call) { return call.fields().at("requests").list_value(); }

template <typename Stub, typename Request, typename Response>
Method Unary(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*)) {
  return [&stub, method](grpc::ClientContext& context, const Struct& call, Responses& responses) {
    Response response;
    auto status = (stub.*method)(&context, Parse<Request>(ListRequests(call).values(0)), &response);
    if (status.ok()) responses.push_back(Format(response));
    return status;
  };
}

// Sends and receives at the same time, because the server stops reading from a client that does not read.
Method Stream(ReshapeService::Stub& stub) {
  return [&stub](grpc::ClientContext& context, const Struct& call, Responses& responses) {
    auto stream = stub.StreamReshape(&context);
    std::thread sender([&] {
      for (const auto& value : ListRequests(call).values())
        if (!stream->Write(Parse<tensor_reshape::v1::StreamReshapeRequest>(value))) return;  // Finish returns the error
      if (!call.fields().at("holds").bool_value()) stream->WritesDone();
    });
    tensor_reshape::v1::StreamReshapeResponse response;
    while (stream->Read(&response)) responses.push_back(Format(response));
    sender.join();
    return stream->Finish();
  };
}

std::string Describe(const grpc::Status& status) {
  Struct described;
  auto& fields = *described.mutable_fields();
  fields["code"].set_number_value(status.error_code());
  fields["message"].set_string_value(status.error_message());
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  details.ParseFromString(status.error_details());
  for (const auto& detail : details.details()) {
    if (!detail.UnpackTo(&info)) continue;
    fields["reason"].set_string_value(info.reason());
    auto& metadata = *fields["metadata"].mutable_struct_value()->mutable_fields();
    for (const auto& [key, value] : info.metadata()) metadata[key].set_string_value(value);
  }
  return Format(described);
}

std::string Join(const Responses& responses) {
  std::string joined = "{\"responses\": [";
  for (const auto& response : responses) joined += (&response == &responses.front() ? "" : ", ") + response;
  return joined + "]}";
}

int main() {
  std::ios::sync_with_stdio(false);
  std::string line;
  std::getline(std::cin, line);
  Struct opening;
  if (!google::protobuf::util::JsonStringToMessage(line, &opening).ok()) return 1;

  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  auto channel = grpc::CreateCustomChannel(opening.fields().at("address").string_value(),
                                           grpc::InsecureChannelCredentials(), arguments);
  ReshapeService::Stub stub(channel);
  GRPCInferenceService::Stub models(channel);
  using Stub = ReshapeService::Stub;
  const std::map<std::string, Method> methods = {
      {"StaticReshape", Unary(stub, &Stub::StaticReshape)},
      {"DynamicReshape", Unary(stub, &Stub::DynamicReshape)},
      {"Reshape", Unary(stub, &Stub::Reshape)},
      {"InferShape", Unary(stub, &Stub::InferShape)},
      {"BatchInferShape", Unary(stub, &Stub::BatchInferShape)},
      {"StreamReshape", Stream(stub)},
      {"ModelInfer", Unary(models, &GRPCInferenceService::Stub::ModelInfer)},
  };

  while (std::getline(std::cin, line)) {
    Struct call;
    if (!google::protobuf::util::JsonStringToMessage(line, &call).ok()) return 1;
    const auto& fields = call.fields();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(int64_t(fields.at("seconds").number_value() * 1000)));
    Responses responses;
    auto status = methods.at(fields.at("method").string_value())(context, call, responses);
    std::cout << (status.ok() ? Join(responses) : Describe(status)) << std::endl;
  }
}
