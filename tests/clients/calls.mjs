// What both clients do around their calls: all that is asked comes as one JSON object, and each answer goes as one line.

import { readFileSync } from 'node:fs';

export const SECONDS = 20;

// Makes the calls one after another. An answer is {responses}, or {code, details, status} where the call fails.
export async function answerCalls(open) {
  const asked = JSON.parse(readFileSync(0, 'utf8'));
  const client = await open(asked);
  for (const call of asked.calls) {
    console.log(JSON.stringify(await client.make(call).catch(client.describe)));
  }
  client.close();
}

export const encodeBase64 = (bytes) => (bytes === undefined ? null : Buffer.from(bytes).toString('base64'));
