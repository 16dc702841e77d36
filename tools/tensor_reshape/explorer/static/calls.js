// Calls the server: BatchInferShape with one query, and the drawing of the same query. A batch contains the rejection of
// a query in a good response. The browser would write an error to its console for the response of InferShape.

export const INFER_SHAPE = "tensor_reshape.v1.ReshapeService/InferShape";
const BATCH = "tensor_reshape.v1.ReshapeService/BatchInferShape";
const DRAWING = "explore/drawing";
/** Returns the outcome of a query: its answer or rejection with a drawing, or a text that says why there is none. */
export async function infer(request, token, signal) {
  try {
    const sent = [[BATCH, { items: [{ question: request }] }], [DRAWING, request]];
    const [reply, picture] = await Promise.all(sent.map(([path, message]) => post(path, message, token, signal)));
    const record = await reply.json().catch(() => ({})); // a proxy may send another form
    const drawing = picture.ok ? await picture.text() : "";
    const { answer, rejection } = record.results?.[0] ?? {};
    if (answer) return { answer, drawing };
    if (rejection) return { rejection: readRejection(rejection), drawing };
    return { failure: describeFailure(reply, record), needsToken: reply.status === 401 };
  } catch {
    return { failure: "No result: the server cannot be reached." };
  }
}

function post(path, request, token, signal) {
  const headers = { "Content-Type": "application/json" };
  if (/^[!-~]+$/.test(token)) headers.Authorization = `Bearer ${token}`; // other texts are not valid in a header
  return fetch(path, { method: "POST", headers, body: JSON.stringify(request), signal });
}

/** Returns a rejection whose message does not repeat the accepted values, which are shown separately. */
function readRejection({ reason, message = "", field = "", metadata = {} }) {
  const accepted = metadata.accepted ?? "";
  const ending = `; accepted: ${accepted}`;
  return { reason, message: message.endsWith(ending) ? message.slice(0, -ending.length) : message, accepted, field };
}

function describeFailure(reply, record) {
  const wait = reply.headers.get("Retry-After");
  return `No result: ${record.message ?? `HTTP status ${reply.status}`}${wait ? ` (try again in ${wait} s)` : ""}`;
}
