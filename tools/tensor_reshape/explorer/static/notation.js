// Reads and writes shapes as text. The notation is that of the command line, which the Python modules
// `rules.notation` and `rules.names` define. Nothing here knows a rule of an operation.
//
// A dim is a BigInt, null if nothing is known, or the `kind` of a PartialDim message: interval, symbol or expression.

const SPACE = String.raw`[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]`; // as in Python
const IN_WORD = String.raw`[\p{L}\p{N}_]`;
const WORD = String.raw`[\p{L}\p{Nl}\p{No}_]${IN_WORD}*(?:(?:\.|::)${IN_WORD}+)*`;
const NUMBER = String.raw`[0-9]{1,40}(?:\.[0-9]{1,40})?(?![\p{L}\p{N}_.])`;
const OPERAND = String.raw`${SPACE}*(?:-|/(?!/))?${SPACE}*(?:${WORD}|${NUMBER})${SPACE}*`;
const FORMULA = String.raw`${OPERAND}(?:(?:\*\*|//|/(?!/)|[-+*%])${OPERAND})*`;
const POWER = String.raw`(?:${SPACE}*\*\*${SPACE}*[1-9][0-9]?(?!${IN_WORD}))?`;
const FACTOR = String.raw`${SPACE}*(?:${WORD}|[0-9]+(?![\p{L}\p{N}_.]))${POWER}${SPACE}*`;

const TOKEN = new RegExp(String.raw`${SPACE}*(?:(${WORD})|(${NUMBER})|'((?:[^']|'')+)'|(\*\*|//|[-+*/%^(),]))`, "uy");
const GROUP = new RegExp(String.raw`(?:${WORD})${SPACE}*\(${FORMULA}(?:,${FORMULA})*\)|\(${FORMULA}\)`, "gu");
const ALL_FORMULA = matchAll(FORMULA);
const ALL_PRODUCT = matchAll(String.raw`${FACTOR}(?:[*/]${FACTOR})*`);
const ALL_WORD = matchAll(WORD);
const NUMBERS = matchAll(String.raw`-?[0-9]+(?:${SPACE}*x${SPACE}*-?[0-9]+)+`);
const BOUNDED = matchAll(String.raw`([^]*):${SPACE}*([0-9]+)\.\.([0-9]*)`);
const PIECE = /'[^']*'|[(),]/g;
const ENDS = new RegExp(`^${SPACE}+|${SPACE}+$`, "gu");
const START = new RegExp(`^${SPACE}*`, "u");

const MAX_DIM_CHARACTERS = 4096;
const MAX_NAME_CHARACTERS = 64;
const MAX_NESTING = 16;
const GROUP_READ = " 0 "; // replaces a call or a pair of parentheses that has been matched
const NO_NAMES = ["None", "unknown"]; // other tools write these texts for an unknown dim
const UNKNOWN_RANK = ["...", "unknown"];
const CLOSING = { "[": "]", "(": ")" };
const ONE = { coefficient: 1n, factors: [], divisor: 1n, divisors: [] };

function matchAll(pattern) {
  return new RegExp(`^(?:${pattern})$`, "u");
}

/** Returns a text without spaces at its ends. */
export function trim(text) {
  return text.replace(ENDS, "");
}

/** Returns the items of a shape with their positions in the text, or null if the rank is unknown. */
export function splitItems(text) {
  const whole = cut(text, 0, text.length);
  const inner = openBrackets(text, whole);
  if (UNKNOWN_RANK.includes(inner.text)) return null;
  const items = inner.text ? [...split(text, inner)] : [];
  // Python writes a tuple of one item as `(3,)`.
  return items.length === 2 && !items[1].text && whole.text.startsWith("(") ? items.slice(0, 1) : items;
}

function cut(text, start, end) {
  const piece = text.slice(start, end);
  const plain = trim(piece);
  const at = start + START.exec(piece)[0].length;
  return { text: plain, start: at, end: at + plain.length };
}

function openBrackets(text, whole) {
  const opening = whole.text[0];
  if (whole.text.length < 2 || CLOSING[opening] !== whole.text.at(-1)) return whole;
  const inner = cut(text, whole.start + 1, whole.end - 1);
  // Parentheses may also belong to a single dim, as in `(N*M)` and `(A*B)/(C*D)`.
  const isShape = (inner.text.includes(",") && findDepths(inner.text).every(({ depth }) => depth >= 0))
    || NUMBERS.test(inner.text);
  return opening === "[" || !inner.text || isShape ? inner : whole;
}

function findDepths(text) {
  let depth = 0;
  return [...text.matchAll(PIECE)].map(({ 0: piece, index }) => {
    depth += countOpened(piece);
    return { piece, index, depth };
  });
}

