// Common code of all Node clients. The first line on stdin is JSON with the server's address. Each further line is a call.
// Each result is printed as one line.

import { createInterface } from 'node:readline';

// Makes the calls one by one. A result is {responses}, or {code, message, reason, metadata} if the call fails.
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
