// What protobuf-es looks for when it is loaded, and Node has from version 25 on. Without it, it makes the JSON of a chunk
// one character at a time: for 64 MiB that takes 3 GB, and on a busy machine more than a minute without a turn for others.

Uint8Array.prototype.toBase64 ??= function toBase64() {
  return Buffer.from(this.buffer, this.byteOffset, this.byteLength).toString('base64');
};
