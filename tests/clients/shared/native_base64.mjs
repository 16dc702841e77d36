// protobuf-es uses this function if it exists when it is loaded. Node has it from version 25. Without it, protobuf-es
// makes the JSON of a chunk one character at a time. For 64 MiB, this takes 3 GB, and on a busy machine more than a minute,
// in which the process does nothing else.

Uint8Array.prototype.toBase64 ??= function toBase64() {
  return Buffer.from(this.buffer, this.byteOffset, this.byteLength).toString('base64');
};
