// The C++ client of streams. It sends a tensor in chunks of 1 MiB and receives them into existing memory, as the client of
// the raw socket does. One thread sends, and one receives. `stream_client ADDRESS BYTES messages|slices` uses generated
// messages, or gRPC's slices, which copy each element only once, when it is received.
//
// The line "check" makes one call, and prints "right" or "wrong: ...". A line with a number makes calls for this number of
// seconds, at least one, and prints the begin and the end of the measurement (CLOCK_MONOTONIC) and the seconds of each
// call.

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_buffer_reader.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "messages.h"
#include "tensor_reshape/v1/reshape.grpc.pb.h"

namespace v1 = tensor_reshape::v1;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

static constexpr size_t kChunkBytes = 1 << 20;
static constexpr uint32_t kOne = 0x3F800000;  // as in sessions.py, so that the elements differ and none is a NaN
static constexpr uint32_t kOffsetTag = 4 << 3, kChunkTag = 15 << 3 | 2;

struct Tensor {
  explicit Tensor(size_t size) : data(size / 4), out(size / 4) {
    for (size_t index = 0; index < data.size(); ++index) data[index] = kOne + static_cast<uint32_t>(index);
  }
  const char* bytes() const { return reinterpret_cast<const char*>(data.data()); }
  char* out_bytes() { return reinterpret_cast<char*>(out.data()); }
  size_t size() const { return data.size() * 4; }

  std::vector<uint32_t> data, out;
};

static v1::StreamReshapeRequest Begin(const Tensor& tensor) {
  v1::StreamReshapeRequest request;
  auto* begin = request.mutable_static_reshape();
  begin->mutable_shape()->add_items(2);
  begin->mutable_shape()->add_items(tensor.data.size() / 2);
  begin->set_special_zero(false);
  begin->mutable_data()->set_data_type(v1::DATA_TYPE_F32);
  begin->mutable_data()->add_dims(tensor.data.size());
  return request;
}

// Each of the two classes has the type of the stream, a function that encodes a chunk, and one that receives a chunk.
struct Messages {
  using Sent = v1::StreamReshapeRequest;
  using Received = v1::StreamReshapeResponse;

  static Sent EncodeBegin(const Tensor& tensor) { return Begin(tensor); }
  static v1::Tensor DecodeBegin(Received* received) { return received->output(); }

  static Sent EncodeChunk(const Tensor& tensor, size_t offset, size_t size) {
    Sent request;
    request.set_offset(offset);
    request.set_chunk(tensor.bytes() + offset, size);
    return request;
  }

  static void TakeChunk(Received* received, Tensor* tensor) {
    std::memcpy(tensor->out_bytes() + received->offset(), received->chunk().data(), received->chunk().size());
  }
};

struct Slices {
  using Sent = grpc::ByteBuffer;
  using Received = grpc::ByteBuffer;

  static Sent EncodeBegin(const Tensor& tensor) { return Encode(Begin(tensor)); }
  static v1::Tensor DecodeBegin(Received* received) { return Decode<v1::StreamReshapeResponse>(received).output(); }

  static Sent EncodeChunk(const Tensor& tensor, size_t offset, size_t size) {
    uint8_t head[32];
    uint8_t* end = CodedOutputStream::WriteTagToArray(kOffsetTag, head);
    end = CodedOutputStream::WriteVarint64ToArray(offset, end);
    end = CodedOutputStream::WriteTagToArray(kChunkTag, end);
    end = CodedOutputStream::WriteVarint32ToArray(size, end);
    // STATIC_SLICE, because the tensor outlives the call, so gRPC need not copy it.
    grpc::Slice slices[] = {grpc::Slice(head, end - head),
                            grpc::Slice(tensor.bytes() + offset, size, grpc::Slice::STATIC_SLICE)};
    return grpc::ByteBuffer(slices, 2);
  }

