import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import { ErrorInfoSchema } from './gen/error_info_pb.js';
import { Operation, ReshapeService } from './gen/tensor_reshape/v1/reshape_pb.js';
import { DataType } from './gen/tensor_reshape/v1/tensor_pb.js';

const address = globalThis.process?.argv[2] ?? '127.0.0.1:8080'; // a page has no arguments
const client = createClient(ReshapeService, createConnectTransport({ baseUrl: `http://${address}` }));

// The input shape is [batch, 3, 4]. In dims, a dimension with a name is -1, and an entry of partial has the name.
const batch = { index: 0, kind: { case: 'symbol', value: { name: 'batch' } } };
const data = { dataType: DataType.F32, shape: { dims: [-1n, 3n, 4n], partial: [batch] } };
const query = { operation: Operation.RESHAPE, specialZero: true, data };

const { shape } = await client.inferShape({ ...query, shape: { items: [0n, -1n] } }, { timeoutMs: 10_000 });
console.log(shape.dims.join(), shape.partial[0].kind.value.name); // -1,12 batch

try {
  await client.inferShape({ ...query, shape: { items: [0n, 5n, -1n] } }, { timeoutMs: 10_000 });
} catch (error) {
  const rejection = ConnectError.from(error);
  const [info] = rejection.findDetails(ErrorInfoSchema);
  console.log(Code[rejection.code], info.reason, info.metadata.divisor); // InvalidArgument NOT_DIVISIBLE 5
}
