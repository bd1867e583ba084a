// Built from packages/progress/clients/eagerstream-records by `npm run build`. Do not edit.

var MAX_TIMER_MS = 2 ** 31 - 1;
async function pause(delayMs, signal) {
  const over = new AbortController();
  let timer;
  try {
    await new Promise((resolve, reject) => {
      signal.throwIfAborted();
      timer = setTimeout(resolve, Math.min(delayMs, MAX_TIMER_MS));
      signal.addEventListener("abort", () => reject(signal.reason), over);
      globalThis.addEventListener?.("online", resolve, over);
    });
  } finally {
    clearTimeout(timer);
    over.abort();
  }
}
function closable(start, outer) {
  const controller = new AbortController();
  const { signal } = controller;
  const generator = start(signal);
  const abort = () => controller.abort(outer?.reason);
  if (outer?.aborted) abort();
  else outer?.addEventListener("abort", abort, { signal });
  let isClosed = false;
  const close = () => {
    isClosed = true;
    controller.abort();
    void generator.return(void 0).catch(() => void 0);
  };
  const end = { done: true, value: void 0 };
  return {
    async next() {
      try {
        signal.throwIfAborted();
        const result = await generator.next();
        if (!isClosed && !result.done) return result;
      } catch (error) {
        if (!isClosed) {
          close();
          throw error;
        }
      }
      close();
      return end;
    },
    async return() {
      close();
      return end;
    },
    close,
    [Symbol.asyncIterator]() {
      return this;
    }
  };
}

var MessageTooLong = class extends Error {
  name = "MessageTooLong";
  constructor(maxChars) {
    super(`a message has over ${maxChars} characters`);
  }
};
var SSEDecoder = class {
  /** The server's wish for the time before a reconnection, in milliseconds; null if it has none. */
  retryMs = null;
  #maxChars;
  #line = [];
  // pieces of the unfinished line
  #endedWithCR = false;
  #data = [];
  #event = "";
  #id = "";
  #chars = 0;
  // of the unfinished message
  constructor(maxChars) {
    this.#maxChars = maxChars;
  }
  /** @throws MessageTooLong if the unfinished message has more characters than allowed. */
  feed(text) {
    const messages3 = [];
    let start = this.#endedWithCR && text.startsWith("\n") ? 1 : 0;
    if (text) this.#endedWithCR = text.endsWith("\r");
    const end = /\r\n?|\n/g;
    end.lastIndex = start;
    for (let found = end.exec(text); found; found = end.exec(text)) {
      this.#keep(text.slice(start, found.index));
      start = end.lastIndex;
      const line = this.#line.join("");
      this.#line = [];
      if (line) this.#take(line);
      else this.#dispatch(messages3);
    }
    if (start < text.length) this.#keep(text.slice(start));
    return messages3;
  }
  #keep(piece) {
    this.#chars += piece.length;
    if (this.#chars > this.#maxChars) throw new MessageTooLong(this.#maxChars);
    this.#line.push(piece);
  }
  #take(line) {
    const colon = line.indexOf(":");
    if (colon === 0) {
      this.#chars -= line.length;
      return;
    }
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^[0-9]+$/.test(value)) this.retryMs = Number(value);
  }
  #dispatch(messages3) {
    if (this.#data.length) messages3.push({ event: this.#event || "message", data: this.#data.join("\n"), id: this.#id });
    this.#data = [];
    this.#event = "";
    this.#chars = 0;
  }
};