  static void TakeChunk(Received* received, Tensor* tensor) {
    grpc::ProtoBufferReader reader(received);
    CodedInputStream stream(&reader);
    uint64_t offset = 0;
    uint32_t tag = stream.ReadTag(), size = 0;
    if (tag == kOffsetTag && stream.ReadVarint64(&offset)) tag = stream.ReadTag();  // the first offset is 0, and omitted
    if (tag == kChunkTag && stream.ReadVarint32(&size)) stream.ReadRaw(tensor->out_bytes() + offset, size);
  }
};

// Returns what is wrong with the call or its response. The caller checks the bytes.
template <class Kind>
std::string Call(const std::shared_ptr<grpc::Channel>& channel, Tensor* tensor) {
  using Sent = typename Kind::Sent;
  using Received = typename Kind::Received;
  grpc::ClientContext context;
  // Makes the call as a generated stub does.
  static const grpc::internal::RpcMethod method(kStreamMethod, grpc::internal::RpcMethod::BIDI_STREAMING, channel);
  std::unique_ptr<grpc::ClientReaderWriter<Sent, Received>> stream(
      grpc::internal::ClientReaderWriterFactory<Sent, Received>::Create(channel.get(), method, &context));
  std::thread writer([&] {
    bool is_open = stream->Write(Kind::EncodeBegin(*tensor));
    for (size_t offset = 0; is_open && offset < tensor->size(); offset += kChunkBytes) {
      is_open = stream->Write(Kind::EncodeChunk(*tensor, offset, std::min(kChunkBytes, tensor->size() - offset)));
    }
    stream->WritesDone();
  });
  Received received;
  std::string wrong = "no answer";
  if (stream->Read(&received)) {
    v1::Tensor output = Kind::DecodeBegin(&received);
    bool is_right = output.dims_size() == 2 && output.dims(0) == 2 && output.dims(1) * 2 * 4 == (int64_t)tensor->size();
    wrong = is_right ? "" : "another shape";
  }
  while (stream->Read(&received)) Kind::TakeChunk(&received, tensor);
  writer.join();
  grpc::Status status = stream->Finish();
  return status.ok() ? wrong : status.error_message();
}

template <class Kind>
std::string Check(const std::shared_ptr<grpc::Channel>& channel, Tensor* tensor) {
  std::fill(tensor->out.begin(), tensor->out.end(), 0);
  std::string wrong = Call<Kind>(channel, tensor);
  if (wrong.empty() && tensor->out != tensor->data) wrong = "other bytes";
  return wrong;
}

static double ReadSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Kind>
int Answer(const std::shared_ptr<grpc::Channel>& channel, Tensor* tensor) {
  std::cout << std::setprecision(17);
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "check") {
      std::string wrong = Check<Kind>(channel, tensor);
      std::cout << (wrong.empty() ? "right" : "wrong: " + wrong) << std::endl;
      continue;
    }
    double begin = ReadSeconds(), now = begin, seconds = std::stod(line);
    std::vector<double> latencies;
    do {
      std::string wrong = Call<Kind>(channel, tensor);
      if (!wrong.empty()) {
        std::cerr << wrong << std::endl;
        return 1;
      }
      double before = now;
      now = ReadSeconds();
      latencies.push_back(now - before);
    } while (now - begin < seconds);
    std::cout << begin << " " << now;
    for (double latency : latencies) std::cout << " " << latency;
    std::cout << std::endl;
  }
  return 0;
}

int main(int count, char** arguments) {
  if (count != 4) {
    std::cerr << "stream_client ADDRESS BYTES messages|slices" << std::endl;
    return 2;
  }
  grpc::ChannelArguments options;
  options.SetMaxReceiveMessageSize(-1);
  auto channel = grpc::CreateCustomChannel(arguments[1], grpc::InsecureChannelCredentials(), options);
  Tensor tensor(std::stoull(arguments[2]));
  return std::string(arguments[3]) == "slices" ? Answer<Slices>(channel, &tensor) : Answer<Messages>(channel, &tensor);
}