function countOpened(piece) {
  return piece === "(" ? 1 : piece === ")" ? -1 : 0;
}

function* split(text, inner) {
  const places = NUMBERS.test(inner.text)
    ? [...inner.text.matchAll(/x/g)].map(({ index }) => index)
    : findDepths(inner.text).filter(({ piece, depth }) => piece === "," && depth <= 0).map(({ index }) => index);
  let { start } = inner;
  for (const place of places) {
    yield cut(text, start, inner.start + place);
    start = inner.start + place + 1;
  }
  yield cut(text, start, inner.end);
}

/** Whether more text must follow, as after `2,` or `4*`, or may follow, as after `N:1..`. An empty text may go on. */
export function isIncomplete(text) {
  const plain = trim(text);
  const opened = [...plain].filter((character) => "[(".includes(character)).length;
  const closed = [...plain].filter((character) => "])".includes(character)).length;
  return !plain || opened > closed || plain.split("'").length % 2 === 0
    || (/(?:[-+*/%^,:.]|[0-9]\s*x|:\s*[0-9]+)$/.test(plain) && plain !== "...");
}

/** Returns the dim of a text, or undefined if the text is not a dim. */
export function parseDim(text) {
  if (text.length > MAX_DIM_CHARACTERS) return undefined;
  if (text === "?") return null;
  if (/^-?[0-9]{1,40}$/.test(text)) return BigInt(text);
  const range = /^([0-9]+)\.\.([0-9]*)$/.exec(text);
  if (range) return { interval: readBounds(range[1], range[2]) };
  const bounded = BOUNDED.exec(text);
  return bounded ? readNamed(bounded[1], readBounds(bounded[2], bounded[3])) : readNamed(text, { min: 0n });
}

function readBounds(low, high) {
  return high ? { min: BigInt(low), max: BigInt(high) } : { min: BigInt(low) };
}

function readNamed(text, bounds) {
  const product = readWhole(text);
  if (!product?.divisor || !(product.factors.length || product.divisors.length)) return undefined;
  const given = bounds.min || bounds.max !== undefined ? { bounds } : {};
  if (isSingle(product) && product.factors.length) return { symbol: { name: product.factors[0], ...given } };
  const { coefficient, divisor } = product;
  return {
    expression: {
      ...(coefficient === 1n ? {} : { coefficient }),
      factors: product.factors.sort().map((name) => ({ name })),
      ...(divisor === 1n ? {} : { divisor }),
      divisors: product.divisors.sort().map((name) => ({ name })),
      ...given,
    },
  };
}

/** Whether a product is 1 or a single name. */
function isSingle({ coefficient, factors, divisor, divisors }) {
  return coefficient === 1n && divisor === 1n && factors.length <= 1 && !divisors.length;
}

function readWhole(text) {
  const tokens = readTokens(text);
  return tokens?.length ? readProduct(text, tokens) ?? readFormula(text, tokens) : null;
}

function readTokens(text) {
  const tokens = [];
  const end = text.length - text.match(new RegExp(`${SPACE}*$`, "u"))[0].length;
  let depth = 0;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < end) {
    const match = TOKEN.exec(text);
    if (!match) return null;
    const [whole, word, number, quoted, sign] = match;
    const plain = word ?? number ?? quoted?.replaceAll("''", "'") ?? sign;
    const kind = word ? "word" : number ? "number" : quoted ? "quoted" : "sign";
    const start = match.index + START.exec(whole)[0].length;
    const token = { kind, text: plain, start, end: TOKEN.lastIndex, opened: sign ? countOpened(sign) : 0 };
    depth += token.opened;
    if (depth < 0 || depth > MAX_NESTING || NO_NAMES.includes(word)) return null;
    tokens.push(token);
  }
  return depth ? null : tokens;
}

/** Reads factors with `*` and `/` between them from left to right, or returns null. */
function readProduct(text, tokens) {
  let [product, start, depth, sign] = [ONE, 0, 0, "*"];
  for (const [place, token] of [...tokens, { kind: "sign", text: "*", opened: 0 }].entries()) {
    depth += token.opened;
    if (depth || token.kind !== "sign" || !"*/".includes(token.text)) continue;
    const factor = readPower(text, tokens.slice(start, place));
    if (!factor) return null;
    product = multiply(product, sign === "/" ? invert(factor) : factor);
    [start, sign] = [place + 1, token.text];
  }
  return product;
}

function multiply(left, right) {
  return {
    coefficient: left.coefficient * right.coefficient,
    factors: [...left.factors, ...right.factors],
    divisor: left.divisor * right.divisor,
    divisors: [...left.divisors, ...right.divisors],
  };
}

function invert({ coefficient, factors, divisor, divisors }) {
  return { coefficient: divisor, factors: divisors, divisor: coefficient, divisors: factors };
}

