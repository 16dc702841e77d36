import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.rpc.ErrorInfo;
import io.grpc.ManagedChannelBuilder;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.concurrent.TimeUnit;
import tensor_reshape.v1.DataType;
import tensor_reshape.v1.ReshapeServiceGrpc;
import tensor_reshape.v1.StaticReshapeRequest;
import tensor_reshape.v1.TargetShape;
import tensor_reshape.v1.Tensor;

public class Shortest {
  public static void main(String[] arguments) throws Exception {
    var address = arguments.length > 0 ? arguments[0] : "localhost:50051";
    var channel = ManagedChannelBuilder.forTarget(address).usePlaintext().build();
    var stub = ReshapeServiceGrpc.newBlockingStub(channel).withDeadlineAfter(10, TimeUnit.SECONDS);
    var elements = ByteBuffer.allocate(24).order(ByteOrder.LITTLE_ENDIAN);
    for (float element : new float[] {1, 2, 3, 4, 5, 6}) {
      elements.putFloat(element);
    }
    var data =
        Tensor.newBuilder()
            .setDataType(DataType.DATA_TYPE_F32)
            .addAllDims(List.of(2L, 3L))
            .setData(ByteString.copyFrom(elements.array()));
    var request = StaticReshapeRequest.newBuilder().setData(data).setSpecialZero(false);

    var output = stub.staticReshape(request.setShape(shape(3, -1)).build()).getOutput();
    System.out.println(output.getDimsList()); // [3, 2]

    try {
      stub.staticReshape(request.setShape(shape(4, -1)).build());
    } catch (StatusRuntimeException error) {
      for (Any detail : StatusProto.fromThrowable(error).getDetailsList()) {
        if (detail.is(ErrorInfo.class)) {
          var info = detail.unpack(ErrorInfo.class);
          System.out.println(info.getReason() + " " + info.getMetadataOrThrow("divisor")); // NOT_DIVISIBLE 4
        }
      }
    }
    channel.shutdownNow();
  }

  static TargetShape shape(long... items) {
    var shape = TargetShape.newBuilder();
    for (long item : items) {
      shape.addItems(item);
    }
    return shape.build();
  }
}
