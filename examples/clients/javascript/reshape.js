import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { ErrorInfoSchema } from './gen/error_info_pb.js';
import { ReshapeService } from './gen/tensor_reshape/v1/reshape_pb.js';
import { DataType } from './gen/tensor_reshape/v1/tensor_pb.js';

const address = process.argv[2] ?? 'localhost:50051';
const transport = createGrpcTransport({ baseUrl: `http://${address}` });
const client = createClient(ReshapeService, transport);

const elements = new Float32Array([1, 2, 3, 4, 5, 6]);
const data = { dataType: DataType.F32, dims: [2n, 3n], data: new Uint8Array(elements.buffer) };

const shape = { items: [3n, -1n] };
const { output } = await client.staticReshape({ shape, specialZero: false, data }, { timeoutMs: 10_000 });
console.log(output.dims.join()); // 3,2
// Copy the bytes: a Float32Array must begin at a multiple of 4, and received bytes may begin elsewhere.
console.log(new Float32Array(output.data.slice().buffer).join()); // 1,2,3,4,5,6

try {
  await client.staticReshape({ shape: { items: [4n, -1n] }, specialZero: false, data }, { timeoutMs: 10_000 });
} catch (error) {
  const rejection = ConnectError.from(error);
  const [info] = rejection.findDetails(ErrorInfoSchema);
  console.log(Code[rejection.code], info.reason, info.metadata.divisor); // InvalidArgument NOT_DIVISIBLE 4
}
