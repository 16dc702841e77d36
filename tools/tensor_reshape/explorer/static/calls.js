// Calls the server: InferShape, and the drawing of the same query.

export const INFER_SHAPE = "tensor_reshape.v1.ReshapeService/InferShape";
const DRAWING = "explore/drawing";
const INVALID_ARGUMENT = 3;
const RESOURCE_EXHAUSTED = 8;

/** Returns the outcome of a query: its answer or rejection with a drawing, or a text that says why there is none. */
export async function infer(request, token, signal) {
  try {
    const [reply, picture] = await Promise.all([INFER_SHAPE, DRAWING].map((path) => post(path, request, token, signal)));
    const record = await reply.json().catch(() => ({})); // a proxy may send another form
    const drawing = picture.ok ? await picture.text() : "";
    if (reply.ok) return { answer: record, drawing };
    const rejection = readRejection(record);
    if (rejection) return { rejection, drawing };
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

/** Returns the rejection of a google.rpc.Status, or null if the status is not about the query. */
function readRejection({ code, message = "", details = [] }) {
  const find = (name) => details.find((detail) => detail["@type"]?.endsWith(`/google.rpc.${name}`));
  const info = find("ErrorInfo");
  const isLimit = code === RESOURCE_EXHAUSTED && !find("RetryInfo") && info?.reason !== "STALLED";
  if (!info || !(code === INVALID_ARGUMENT || isLimit)) return null;
  const accepted = info.metadata?.accepted ?? "";
  const field = find("BadRequest")?.fieldViolations?.[0]?.field ?? "";
  const ending = `; accepted: ${accepted}`; // is shown separately
  return { reason: info.reason, message: message.endsWith(ending) ? message.slice(0, -ending.length) : message, accepted, field };
}

function describeFailure(reply, record) {
  const wait = reply.headers.get("Retry-After");
  return `No result: ${record.message ?? `HTTP status ${reply.status}`}${wait ? ` (try again in ${wait} s)` : ""}`;
}