var HTTPError = class extends Error {
  name = "HTTPError";
  status;
  /** The time after which the server wants to be asked again; null if it did not say. */
  retryAfterS;
  constructor(status, text, retryAfterS = null) {
    super(text);
    this.status = status;
    this.retryAfterS = retryAfterS;
  }
};
var ConnectionLost = class extends Error {
  name = "ConnectionLost";
};
var MAX_REASON_CHARS = 1e3;
var INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu;
function headersOf({ token, headers }) {
  return { ...headers, ...token !== void 0 && { Authorization: `Bearer ${token}` } };
}
async function* openEvents(url, request, signal, { maxSilenceMs = 45e3, maxMessageChars = 2 ** 28 }) {
  signal.throwIfAborted();
  const controller = new AbortController();
  const abort = () => controller.abort(signal.reason);
  const inTime = async (waiting) => {
    const timer = setTimeout(() => controller.abort(new Error("silence")), Math.min(maxSilenceMs, MAX_TIMER_MS));
    try {
      return await waiting;
    } catch (error) {
      signal.throwIfAborted();
      throw new ConnectionLost("the connection is lost", { cause: error });
    } finally {
      clearTimeout(timer);
    }
  };
  signal.addEventListener("abort", abort, { signal: controller.signal });
  try {
    const response = await inTime(fetch(url, { ...request, redirect: "manual", signal: controller.signal }));
    const type = response.headers.get("content-type") ?? "";
    if (response.status !== 200 || !type.startsWith("text/event-stream") || !response.body) {
      const reason = await inTime(reasonOf(response));
      signal.throwIfAborted();
      const seconds = Number(response.headers.get("retry-after") ?? NaN);
      throw new HTTPError(response.status, `HTTP ${response.status}: ${reason}`, seconds >= 0 ? Math.min(seconds, 3600) : null);
    }
    yield { type: "open" };
    const decoder = new SSEDecoder(maxMessageChars);
    const reader = textOf(response.body);
    for (; ; ) {
      const { done, value } = await inTime(reader.read());
      if (done) return;
      const found = decoder.feed(value);
      if (decoder.retryMs !== null) {
        yield { type: "retry", retryMs: decoder.retryMs };
        decoder.retryMs = null;
      }
      for (const message of found) yield { type: "message", message };
    }
  } finally {
    controller.abort();
  }
}
async function reasonOf(response) {
  if (response.type === "opaqueredirect" || response.status >= 300 && response.status < 400) return "it redirects";
  if (response.status < 400) return "no event-stream";
  let text = "";
  try {
    const reader = textOf(response.body);
    for (let part = await reader.read(); !part.done && text.length < MAX_REASON_CHARS; part = await reader.read()) text += part.value;
  } catch {
  }
  return text.slice(0, MAX_REASON_CHARS).replace(INVISIBLE, " ").trim();
}
function textOf(body) {
  return body.pipeThrough(new TextDecoderStream()).getReader();
}

var RunControl = class {
  #url;
  #headers;
  /**
   * @param url The address of `web_app`, for example `/watch/`.
   * @param run The id of the run.
   */
  constructor(url, run, options = {}) {
    const base = String(url);
    this.#url = `${base}${base === "" || base.endsWith("/") ? "" : "/"}runs/${encodeURIComponent(run)}/`;
    this.#headers = { ...headersOf(options), "Content-Type": "application/json" };
  }
  /** Decide about a call that waits for a person. The model reads the reason of a refusal. */
  async decide(block, approved, reason) {
    await this.#post("decide", { block, approved, reason: reason || null });
  }
  /** Say something to the model: with its next request, when it would end, or now, which cuts its response. */
  async sendMessage(message, when = "next_turn") {
    await this.#post("messages", { message, when });
  }
  /** Cancel the run. */
  async cancel() {
    await this.#post("cancel", {});
  }
  /** Cancel one call. The others and the run go on, and the model reads the reason. */
  async cancelCall(block, reason) {
    await this.#post("cancel", { block, reason: reason || null });
  }
  async #post(path, body) {
    await act(this.#url + path, { method: "POST", headers: this.#headers, body: JSON.stringify(body) });
  }
};
async function cancelChat(id, { api = "/api/chat", ...options } = {}) {
  await act(`${api}/${encodeURIComponent(id)}/stream`, { method: "DELETE", headers: headersOf(options), keepalive: true });
}
async function act(url, request) {
  const response = await fetch(url, { ...request, redirect: "manual" }).catch((error) => {
    throw new ConnectionLost("the server cannot be reached", { cause: error });
  });
  if (!response.ok) throw new HTTPError(response.status, await reasonOf(response));
}

var ExactNumber = class {
  digits;
  constructor(digits) {
    this.digits = digits;
  }
  toBigInt() {
    return BigInt(this.digits);
  }
  toString() {
    return this.digits;
  }
  /** Return the form that `parse` reads. */
  toJSON() {
    return { $number: this.digits };
  }
};
function parse(text) {
  try {
    return text.includes('number"') ? JSON.parse(text, revive) : JSON.parse(text);
  } catch (error) {
    throw error instanceof RangeError ? new SyntaxError("JSON too deep") : error;
  }
}
var ESCAPED = /^\$+\$number$/;
var DIGITS = /^-?[1-9][0-9]{0,4299}$/;
function revive(_, value) {
  if (!isContainer(value) || Array.isArray(value)) return value;
  const object = value;
  const names = Object.keys(object);
  const digits = names.length === 1 && names[0] === "$number" ? object.$number : null;
  if (typeof digits === "string" && DIGITS.test(digits)) return new ExactNumber(digits);
  if (!names.some((name) => ESCAPED.test(name))) return value;
  return Object.fromEntries(names.map((name) => [ESCAPED.test(name) ? name.slice(1) : name, object[name]]));
}
function isContainer(value) {
  return value !== null && typeof value === "object" && !(value instanceof ExactNumber);
}
function stringify(value) {
  if (value instanceof ExactNumber) return value.digits;
  if (!isContainer(value)) return Object.is(value, -0) ? "-0" : JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(stringify).join(",")}]`;
  return `{${Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}:${stringify(item)}`).join(",")}}`;
}

