// What every client of Node does around its calls: a line of JSON with the server's address comes first, then one for
// each call, and each answer goes as one line.

import { createInterface } from 'node:readline';

// Makes the calls one after another. An answer is {responses}, or {code, message, reason, metadata} where the call fails.
export async function answerCalls(open) {
  let client;
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    if (client === undefined) {
      client = await open(JSON.parse(line));
    } else {
      console.log(JSON.stringify(await client.make(JSON.parse(line)).catch(client.describe)));
    }
  }
  client.close();
}
