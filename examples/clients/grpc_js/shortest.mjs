import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';
import protobuf from 'protobufjs';

const options = { keepCase: true, longs: String, enums: String, defaults: true, includeDirs: ['protos'] };
const definition = loader.loadSync('tensor_reshape/v1/reshape.proto', options);
const { ReshapeService } = grpc.loadPackageDefinition(definition).tensor_reshape.v1;
const address = process.argv[2] ?? 'localhost:50051';
const client = new ReshapeService(address, grpc.credentials.createInsecure(), {
  'grpc.max_receive_message_length': 32 * 2 ** 20,
});

// grpc-js returns the details of an error as bytes. These messages of google.rpc decode them.
const { root } = protobuf.parse(`
  syntax = "proto3";
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }`);
const readErrorInfo = (error) => {
  const [bytes] = error.metadata.get('grpc-status-details-bin');
  const status = bytes && root.lookupType('Status').decode(bytes);
  const info = status?.details.find(({ typeUrl }) => typeUrl.endsWith('/google.rpc.ErrorInfo'));
  return info && root.lookupType('ErrorInfo').decode(info.value);
};

const elements = new Float32Array([1, 2, 3, 4, 5, 6]);
const data = { data_type: 'DATA_TYPE_F32', dims: [2, 3], data: Buffer.from(elements.buffer) };
const call = (method, request, callback) => client[method](request, { deadline: Date.now() + 10_000 }, callback);
const reshape = (items, callback) => call('StaticReshape', { shape: { items }, special_zero: false, data }, callback);

reshape([3, -1], (error, { output } = {}) => {
  if (error) throw error;
  console.log(output.dims.join()); // 3,2
  // Copy the bytes: a Float32Array must begin at a multiple of 4, and a Buffer may begin elsewhere.
  console.log(new Float32Array(Uint8Array.from(output.data).buffer).join()); // 1,2,3,4,5,6
  reshape([4, -1], (rejection) => {
    const { reason, metadata } = readErrorInfo(rejection);
    console.log(grpc.status[rejection.code], reason, metadata.divisor); // INVALID_ARGUMENT NOT_DIVISIBLE 4
    inferShape();
  });
});

// The input shape is [batch, 3, 4]. In dims, a dimension with a name is -1, and an entry of partial has the name.
const inferShape = () => {
  const query = {
    operation: 'OPERATION_RESHAPE',
    special_zero: true,
    data: { shape: { dims: [-1, 3, 4], partial: [{ index: 0, symbol: { name: 'batch' } }] } },
    shape: { items: [0, -1] },
  };
  call('InferShape', query, (error, { shape } = {}) => {
    if (error) throw error;
    console.log(shape.dims.join(), shape.partial[0].symbol.name); // -1,12 batch
    client.close();
  });
};