function read(event, data, seq) {
  switch (event) {
    case "records": {
      const { snapshot, records } = objectOf(parse(data));
      check(Number.isSafeInteger(seq));
      return { type: "records", snapshot: snapshot === true, records: listOf(records).map(recordOf), seq };
    }
    case "runs":
      return { type: "runs", runs: listOf(parse(data)).map(objectOf) };
    case "clock":
      return { type: "clock", elapsedS: Number(objectOf(parse(data))["elapsed_s"]) };
    case "end":
    case "gone":
      return { type: event };
    default:
      return null;
  }
}
function recordOf(value) {
  const { type, seq, at_s } = objectOf(value);
  check(typeof type === "string" && typeof seq === "number" && typeof at_s === "number");
  return value;
}
function objectOf(value) {
  check(isContainer(value) && !Array.isArray(value));
  return value;
}
function listOf(value) {
  check(Array.isArray(value));
  return value;
}
function check(isRight) {
  if (!isRight) throw new SyntaxError("the server sent no record");
}

var FIRST_DELAY_MS = 400;
var MAX_FAILURES = 5;
var LEAST_DELAY_MS = 100;
function follow(url, options = {}) {
  for (const name of ["after", "maxFailures", "maxDelayMs", "maxMessageChars", "maxSilenceMs"]) {
    const least = name === "after" ? 0 : 1;
    if (!((options[name] ?? least) >= least)) throw new TypeError(`${name} must be >= ${least}`);
  }
  const headers = headersOf(options);
  new Request(url, { headers });
  return closable((signal) => messages(String(url), headers, options, signal), options.signal);
}
async function* messages(url, known, options, signal) {
  const { after = 0, maxDelayMs = 8e3, maxFailures, stays } = options;
  let position = after;
  let failures = 0;
  let mostFailures = maxFailures ?? MAX_FAILURES;
  let firstDelayMs = Math.min(FIRST_DELAY_MS, maxDelayMs);
  let delayMs = firstDelayMs;
  yield { type: "connection", state: "connecting" };
  for (; ; ) {
    let reason;
    try {
      failures++;
      const headers = { ...known, ...position && { "Last-Event-ID": String(position) } };
      for await (const opened of openEvents(url, { headers }, signal, options)) {
        if (opened.type === "open") {
          failures = 0;
          mostFailures = maxFailures ?? Infinity;
          yield { type: "connection", state: "live" };
        } else if (opened.type === "retry") {
          firstDelayMs = Math.min(Math.max(opened.retryMs, LEAST_DELAY_MS), maxDelayMs);
        } else {
          delayMs = firstDelayMs;
          const message = read(opened.message.event, opened.message.data, Number(opened.message.id));
          if (message?.type === "records") {
            if (!message.snapshot && message.seq <= position) continue;
            position = message.seq;
          }
          if (message) yield message;
          if (!stays && (message?.type === "end" || message?.type === "gone")) return;
        }
      }
    } catch (error) {
      if (signal.aborted || isFinal(error)) throw error;
      reason = error;
      if (error instanceof HTTPError) {
        failures = 0;
        delayMs = Math.max(delayMs, (error.retryAfterS ?? 0) * 1e3);
      }
    }
    if (failures >= mostFailures) throw new ConnectionLost(`no response after ${failures} attempts${whyNot(url)}`, { cause: reason });
    yield { type: "connection", state: "reconnecting", failures };
    await pause(delayMs * (0.75 + Math.random() / 2), signal);
    delayMs = Math.min(delayMs * 2, maxDelayMs);
  }
}
function whyNot(url) {
  const here = globalThis.location?.origin;
  if (here === void 0 || new URL(url, location.href).origin === here) return "";
  return `: if it runs, it may need the option origins=["${here}"]`;
}
function isFinal(error) {
  if (error instanceof HTTPError) return error.status < 500 && ![408, 425, 429].includes(error.status);
  return !(error instanceof ConnectionLost);
}

