// Defines `call` in a page, which makes a call with @connectrpc/connect-web. tests/browsers loads the page in Chromium.

import { createFileRegistry, fromBinary, fromJson, toJson } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { ConnectError, createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';

globalThis.call = async ({ baseUrl, descriptors, useBinaryFormat, service: name, method: methodName, request }) => {
  const bytes = Uint8Array.from(atob(descriptors), (letter) => letter.charCodeAt(0));
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, bytes));
  const service = registry.getService(name);
  const method = service.methods.find((one) => one.name === methodName);
  const client = createClient(service, createConnectTransport({ baseUrl, useBinaryFormat }));
  try {
    const answer = await client[method.localName](fromJson(method.input, request, { registry }), { timeoutMs: 20_000 });
    return { response: toJson(method.output, answer, { registry, useProtoFieldName: true }) };
  } catch (error) {
    const failure = ConnectError.from(error);
    const [{ reason } = {}] = failure.findDetails(registry.getMessage('google.rpc.ErrorInfo'));
    return { code: failure.code, message: failure.rawMessage, reason };
  }
};
