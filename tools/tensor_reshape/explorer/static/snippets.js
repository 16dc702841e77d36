// Writes a query as code: Python, a command, and JSON. The code runs without changes and makes exactly this query.

import { isPrintable, splitItems, trim } from "./notation.js";

const PORT = 50051; // the default port of `tensor-reshape serve`
const FIRST_OPERATION = "static_reshape";
const LINE_CHARACTERS = 60;
const COMMAND_CHARACTERS = 88;

/** Returns the snippets of a query. `link` is the URL of InferShape. */
export function writeSnippets(query, operation, request, link) {
  const list = listArguments(query, operation);
  return [
    { title: "Python, with a server", text: writeCall(list, new URL(link)) },
    { title: "Python, without a server", text: writeLocalCall(list) },
    { title: "Command line", text: writeCommand(query, operation) },
    { title: "JSON, by HTTP", text: writePost(link, request) },
  ];
}

/** Lists the arguments of `infer_shape`. */
function listArguments(query, operation) {
  const list = [writeShape(query.get("data")), writeShape(query.get("shape"))];
  list.push(`special_zero=${{ true: "True", false: "False" }[query.get("special_zero")] ?? "None"}`);
  if (operation !== FIRST_OPERATION) list.push(`operation=${JSON.stringify(operation)}`);
  if (isExpected(query)) list.push(`expected_shape=${writeShape(query.get("expected"))}`);
  return list;
}

function isExpected(query) {
  return trim(query.get("expected") ?? "") !== "";
}

function writeCall(list, { protocol, hostname }) {
  // The gRPC port of a server uses TLS if its HTTP port does.
  const isSecure = protocol === "https:";
  return `${isSecure ? "import grpc\n\n" : ""}from tensor_reshape.client import Client\n\n`
    + `with Client("${hostname}:${PORT}"${isSecure ? ", credentials=grpc.ssl_channel_credentials()" : ""}) as client:\n`
    + `    output = client.infer_shape(${join(list, 4)})\nprint(output)\n`;
}

function writeLocalCall(list) {
  return "from tensor_reshape.client import infer_shape_locally\n\n"
    + `output = infer_shape_locally(${join(list, 0)})\nprint(output)\n`;
}

/** Joins arguments on one line if they fit, and otherwise one per line. */
function join(words, indent) {
  if (words.join(", ").length <= LINE_CHARACTERS) return words.join(", ");
  const margin = `\n${" ".repeat(indent)}`;
  return words.map((word) => `${margin}    ${word},`).join("") + margin;
}

function writeCommand(query, operation) {
  const words = ["tensor-reshape infer", writeOption("data", query), writeOption("shape", query)];
  const zero = query.get("special_zero");
  if (zero) words.push(zero === "true" ? "--special-zero" : "--no-special-zero");
  if (operation !== FIRST_OPERATION) words.push(`--operation ${operation}`);
  if (isExpected(query)) words.push(writeOption("expected", query, "expect"));
  return joinWords([...words, "--explain --local"]);
}

function writePost(link, request) {
  const words = [`curl -sS ${quote(link)}`, "-H 'Content-Type: application/json'", `-d ${quote(JSON.stringify(request))}`];
  return joinWords(words);
}

function joinWords(words) {
  const line = words.join(" ");
  return `${line.length <= COMMAND_CHARACTERS ? line : words.join(" \\\n    ")}\n`;
}

function writeShape(text) {
  const items = splitItems(text);
  return items === null ? "None" : `[${items.map((item) => writeDim(item.text)).join(", ")}]`;
}

function writeDim(text) {
  if (text === "?") return "None";
  // The escapes of JSON are also those of Python.
  return /^-?[0-9]+$/.test(text) ? String(BigInt(text)) : JSON.stringify(show(text));
}

function writeOption(name, query, option = name) {
  const items = splitItems(query.get(name));
  const plain = items === null ? "..." : items.map((item) => show(item.text)).join(",");
  // Without an equals sign, a value that begins with a dash would be parsed as an option.
  return `--${option}${plain.startsWith("-") ? "=" : " "}${quote(plain)}`;
}

/** Returns the text of a dim. Unprintable characters only separate its parts, so they are replaced by spaces. */
function show(text) {
  return [...text].map((character) => (isPrintable(character) ? character : " ")).join("");
}

/** Returns a text as one argument of a shell. */
function quote(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`;
}