var PatchError = class extends Error {
  name = "PatchError";
  constructor() {
    super("the patch does not fit");
  }
};
function applyPatch(value, patch, owned) {
  return patched(value ?? null, owned ? patch : patch.map((one) => ({ ...one, value: copied(one.value) })), owned);
}
function patched(root, patch, owned) {
  for (const { op, path, value: operand } of patch) {
    const steps = stepsOf(path);
    const last = steps.pop();
    if (last === void 0) {
      root = op === "append" ? lengthened(root, operand) : operand;
      continue;
    }
    let parent = root = writable(root, owned);
    for (const step of steps) {
      const child = get(parent, step);
      const own = writable(child, owned);
      if (own !== child) put(parent, step, own);
      parent = own;
    }
    if (op === "append") put(parent, last, lengthened(get(parent, last), operand));
    else if (!Array.isArray(parent)) put(parent, last, operand);
    else if (op === "add") parent.splice(indexOf(last, parent.length), 0, operand);
    else parent[indexOf(last, parent.length - 1)] = operand;
  }
  return root;
}
var PartialValue = class {
  #value;
  #owned = /* @__PURE__ */ new WeakSet();
  constructor(value = null) {
    this.#value = value;
  }
  /** @throws PatchError if an operation does not fit. The operations before it are applied. */
  apply(patch) {
    this.#value = patched(this.#value, patch, this.#owned);
  }
  get value() {
    this.#owned = /* @__PURE__ */ new WeakSet();
    return this.#value;
  }
  /** The value without a promise: later patches change it in place. */
  get live() {
    return this.#value;
  }
};
function tellPieces(patch, tell) {
  for (const { op, path, value } of patch) {
    if (op === "append") tell(path, String(value), false);
    else tellTexts(path, value, tell);
  }
}
function tellTexts(path, value, tell) {
  if (typeof value === "string") tell(path, value, true);
  else if (isContainer(value)) {
    for (const [name, item] of Object.entries(value)) tellTexts(`${path}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`, item, tell);
  }
}
function stepsOf(path) {
  if (path === "") return [];
  const [before, ...steps] = path.split("/");
  if (before !== "") throw new PatchError();
  return path.includes("~") ? steps.map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~")) : steps;
}
function writable(value, owned) {
  if (!isContainer(value)) throw new PatchError();
  if (!owned || owned.has(value)) return value;
  const copy = Array.isArray(value) ? value.slice() : { ...value };
  owned.add(copy);
  return copy;
}
function get(parent, step) {
  if (Array.isArray(parent)) return parent[indexOf(step, parent.length - 1)];
  if (!Object.hasOwn(parent, step)) throw new PatchError();
  return parent[step];
}
function put(parent, step, value) {
  if (Array.isArray(parent)) parent[indexOf(step, parent.length - 1)] = value;
  else if (step !== "__proto__") parent[step] = value;
  else Object.defineProperty(parent, step, { value, writable: true, enumerable: true, configurable: true });
}
function indexOf(step, most) {
  const index = Number(step);
  if (!/^(?:0|[1-9][0-9]*)$/.test(step) || index > most) throw new PatchError();
  return index;
}
function lengthened(text, more) {
  if (typeof text !== "string" || typeof more !== "string") throw new PatchError();
  return text + more;
}
function copied(value) {
  if (!isContainer(value)) return value;
  if (Array.isArray(value)) return value.map(copied);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, copied(item)]));
}

