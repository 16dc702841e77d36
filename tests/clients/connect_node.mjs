// Calls as programs make them that use @connectrpc/connect-node, with messages of @bufbuild/protobuf.

import { createFileRegistry, fromBinary, fromJson, toJson } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';

import { SECONDS, answerCalls, encodeBase64 } from './calls.mjs';

async function open({ address, descriptors }) {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, Buffer.from(descriptors, 'base64')));
  const transport = createGrpcTransport({ baseUrl: `http://${address}` });

  async function make({ service: name, method: methodName, requests, streams }) {
    const service = registry.getService(name);
    const method = service.methods.find((one) => one.name === methodName);
    const call = createClient(service, transport)[method.localName];
    const messages = requests.map((request) => fromJson(method.input, request, { registry }));
    const options = { timeoutMs: SECONDS * 1000 };
    const answers = streams ? await collect(call(send(messages), options)) : [await call(messages[0], options)];
    return { responses: answers.map((answer) => toJson(method.output, answer, { registry, useProtoFieldName: true })) };
  }

  const describe = (error) => {
    const { code, rawMessage, metadata } = ConnectError.from(error);
    const status = metadata.get('grpc-status-details-bin');
    return { code, details: rawMessage, status: status && encodeBase64(Buffer.from(status, 'base64')) };
  };
  return { make, describe, close: () => {} };
}

async function* send(messages) {
  yield* messages;
}

async function collect(answers) {
  const collected = [];
  for await (const answer of answers) {
    collected.push(answer);
  }
  return collected;
}

await answerCalls(open);