function readPower(text, tokens) {
  const [before, power] = tokens.slice(-2);
  if (tokens.length <= 2 || before.kind !== "sign" || !["^", "**"].includes(before.text)) {
    return readFactor(text, tokens);
  }
  // An exponent may follow only a single name.
  const factor = readFactor(text, tokens.slice(0, -2));
  if (!factor || !isSingle(factor) || !/^[1-9][0-9]?$/.test(power.text)) return null;
  return { ...ONE, factors: factor.factors.flatMap((name) => Array(Number(power.text)).fill(name)) };
}

function readFactor(text, tokens) {
  if (tokens.length === 1) {
    const [{ kind, text: piece }] = tokens;
    if (kind === "number") return /^[0-9]+$/.test(piece) ? { ...ONE, coefficient: BigInt(piece) } : null;
    return kind === "sign" ? null : { ...ONE, factors: [piece] };
  }
  if (tokens[0]?.kind === "word" && isEnclosed(tokens.slice(1))) return readFormula(text, tokens);
  if (!isEnclosed(tokens)) return null;
  const inside = tokens.slice(1, -1);
  return readProduct(text, inside) ?? readFormula(text, inside);
}

/** Whether the first token is an opening parenthesis that the last token closes. */
function isEnclosed(tokens) {
  let depth = 0;
  const end = tokens.findIndex(({ opened }) => (depth += opened) === 0);
  return end > 0 && end === tokens.length - 1;
}

/** A formula that is not a product, such as `seq + past`, is a single name. */
function readFormula(text, tokens) {
  if (!tokens.length) return null;
  const name = text.slice(tokens[0].start, tokens.at(-1).end);
  return flatten(name) === null ? null : { ...ONE, factors: [name] };
}

/** Returns a formula with its calls and parentheses replaced by a number, or null if the text cannot be a name. */
function flatten(text) {
  const words = text.match(new RegExp(WORD, "gu"));
  if (!isName(text) || !words || words.some((word) => NO_NAMES.includes(word))) return null;
  let flat = text;
  for (let pass = 0; pass < MAX_NESTING; pass += 1) flat = flat.replace(GROUP, GROUP_READ);
  return ALL_FORMULA.test(flat) ? flat : null;
}

function isName(text) {
  const count = [...text].length;
  return count > 0 && count <= MAX_NAME_CHARACTERS && isPrintable(text);
}

/** Whether a text has no control characters, no unassigned characters, and no spaces except U+0020. */
export function isPrintable(text) {
  return /^(?: |[^\p{C}\p{Z}])*$/u.test(text);
}

/** Returns a shape of a response as text: `[N, 4*C, 2..8, ?]`, or `[...]` if its rank is unknown. */
export function formatShape(shape) {
  return shape ? `[${listDims(shape).join(", ")}]` : "[...]";
}

/** Returns the dims of a shape of a response as texts. */
export function listDims({ dims = [], partial = [] }) {
  const entries = new Map(partial.map((entry) => [entry.index ?? 0, entry]));
  return dims.map((dim, index) => (String(dim) === "-1" ? formatDim(entries.get(index)) : String(dim)));
}

function formatDim({ interval, symbol, expression } = {}) {
  if (interval) return `${interval.min ?? 0}..${interval.max ?? ""}`;
  if (symbol) return writeName(symbol.name).text;
  return expression ? formatExpression(expression) : "?";
}

function formatExpression({ coefficient = "1", factors = [], divisor = "1", divisors = [] }) {
  const [above, below] = [listParts(coefficient, factors), listParts(divisor, divisors)];
  if (below.length === 1) return below[0] === "1" ? above.join("*") : `${above.join("*")}/${below[0]}`;
  return `${above.join("*")}/(${below.join("*")})`;
}

function listParts(number, symbols) {
  const powers = new Map();
  for (const { name } of symbols) powers.set(name, (powers.get(name) ?? 0) + 1);
  const parts = [...powers].map(([name, power]) => {
    const { text, isFactor } = writeName(name);
    return `${isFactor ? text : `(${text})`}${power === 1 ? "" : `^${power}`}`;
  });
  return String(number) !== "1" || !parts.length ? [String(number), ...parts] : parts;
}

/** Returns the text of a name, and whether the text can be a factor without parentheses. */
function writeName(name) {
  if (ALL_WORD.test(name) && !NO_NAMES.includes(name)) return { text: name, isFactor: true };
  const flat = flatten(name);
  const isCall = flat === GROUP_READ && new RegExp(`^${WORD}`, "u").test(name);
  if (flat === null || name !== trim(name) || (!isCall && ALL_PRODUCT.test(flat))) {
    return { text: `'${name.replaceAll("'", "''")}'`, isFactor: true };
  }
  return { text: name, isFactor: isCall };
}
