// Makes calls with the generated descriptors of the services. The calls come on stdin, and each result is printed as one
// line of JSON.

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.Any;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import com.google.rpc.ErrorInfo;
import inference.GRPCInferenceServiceGrpc;
import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.MethodDescriptor;
import io.grpc.ServiceDescriptor;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import tensor_reshape.v1.ReshapeServiceGrpc;

public class Calls {
  private static final int MAX_RESPONSE_BYTES = 64 << 20; // the default of gRPC is 4 MiB

  public static void main(String[] arguments) throws Exception {
    var methods = new HashMap<String, MethodDescriptor<Message, Message>>();
    addMethods(ReshapeServiceGrpc.getServiceDescriptor(), methods);
    addMethods(GRPCInferenceServiceGrpc.getServiceDescriptor(), methods);
    var lines = new BufferedReader(new InputStreamReader(System.in));
    String address = JsonParser.parseString(lines.readLine()).getAsJsonObject().get("address").getAsString();
    ManagedChannel channel =
        ManagedChannelBuilder.forTarget(address).usePlaintext().maxInboundMessageSize(MAX_RESPONSE_BYTES).build();
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonObject call = JsonParser.parseString(line).getAsJsonObject();
      var method = methods.get(call.get("service").getAsString() + "/" + call.get("method").getAsString());
      System.out.println(new Gson().toJson(make(channel, method, call)));
    }
    channel.shutdownNow();
  }

  @SuppressWarnings("unchecked")
  private static void addMethods(ServiceDescriptor service, Map<String, MethodDescriptor<Message, Message>> methods) {
    for (MethodDescriptor<?, ?> method : service.getMethods()) {
      methods.put(method.getFullMethodName(), (MethodDescriptor<Message, Message>) method);
    }
  }

  private static JsonObject make(ManagedChannel channel, MethodDescriptor<Message, Message> method, JsonObject call)
      throws Exception {
    long milliseconds = (long) (call.get("seconds").getAsDouble() * 1000);
    CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(milliseconds, TimeUnit.MILLISECONDS);
    var responses = new Responses();
    var sent = ClientCalls.asyncBidiStreamingCall(channel.newCall(method, options), responses);
    var prototype = (MethodDescriptor.PrototypeMarshaller<Message>) method.getRequestMarshaller();
    for (JsonElement request : call.getAsJsonArray("requests")) {
      Message.Builder builder = prototype.getMessagePrototype().newBuilderForType();
      JsonFormat.parser().merge(request.toString(), builder);
      sent.onNext(builder.build());
    }
    if (!call.get("holds").getAsBoolean()) {
      sent.onCompleted();
    }
    try {
      var answer = new JsonObject();
      answer.add("responses", responses.whole.get());
      return answer;
    } catch (ExecutionException failed) {
      return describe(failed.getCause());
    }
  }

  private static JsonObject describe(Throwable failure) throws Exception {
    var described = new JsonObject();
    Status status = Status.fromThrowable(failure);
    described.addProperty("code", status.getCode().value());
    described.addProperty("message", status.getDescription());
    var details = StatusProto.fromThrowable(failure);
    for (Any detail : details.getDetailsList()) {
      if (detail.is(ErrorInfo.class)) {
        ErrorInfo info = detail.unpack(ErrorInfo.class);
        described.addProperty("reason", info.getReason());
        described.add("metadata", new Gson().toJsonTree(info.getMetadataMap()));
      }
    }
    return described;
  }

  /** Collects the responses of a call. */
  private static class Responses implements StreamObserver<Message> {
    final CompletableFuture<JsonArray> whole = new CompletableFuture<>();
    private final JsonArray received = new JsonArray();

    @Override
    public void onNext(Message response) {
      try {
        received.add(JsonParser.parseString(JsonFormat.printer().preservingProtoFieldNames().print(response)));
      } catch (Exception failure) {
        whole.completeExceptionally(failure);
      }
    }

    @Override
    public void onError(Throwable failure) {
      whole.completeExceptionally(failure);
    }

    @Override
    public void onCompleted() {
      whole.complete(received);
    }
  }
}
