// Makes calls with @connectrpc/connect-node and messages of @bufbuild/protobuf.

import './native_base64.mjs'; // must be first, because the next import uses it

import { createFileRegistry, fromBinary, fromJson, toJson } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';

import { answerCalls } from './calls_of_node.mjs';

async function open({ address, descriptors }) {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, Buffer.from(descriptors, 'base64')));
  const baseUrl = `http://${address}`;
  const sessionManager = new Http2SessionManager(baseUrl);
  const transport = createGrpcTransport({ baseUrl, sessionManager });

  async function make({ service: name, method: methodName, requests, streams, holds, seconds }) {
    const service = registry.getService(name);
    const method = service.methods.find((one) => one.name === methodName);
    const call = createClient(service, transport)[method.localName];
    const messages = requests.map((request) => fromJson(method.input, request, { registry }));
    const options = { timeoutMs: seconds * 1000 };
    const answers = streams ? await collect(call(send(messages, holds), options)) : [await call(messages[0], options)];
    return { responses: answers.map((answer) => toJson(method.output, answer, { registry, useProtoFieldName: true })) };
  }

  const describe = (error) => {
    const failure = ConnectError.from(error);
    const [{ reason, metadata } = {}] = failure.findDetails(registry.getMessage('google.rpc.ErrorInfo'));
    return { code: failure.code, message: failure.rawMessage, reason, metadata };
  };
  return { make, describe, close: () => sessionManager.abort() };
}

async function* send(messages, holds) {
  yield* messages;
  if (holds) await new Promise(() => {});
}

async function collect(answers) {
  const collected = [];
  for await (const answer of answers) {
    collected.push(answer);
  }
  return collected;
}

await answerCalls(open);
