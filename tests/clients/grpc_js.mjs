// Calls as programs make them that use @grpc/grpc-js with @grpc/proto-loader, over the protobufjs that is asked for.

import grpc from '@grpc/grpc-js';

import { SECONDS, answerCalls, encodeBase64 } from './calls.mjs';

const OPTIONS = { keepCase: true, longs: String, enums: String, bytes: String };

async function open({ address, loader: name, include, file, descriptors }) {
  const { default: loader } = await import(name);
  const definition = {
    ...loader.loadFileDescriptorSetFromBuffer(Buffer.from(descriptors, 'base64'), OPTIONS),
    ...loader.loadSync(file, { ...OPTIONS, includeDirs: [include] }),
  };
  const clients = new Map();
  const find = (service) => {
    if (!clients.has(service)) {
      const Client = grpc.makeGenericClientConstructor(definition[service], service);
      clients.set(service, new Client(address, grpc.credentials.createInsecure()));
    }
    return clients.get(service);
  };
  return {
    make: ({ service, method, requests, streams }) => (streams ? stream : ask)(find(service), method, requests),
    describe: ({ code, details, metadata }) => ({
      code,
      details,
      status: encodeBase64(metadata?.get('grpc-status-details-bin')[0]),
    }),
    close: () => clients.forEach((client) => client.close()),
  };
}

const deadline = () => ({ deadline: Date.now() + SECONDS * 1000 });

const ask = (client, method, [request]) =>
  new Promise((resolve, reject) => {
    client[method](request, deadline(), (error, response) => (error ? reject(error) : resolve({ responses: [response] })));
  });

const stream = (client, method, requests) =>
  new Promise((resolve, reject) => {
    const responses = [];
    const call = client[method](deadline());
    call.on('data', (response) => responses.push(response));
    call.on('error', reject);
    call.on('end', () => resolve({ responses }));
    requests.forEach((request) => call.write(request));
    call.end();
  });

await answerCalls(open);
