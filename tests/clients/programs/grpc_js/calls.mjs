// Makes calls with @grpc/grpc-js and @grpc/proto-loader, with the protobufjs that the first line on stdin names.

import grpc from '@grpc/grpc-js';
import protobuf from 'protobufjs';

import { answerCalls } from './calls_of_node.mjs';

const OPTIONS = { keepCase: true, longs: String, enums: String, bytes: String };
// The .proto files are used instead of the descriptors, because protobufjs reads a map in descriptors as a list.
const FILES = ['tensor_reshape/v1/reshape.proto', 'inference/open_inference.proto'];
const MESSAGE_BYTES = 32 * 2 ** 20; // the default limit for received messages is 4 MiB

async function open({ address, loader: name = '@grpc/proto-loader', protos, googleapis, descriptors }) {
  const { default: loader } = await import(name);
  const definition = {
    ...loader.loadFileDescriptorSetFromBuffer(Buffer.from(descriptors, 'base64'), OPTIONS),
    ...loader.loadSync(FILES, { ...OPTIONS, includeDirs: [protos] }),
  };
  const details = loadDetails(googleapis);
  const clients = new Map();
  const find = (service) => {
    if (!clients.has(service)) {
      const Client = grpc.makeGenericClientConstructor(definition[service], service);
      const options = { 'grpc.max_receive_message_length': MESSAGE_BYTES };
      clients.set(service, new Client(address, grpc.credentials.createInsecure(), options));
    }
    return clients.get(service);
  };
  return {
    make: (call) => (call.streams ? stream : ask)(find(call.service), call),
    describe: (error) => ({ code: error.code, message: error.details, ...readDetails(details, error.metadata) }),
    close: () => clients.forEach((client) => client.close()),
  };
}

const loadDetails = (folder) => {
  const root = new protobuf.Root();
  root.resolvePath = (_, path) => (path.startsWith('google/rpc/') ? `${folder}/${path}` : path);
  return root.loadSync(['google/rpc/status.proto', 'google/rpc/error_details.proto'], { keepCase: true });
};

const readDetails = (root, metadata) => {
  const [bytes] = metadata?.get('grpc-status-details-bin') ?? [];
  if (bytes === undefined) return {};
  const found = root.lookupType('google.rpc.Status').decode(bytes).details.find((any) => any.type_url.endsWith('ErrorInfo'));
  return root.lookupType('google.rpc.ErrorInfo').decode(found.value).toJSON();
};

const deadline = (seconds) => ({ deadline: Date.now() + seconds * 1000 });

const ask = (client, { method, requests: [request], seconds }) =>
  new Promise((resolve, reject) => {
    const receive = (error, response) => (error ? reject(error) : resolve({ responses: [response] }));
    client[method](request, deadline(seconds), receive);
  });

const stream = (client, { method, requests, holds, seconds }) =>
  new Promise((resolve, reject) => {
    const responses = [];
    const call = client[method](deadline(seconds));
    call.on('data', (response) => responses.push(response));
    call.on('error', reject);
    call.on('end', () => resolve({ responses }));
    requests.forEach((request) => call.write(request));
    if (!holds) call.end();
  });

await answerCalls(open);
