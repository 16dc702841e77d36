// Makes calls with the Connect protocol, with the library for browsers on Node. Each call is made with protobuf messages
// and with JSON, and both must agree.

import './native_base64.mjs'; // must be first, because the next import uses it

import { deepStrictEqual } from 'node:assert';

import { createFileRegistry, fromBinary, fromJson, toJson } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { ConnectError, createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';

import { answerCalls } from './calls_of_node.mjs';

async function open({ address, descriptors }) {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, Buffer.from(descriptors, 'base64')));
  const baseUrl = `http://${address}`;
  const transports = [true, false].map((useBinaryFormat) => createConnectTransport({ baseUrl, useBinaryFormat }));

  async function makeOne(transport, { service: name, method: methodName, requests, seconds }) {
    const service = registry.getService(name);
    const method = service.methods.find((one) => one.name === methodName);
    const message = fromJson(method.input, requests[0], { registry });
    try {
      const answer = await createClient(service, transport)[method.localName](message, { timeoutMs: seconds * 1000 });
      return { responses: [toJson(method.output, answer, { registry, useProtoFieldName: true })] };
    } catch (error) {
      return describe(error);
    }
  }

  async function make(call) {
    const [binary, json] = await Promise.all(transports.map((transport) => makeOne(transport, call)));
    deepStrictEqual(json, binary);
    return binary;
  }

  const describe = (error) => {
    const failure = ConnectError.from(error);
    const [{ reason, metadata } = {}] = failure.findDetails(registry.getMessage('google.rpc.ErrorInfo'));
    return { code: failure.code, message: failure.rawMessage, reason, metadata };
  };
  return { make, describe, close: () => {} };
}

await answerCalls(open);