var MAX_KEPT_CHARS = 2e7;
var CHUNK_CHARS = 8192;
var GrowingText = class {
  /** Number of characters, with those that are no longer kept. */
  length = 0;
  #chunks = [];
  #kept = 0;
  append(text) {
    const last = this.#chunks.length - 1;
    if (last >= 0 && this.#chunks[last].length < CHUNK_CHARS) this.#chunks[last] += text;
    else this.#chunks.push(text);
    this.length += text.length;
    this.#kept += text.length;
    while (this.#kept - this.#chunks[0].length > MAX_KEPT_CHARS) this.#kept -= this.#chunks.shift().length;
  }
  /** Count characters that the server no longer keeps. */
  omit(chars) {
    this.length += chars;
  }
  /** Return the last characters. */
  tail(chars) {
    let text = "";
    for (let place = this.#chunks.length; place > 0 && text.length < chars; ) text = this.#chunks[--place] + text;
    return text.slice(-chars);
  }
  /** True if all characters are still there. */
  get isWhole() {
    return this.#kept === this.length;
  }
  toString() {
    return this.#chunks.join("");
  }
};

var Turn = class {
  constructor(turn, startS) {
    this.turn = turn;
    this.startS = startS;
  }
  turn;
  startS;
  stopS = null;
  blocks = [];
  notes = [];
  error = null;
  usage = null;
  /** Rises with each change of the turn itself. */
  version = 0;
};
var AnyBlock = class {
  constructor(block, kind, turn, startS) {
    this.block = block;
    this.kind = kind;
    this.turn = turn;
    this.startS = startS;
  }
  block;
  kind;
  turn;
  startS;
  /** True if the response of the block was restarted. */
  isVoid = false;
  stopS = null;
  /** Rises with each change. */
  version = 0;
};
var TextBlock = class extends AnyBlock {
  isCall = false;
  text = new GrowingText();
  /** The block in the API's form, without its text; null until it is complete. */
  content = null;
};
var Call = class extends AnyBlock {
  constructor(block, kind, turn, startS, id, name, input, number) {
    super(block, kind, turn, startS);
    this.id = id;
    this.name = name;
    this.number = number;
    this.input = new PartialValue(input);
    this.isWhole = input !== null;
    this.finished = new Set(Object.keys(input ?? {}));
  }
  id;
  name;
  number;
  isCall = true;
  input;
  /** True if the input came at once, without deltas. */
  isWhole;
  /** The input's text, as it was written. */
  raw = new GrowingText();
  /** Names of the finished fields. */
  finished;
  subRuns = [];
  /** The text edits that the tool has told: the files, and the places of the texts in the input. */
  edits = [];
  /** True if parts of the input are not there: its value stays as it was before them. */
  isOmitted = false;
  bytes = 0;
  fragments = 0;
  firstFragmentS = null;
  lastFragmentS = null;
  inputStopS = null;
  outcome = null;
  error = null;
  approval = null;
  toolStartS = null;
  toolStopS = null;
  ran = null;
  isError = false;
  /** The end of its process, if it had not ended before. */
  cutS = null;
  progress;
  progressCount = 0;
  result;
  /** The input so far; null if there is nothing yet. It grows in place. */
  get partial() {
    return this.input.live;
  }
};
var epochs = 0;
var RunReader = class {
  /** Versions of different readers cannot be compared. */
  epoch = ++epochs;
  turns = [];
  blocks = /* @__PURE__ */ new Map();
  calls = [];
  /** The latest call with each id. */
  callById = /* @__PURE__ */ new Map();
  gaps = [];
  id = null;
  name = null;
  model = null;
  startedAt = null;
  /** The run's status; null until it has ended. */
  status = null;
  error = null;
  /** Time of the newest record, in seconds since the start of the run. */
  atS = 0;
  /** Time of the request that is answered now, or of what came of its answer last; null between a response and the next request. */
  quietSinceS = null;
  /** Time of the API's last sign of life while its model wrote nothing; null before the first. */
  pingS = null;
  usage = {};
  /** The token counts of each turn, by its number. */
  usageOf = /* @__PURE__ */ new Map();
  /** Number of complete responses; null until the run has ended. */
  turnCount = null;
  /** The option whose bound has ended the run; null if none has. */
  limit = null;
  /** The cost of the usage, in the currency of the program; null if it is not counted, and until the run has ended. */
  cost = null;
  /** True if no more records come, also if the last one is no `run_stop`. */
  ended = false;
  /** `seq` of the last message: set it if you want to continue there. */
  seq = 0;
  version = 0;
  #onAppend;
  constructor({ onAppend } = {}) {
    this.#onAppend = onAppend;
  }
  /** Tell of the pieces of texts that a patch has brought. */
  tell(call, patch) {
    const onAppend = this.#onAppend;
    if (onAppend) tellPieces(patch, (...piece) => onAppend(call, ...piece));
  }
  get isOver() {
    return this.status !== null || this.ended;
  }
  /**
   * Take the next record.
   *
   * @throws TypeError if a field of its type is missing or has another form.
   */
  feed(record) {
    this.version++;
    this.atS = Math.max(this.atS, ("to_s" in record ? record.to_s : void 0) ?? record.at_s);
    if (OF_RESPONSES.test(record.type)) this.quietSinceS = this.atS;
    if (Object.hasOwn(HANDLERS, record.type)) HANDLERS[record.type](this, record);
  }
  /** No more records come. */
  end() {
    this.ended = true;
    touchAll(this);
  }
  /** The current turn. */
  get turn() {
    if (!this.turns.length) this.turns.push(new Turn(1, this.atS));
    return this.turns.at(-1);
  }
  /** Return the call of a block; null if there is none. */
  callOf(block) {
    const call = this.blocks.get(block);
    return call?.isCall ? call : null;
  }
};
function phaseOf(call, run) {
  if (call.isVoid) return "void";
  if (call.outcome === "invalid") return "invalid";
  if (call.outcome === "incomplete") return "cut";
  if (call.toolStopS !== null) return call.isError ? "failed" : "done";
  if (call.cutS !== null) return "cut";
  const phase = call.toolStartS !== null ? "running" : call.approval?.stopS === null ? "approval" : call.inputStopS === null ? "writing" : "waiting";
  if (!run.isOver) return phase;
  if (phase !== "waiting") return "cut";
  return call.kind === "tool_use" ? "unrun" : phase;
}
var OF_RESPONSES = /^(turn|message|block|input)_st(art|op)$|_delta$/;
function ofCall(act2) {
  return (run, record) => {
    const call = run.callOf(record.block);
    if (!call) return;
    call.version++;
    act2(call, record, run);
  };
}
var HANDLERS = {
  run_start(run, { run: id, started_at, name, model }) {
    Object.assign(run, { id, startedAt: started_at, name, model });
  },
  run_resumed(run, { gap_s, at_s }) {
    Object.assign(run, { status: null, error: null, turnCount: null, quietSinceS: null });
    run.gaps.push({ atS: at_s, gapS: gap_s, before: run.turns.length });
    for (const block of run.blocks.values()) {
      block.stopS ??= at_s;
      if (block.isCall && block.toolStopS === null) block.cutS ??= at_s;
    }
    touchAll(run);
  },
  turn_start(run, { turn, at_s }) {
    run.turns.push(new Turn(turn, at_s));
  },
  message_start(run, { model, restarted, at_s }) {
    run.model = model ?? run.model;
    if (restarted) voidBlocks(run, at_s, { reason: "the response restarted", delayS: 0 });
  },
  block_start(run, { block, kind, at_s }) {
    addBlock(run, new TextBlock(block, kind, run.turn.turn, at_s));
  },
  text_delta: growText,
  thinking_delta: growText,
  block_stop(run, { block: number, content, at_s }) {
    const block = run.blocks.get(number);
    if (!block) return;
    Object.assign(block, { content, stopS: at_s });
    block.version++;
    const id = content["tool_use_id"];
    const call = typeof id === "string" ? run.callById.get(id) : void 0;
    if (!call || call.isVoid) return;
    const inner = content["content"];
    const type = isContainer(inner) && !Array.isArray(inner) ? inner["type"] : null;
    const isError = content["is_error"] === true || typeof type === "string" && type.includes("error");
    Object.assign(call, { toolStopS: at_s, isError, result: inner ?? content });
    call.version++;
  },
  input_start(run, { block, id, name, kind, input, at_s }) {
    const call = new Call(block, kind, run.turn.turn, at_s, id, name, input, run.calls.length + 1);
    addBlock(run, call);
    run.calls.push(call);
    run.callById.set(id, call);
    if (input !== null) run.tell(call, [{ op: "add", path: "", value: input }]);
  },
  input_delta: ofCall(growInput),
  input_stop: ofCall((call, { outcome, error, at_s }) => {
    Object.assign(call, { outcome, error: error ?? call.error, inputStopS: at_s, stopS: at_s });
    if (outcome === "valid" && isContainer(call.partial)) for (const name of Object.keys(call.partial)) call.finished.add(name);
  }),
  edit: ofCall((call, record) => call.edits.push(record)),
  message_stop(run, { usage }) {
    const { turn } = run;
    turn.usage = usage;
    turn.version++;
    run.quietSinceS = null;
    run.usage = addUsage(addUsage(run.usage, run.usageOf.get(turn.turn), -1), usage);
    run.usageOf.set(turn.turn, usage);
  },
  tool_start: ofCall((call, { at_s }) => {
    call.toolStartS = at_s;
  }),
  tool_progress: ofCall((call, { value }) => {
    call.progress = value;
    call.progressCount++;
  }),
  sub_run_start: ofCall((call, { run: id, model, at_s }) => {
    call.subRuns.push({ id, model, startS: at_s, stopS: null, status: null, turns: 0, usage: {} });
  }),
  sub_run_stop: ofCall((call, { run: id, status, turns, usage, at_s }) => {
    const place = call.subRuns.findIndex((other) => other.id === id);
    if (place >= 0) call.subRuns[place] = { ...call.subRuns[place], status, turns, usage, stopS: at_s };
  }),
  approval_start: ofCall((call, { at_s }) => {
    call.approval = { startS: at_s, stopS: null, approved: null, reason: null };
  }),
  approval_stop: ofCall((call, { approved, reason, at_s }) => {
    if (call.approval) call.approval = { ...call.approval, stopS: at_s, approved, reason };
  }),
  tool_stop: ofCall((call, { ran, is_error, content, at_s }) => {
    Object.assign(call, { toolStopS: at_s, ran, isError: is_error, result: content });
  }),
  turn_stop(run, { error, at_s }) {
    Object.assign(run.turn, { error, stopS: at_s });
    run.quietSinceS = null;
    run.turn.version++;
  },
  restarted(run, { reason, delay_s, at_s }) {
    voidBlocks(run, at_s, { reason, delayS: delay_s });
    run.quietSinceS = at_s + delay_s;
  },
  ping(run, { at_s }) {
    run.pingS = at_s;
  },
  unknown() {
  },
  run_stop(run, { status, turns, usage, error, limit, cost }) {
    Object.assign(run, { status, error, turnCount: turns, usage, quietSinceS: null, limit: limit ?? null, cost: cost ?? null });
    touchAll(run);
  }
};
var encoder = new TextEncoder();
function growInput(call, { fragment, patch, finished, count, at_s, to_s, omitted_chars = 0 }, run) {
  call.bytes += omitted_chars + encoder.encode(fragment).length;
  call.fragments += count ?? 1;
  call.firstFragmentS ??= at_s;
  call.lastFragmentS = to_s ?? at_s;
  call.isOmitted ||= omitted_chars > 0;
  if (call.isOmitted) {
    call.raw.omit(omitted_chars + fragment.length);
    return;
  }
  call.raw.append(fragment);
  try {
    call.input.apply(patch);
  } catch {
    call.isOmitted = true;
    call.error = "The records do not fit together.";
    return;
  }
  for (const { op, path } of patch) if (op === "replace") call.finished.delete(path.slice(1));
  for (const name of finished) call.finished.add(name);
  run.tell(call, patch);
}
function growText(run, record) {
  const block = run.blocks.get(record.block);
  if (!block || block.isCall) return;
  block.text.omit(record.omitted_chars ?? 0);
  block.text.append(record.type === "text_delta" ? record.text : record.thinking);
  block.version++;
}
function addBlock(run, block) {
  run.turn.blocks.push(block);
  run.turn.version++;
  run.blocks.set(block.block, block);
}
function voidBlocks(run, atS, why) {
  const { turn } = run;
  for (const block of turn.blocks) {
    if (block.isVoid) continue;
    block.isVoid = true;
    block.stopS ??= atS;
    block.version++;
  }
  turn.notes.push({ ...why, before: turn.blocks.length });
  turn.version++;
}
function touchAll(run) {
  run.version++;
  for (const turn of run.turns) turn.version++;
  for (const block of run.blocks.values()) block.version++;
}
function addUsage(sum, usage, sign = 1) {
  const total = new Map(Object.entries(sum));
  for (const [name, count] of Object.entries(usage ?? {})) {
    if (typeof count === "number") total.set(name, (total.get(name) ?? 0) + sign * count);
  }
  return Object.fromEntries(total);
}

var Snapshots = class {
  run;
  #blocks = /* @__PURE__ */ new Map();
  #turns = /* @__PURE__ */ new Map();
  constructor(run) {
    this.run = run;
  }
  /** Return the state now. The cost depends on what has changed, and on the number of blocks. */
  take() {
    const { id, name, model, startedAt, status, error, isOver, usage, limit, cost, atS, quietSinceS, pingS } = this.run;
    const turns = this.run.turns.map((turn) => this.#turn(turn));
    const calls = this.run.calls.filter((call) => !call.isVoid).map((call) => this.#block(call));
    const state = { id, name, model, startedAt, status, error, isOver, usage, limit, cost, atS, quietSinceS, pingS, turns, calls, gaps: [...this.run.gaps] };
    return state;
  }
  #turn(turn) {
    const known = this.#turns.get(turn);
    const blocks = turn.blocks.map((block) => this.#block(block));
    const isSame = known && known.error === turn.error && known.notes.length === turn.notes.length && known.blocks.length === blocks.length && blocks.every((block, place) => block === known.blocks[place]);
    if (isSame) return known;
    const state = { turn: turn.turn, blocks, notes: [...turn.notes], error: turn.error };
    this.#turns.set(turn, state);
    return state;
  }
  #block(block) {
    const known = this.#blocks.get(block);
    if (known?.version === block.version) return known.state;
    const state = block.isCall ? this.#call(block, known?.state) : textState(block);
    this.#blocks.set(block, { version: block.version, state });
    return state;
  }
  #call(call, known) {
    const { id, name, isOmitted, outcome, error, approval, progress, ran, isError, result } = call;
    return {
      ...common(call),
      isCall: true,
      id,
      name,
      isOmitted,
      outcome,
      error,
      approval,
      progress,
      ran,
      isError,
      result,
      phase: phaseOf(call, this.run),
      input: call.input.value,
      finished: known?.finished.size === call.finished.size ? known.finished : new Set(call.finished),
      subRuns: [...call.subRuns],
      edits: [...call.edits]
    };
  }
};
function textState(block) {
  return { ...common(block), isCall: false, text: String(block.text), content: block.content };
}
function common({ block, kind, turn, isVoid, startS, stopS }) {
  return { block, kind, turn, isVoid, startS, stopS };
}

function startRun(url, asked, options = {}) {
  const request = { method: "POST", headers: { ...headersOf(options), "Content-Type": "application/json" }, body: stringify(asked) };
  new Request(url, request);
  return closable((signal) => messages2(openEvents(String(url), request, signal, options)), options.signal);
}
async function* messages2(opened) {
  yield { type: "connection", state: "connecting" };
  let isOver = false;
  for await (const item of opened) {
    if (item.type === "open") yield { type: "connection", state: "live" };
    if (item.type !== "message") continue;
    const record = recordOf(parse(item.message.data));
    isOver ||= record.type === "run_stop";
    yield { type: "records", snapshot: false, records: [record], seq: record.seq };
  }
  if (!isOver) throw new ConnectionLost("the records ended before the run");
  yield { type: "end" };
}

var MAX_WAIT_MS = 100;
var RunStore = class {
  #open;
  #options;
  #listeners = /* @__PURE__ */ new Set();
  #snapshots;
  #connection = "idle";
  #error = null;
  #shown;
  #controller = null;
  #cancelFrame = null;
  /** @param options `onAppend`: see `OnAppend`. After a snapshot, all texts begin anew. */
  constructor(open, options = {}) {
    this.#open = open;
    this.#options = options;
    this.#snapshots = new Snapshots(new RunReader(options));
    this.#shown = this.#take();
  }
  /** Call a function after each change. Returns the function that ends this. */
  subscribe = (listener) => {
    const own = () => listener();
    this.#listeners.add(own);
    this.#start();
    return () => {
      this.#listeners.delete(own);
      queueMicrotask(() => this.#listeners.size || this.#stop());
    };
  };
  /** Return the state at the last change: the same object until the next one. */
  getSnapshot = () => this.#shown;
  #start() {
    if (this.#controller || this.#isOver) return;
    this.#controller = new AbortController();
    void this.#read(this.#controller.signal);
  }
  get #isOver() {
    return ["ended", "gone", "failed"].includes(this.#connection);
  }
  #stop() {
    this.#controller?.abort();
    this.#controller = null;
    this.#cancelFrame?.();
    this.#cancelFrame = null;
    if (!this.#isOver) this.#connection = "idle";
    this.#shown = this.#take();
  }
  #take() {
    return { run: this.#snapshots.take(), connection: this.#connection, error: this.#error };
  }
  async #read(signal) {
    try {
      await Promise.resolve();
      if (!this.#listeners.size) return;
      for await (const message of this.#open(signal, this.#snapshots.run.seq)) {
        if (signal.aborted) return;
        this.#feed(message);
        if (this.#isOver) return;
      }
      if (!signal.aborted) this.#feed({ type: "end" });
    } catch (error) {
      if (signal.aborted) return;
      [this.#connection, this.#error] = ["failed", error];
      this.#tellSoon();
    }
  }
  #feed(message) {
    if (message.type === "records") {
      if (message.snapshot) this.#snapshots = new Snapshots(new RunReader(this.#options));
      const { run } = this.#snapshots;
      for (const record of message.records) run.feed(record);
      run.seq = message.seq;
    } else if (message.type === "connection") {
      this.#connection = message.state;
    } else if (message.type === "gone") {
      this.#connection = "gone";
    } else if (message.type === "end") {
      this.#connection = "ended";
      this.#snapshots.run.end();
    } else return;
    this.#tellSoon();
  }
  #tellSoon() {
    this.#cancelFrame ??= nextFrame(() => {
      this.#cancelFrame = null;
      this.#shown = this.#take();
      for (const listener of [...this.#listeners]) listener();
    });
  }
};
function nextFrame(act2) {
  const run = () => {
    cancel();
    act2();
  };
  const frame = globalThis.requestAnimationFrame?.(run);
  const timer = setTimeout(run, frame === void 0 ? 16 : MAX_WAIT_MS);
  const cancel = () => {
    clearTimeout(timer);
    if (frame !== void 0) cancelAnimationFrame(frame);
  };
  return cancel;
}
export {
  Call,
  ConnectionLost,
  ExactNumber,
  GrowingText,
  HTTPError,
  MessageTooLong,
  PartialValue,
  PatchError,
  RunControl,
  RunReader,
  RunStore,
  SSEDecoder,
  Snapshots,
  TextBlock,
  Turn,
  applyPatch,
  cancelChat,
  follow,
  isContainer,
  parse,
  phaseOf,
  startRun,
  stringify
};
