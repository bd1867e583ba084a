// The page: its state, its drawing, and the actions of the reader.

import { announce } from "./announce.js";
import { itemsOf } from "./cards.js";
import { drawControls } from "./controls.js";
import { connect, problemOf } from "./connection.js";
import { h, sync } from "./dom.js";
import { Finder, drawFind } from "./find.js";
import { LOST, PHASES, count, digits, line, pill, quietText, seconds, statusOf } from "./format.js";
import { RunControl, phaseOf } from "./records.js";
import { RunView } from "./run.js";
import { drawTimeline } from "./timeline.js";
import { WindowedList } from "./windowed.js";

const DRAW_MS = 66; // about 15 times per second
const CLOCK_MS = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 200;
const FED_AT_ONCE = 2000; // records, after which the browser has its turn
const ENDED_FAILURES = 4; // attempts without a response, after which the program counts as ended; it is still asked

const IS_SAVED = document.getElementById("saved") !== null; // in this file: there is no server
const main = document.getElementById("main");
const root = document.getElementById("run");
const runList = document.getElementById("runs");

let runs = null; // the list, newest first; null until it is known
let picked = pickedInAddress(); // the run that the reader chose; null follows the newest
let view = new RunView();
let shown = null; // the id of the run in `view`
let arrivedMs = performance.now(); // time of the newest record's arrival
let clock = null; // {elapsedS, atMs}: the age of the run at a time, if the program knows it
let lostMs = null; // time at which the connection, or the process of the run, was lost: later events are unknown
let focused = null; // the block of the card that had the focus last
let controls = {}; // the state of the controls of the run
let finder = new Finder();
let list = new WindowedList();
let listed = new Set(); // the keys of its items
let tabStop = null; // the block of the card that Tab reaches, if the list shows it
let rows = { top: 0, visible: 20 }; // of the timeline

// --- the run and its records ------------------------------------------------------------------------------------------

const connection = connect({
  connection({ state: word, failures }) {
    if (word === "connecting") return; // to another run: the page was connected before
    const hasEnded = failures >= ENDED_FAILURES;
    const element = document.getElementById("connection");
    if (element.dataset.state === "reconnecting" && word === "live") announce("Connected again");
    if (element.dataset.state === "live" && word === "reconnecting") announce("The connection is lost, reconnecting");
    lostMs = word === "live" && !isLost() ? null : (lostMs ?? performance.now());
    element.dataset.state = word;
    document.getElementById("connection-word").textContent = hasEnded ? "The program has ended" : word;
  },
  runs({ runs: list }) {
    runs = list.toReversed();
    if (isConnected()) lostMs = isLost() ? (lostMs ?? performance.now()) : null;
    const isFree = shown === null || (picked === null && view.isOver && !opened.size && focused === null);
    if (isFree) show(picked ?? runs[0]?.id ?? null);
    if (view.ended && runs.some((run) => run.id === shown && !run.ended)) {
      view.ended = false;
      connection.follow(shown); // it was resumed
    }
    draw();
  },
  clock({ elapsedS }) {
    clock = { elapsedS, atMs: performance.now() };
  },
  async records({ snapshot, records, seq }) {
    const into = snapshot ? new RunView() : view;
    const isShown = shown;
    for (let place = 0; place < records.length; place++) {
      into.feed(records[place]);
      if (place % FED_AT_ONCE === FED_AT_ONCE - 1) await pause();
    }
    if (shown !== isShown) return; // the reader has gone to another run meanwhile
    into.seq = seq;
    if (snapshot) {
      view = into;
      // Earlier events are not announced, except calls that wait for a decision.
      const waiting = view.calls.filter((call) => phaseOf(call, view) === "approval");
      view.announcements = waiting.map((call) => `${call.name} waits for your decision`);
    }
    for (const text of view.announcements.splice(0)) announce(text);
    arrivedMs = performance.now();
    drawTitle(); // now: a hidden page is not drawn, but its title is visible
    draw();
  },
  end() {
    view.end();
    draw();
  },
  gone() {
    history.replaceState(null, "", location.pathname);
    picked = shown = null;
    view = new RunView();
    if (runs?.length) show(runs[0].id);
    draw();
  },
});

function show(id) {
  if (id === shown) return;
  shown = id;
  clock = null;
  view = new RunView();
  controls = {};
  finder = new Finder();
  list = new WindowedList();
  rows = { top: 0, visible: 20 };
  opened.clear();
  focused = null;
  if (id !== null) connection.follow(id);
  draw();
}

function pickedInAddress() {
  try {
    return location.hash.startsWith("#run=") ? decodeURIComponent(location.hash.slice(5)) : null;
  } catch {
    return null;
  }
}

addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#run=")) return;
  picked = pickedInAddress();
  show(picked);
  main.focus();
});

// The age of the run in seconds: from the program or the newest record, plus the time since then.
function nowS() {
  if (view.isOver) return view.atS;
  const [fromS, fromMs] = clock ? [clock.elapsedS, clock.atMs] : [view.atS, arrivedMs];
  return Math.max(view.atS, fromS + ((lostMs ?? performance.now()) - fromMs) / 1000);
}

// --- parts that the reader has opened ---------------------------------------------------------------------------------

const opened = new Set();

const ui = {
  isOpen: (key) => opened.has(key),
  toggle(key, block) {
    ui.setOpen(key, !opened.has(key));
    block.version++;
    draw();
  },
  setOpen(key, isOpen) {
    if (isOpen) opened.add(key);
    else opened.delete(key);
  },
  announce,
  // Looks for something else; null for nothing.
  find(changes) {
    finder.change(changes ?? { text: "", state: "all", tool: "" });
    if (changes === null) document.querySelector(".find").reset();
    draw();
  },
  redraw: (call) => redrawCall(call),
  canShow: (id) => runs?.some((run) => run.id === id) ?? false,
  tabStop: (call) => call.block === tabStop,
  canAct: () => !view.isOver && (runs?.some((run) => run.id === shown && run.acts) ?? false),
  ask(isStopping) {
    controls.isStopping = isStopping;
    draw();
  },
  stop: () => act(controls, (control) => control.cancel(), draw),
  async say(text, when) {
    const isSent = await act(controls, (control) => control.sendMessage(text, when), draw);
    controls.sent = false;
    if (isSent) announce("The message is sent");
    draw();
    return isSent;
  },
  async decide(call, approved, reason) {
    document.getElementById(`call-${call.block}`)?.focus(); // the buttons will be removed
    await act(call.approval, (control) => control.decide(call.block, approved, reason), () => redrawCall(call));
  },
  async cancelCall(call) {
    call.cancelling ??= {};
    await act(call.cancelling, (control) => control.cancelCall(call.block), () => redrawCall(call));
  },
};

// Does something to the shown run. `state` has `sent` and `problem` meanwhile.
async function act(state, does, redraw) {
  Object.assign(state, { sent: true, problem: null });
  redraw();
  try {
    await does(new RunControl("", shown));
    return true;
  } catch (error) {
    Object.assign(state, { sent: false, problem: problemOf(error) });
    return false;
  } finally {
    redraw();
  }
}

function redrawCall(call) {
  call.version++;
  draw();
}

const listedCalls = () => (finder.isActive ? view.calls.filter((call) => listed.has(`call-${call.block}`)) : view.calls);

function openCall(call) {
  const key = `call-${call.block}`;
  if (!listed.has(key)) ui.find(null);
  focused = call.block; // so that it is drawn, wherever it is
  drawNow();
  const card = document.getElementById(key);
  card?.scrollIntoView({ block: "nearest" });
  card?.focus({ preventScroll: true });
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the shown run
  main.focus();
});

// Only while a card itself has the focus: otherwise single letters belong to screen readers and fields.
main.addEventListener("keydown", (event) => {
  const card = event.target;
  if (!card.classList.contains("call") || event.ctrlKey || event.metaKey || event.altKey) return;
  const calls = listedCalls();
  const place = calls.findIndex((call) => `call-${call.block}` === card.id);
  const to = { j: place + 1, ArrowDown: place + 1, k: place - 1, ArrowUp: place - 1, Home: 0, End: calls.length - 1 }[event.key];
  if (to !== undefined) {
    event.preventDefault();
    if (calls[to]) openCall(calls[to]);
  } else if (event.key === "i" || event.key === "Enter") {
    event.preventDefault();
    card.querySelector(".inspect").click();
  }
});

main.addEventListener("focusin", (event) => {
  const card = event.target.closest(".call");
  if (!card) return;
  const block = Number(card.id.slice("call-".length));
  if (block === focused) return;
  focused = block;
  draw();
});

// --- drawing ----------------------------------------------------------------------------------------------------------

let isWaiting = false;
let isPressed = false; // no redrawing until the release: the click would hit a different element
let drawnMs = 0;
let tookMs = 0;

function draw() {
  if (isWaiting) return;
  isWaiting = true;
  // Slow drawing happens less often: it takes at most a third of the time.
  const delayMs = Math.max(0, Math.max(DRAW_MS, 3 * tookMs) - (performance.now() - drawnMs));
  setTimeout(() => requestAnimationFrame(drawNow), delayMs);
}

function drawNow() {
  isWaiting = false;
  if (isPressed) return;
  drawnMs = performance.now();
  drawRuns();
  drawTitle();
  // A reader at the end of the page stays there while it grows.
  const page = document.scrollingElement;
  const atEnd = page.scrollTop > 0 && page.scrollHeight - page.scrollTop - page.clientHeight < 60;
  list.steady(() => sync(root, runs !== null && !runs.length ? drawEmpty() : shown === null ? [] : drawRun()));
  if (atEnd && !view.isOver) page.scrollTop = page.scrollHeight;
  tookMs = performance.now() - drawnMs;
}

// After a scroll, at once: nothing is there yet.
function redrawSoon() {
  if (!isWaiting) requestAnimationFrame(drawNow);
  isWaiting = true;
}

for (const name of ["scroll", "resize"]) {
  addEventListener(name, () => {
    if (list.isStale) redrawSoon();
  });
}

const pause = () => new Promise((resume) => setTimeout(resume));

setInterval(() => {
  if (shown !== null && !view.isOver && view.seq) draw();
}, CLOCK_MS);

// Only for clickable elements: browsers do not report the release of a scroll bar.
addEventListener("pointerdown", (event) => {
  isPressed = event.button === 0 && event.target.closest("button, a, summary") !== null;
});

// The release, or an event instead of it: a scroll by touch, a drag, a menu, another window.
for (const name of ["pointerup", "pointercancel", "contextmenu", "blur"]) {
  addEventListener(name, () => {
    isPressed = false;
    draw();
  });
}

const isConnected = () => document.getElementById("connection").dataset.state === "live";

// True if the process that has the run does not answer.
const isLost = () => !view.isOver && (runs?.some((run) => run.id === shown && run.lost) ?? false);

function drawEmpty() {
  return [h("div", { class: "empty", key: "empty" }, h("h1", null, "No run yet"),
    h("p", null, "A run appears here as soon as it starts."))];
}

function drawRun() {
  const status = isLost() ? LOST : statusOf(view.status, view.ended);
  const tokens = view.usage;
  const facts = [
    ["Model", view.model === null ? null : line(view.model, 80)],
    ["Elapsed", seconds(nowS(), 1)],
    ["Quiet for", view.isOver ? null : quietText(view, nowS())],
    ["Cost", view.cost === null ? null : String(view.cost)],
    ["Ended by", view.limit === null ? null : line(view.limit.replaceAll("_", " "), 40)],
    ["Turns", String(view.turnCount ?? view.turns.length)],
    ["Tokens in", tokens.input_tokens === undefined ? null : digits(tokens.input_tokens)],
    ["Tokens out", tokens.output_tokens === undefined ? null : digits(tokens.output_tokens)],
  ].filter(([, fact]) => fact !== null);
  const waiting = view.calls.filter((call) => phaseOf(call, view) === "approval");
  const items = itemsOf(view, finder, ui);
  listed = new Set(items.map((item) => item.key));
  const calls = listedCalls();
  tabStop = listed.has(`call-${focused}`) ? focused : calls[0]?.block;
  const found = finder.isActive ? items.filter((item) => /^[cx]/.test(item.key)).length : null;
  return [
    h("header", { class: "run-header", key: `header ${shown}` },
      h("div", { class: "run-title" }, h("h1", null, line(view.name ?? view.id ?? shown, 120)), h("span", { id: "status" }, pill(status))),
      h("dl", null, facts.map(([name, fact]) => h("div", { key: name }, h("dt", null, name), h("dd", null, fact))))),
    !IS_SAVED && view.seq > 0 && h("p", { class: "downloads", key: "downloads" }, h("span", { class: "faint" }, "Download "),
      Object.entries({ records: "records.jsonl", page: "page.html" }).map(([word, file]) =>
        h("a", { key: word, href: `runs/${encodeURIComponent(shown)}/${file}`, download: "", title: "Secrets are masked" }, word))),
    isLost() && h("p", { class: "problem", key: "lost" }, "The program of this run does not answer. It may have ended, or it will go on later."),
    view.error && h("p", { class: "problem", key: "error" }, line(`${view.error.type}: ${view.error.text}`, 1000)),
    waiting.length > 0 && h("p", { class: "attention", key: "attention" }, `${count(waiting.length, "call waits", "calls wait")} for your decision. `,
      h("button", { type: "button", class: "quiet", on: { click: () => openCall(waiting[0]) } }, "Go to it")),
    drawTimeline(view, calls, nowS(), rows, { openCall, redraw: redrawSoon }),
    view.calls.length > 1 && drawFind(finder, view, found, ui, shown),
    list.draw(items, `call-${tabStop}`, shown),
    ui.canAct() && drawControls(controls, ui),
    view.calls.length > 0 && h("p", { class: "keys", key: "keys" }, "On a call: ", h("kbd", null, "j"), " ", h("kbd", null, "k"), " move, ", h("kbd", null, "i"), " inspects."),
  ];
}

function drawRuns() {
  sync(runList, (runs ?? []).map((run) => {
    const isShown = run.id === shown;
    const status = run.lost ? LOST : run.asks ? PHASES.approval : statusOf(isShown && view.status !== null ? view.status : run.status, run.ended);
    return h("li", { key: run.id },
      h("a", { href: `#run=${encodeURIComponent(run.id)}`, "aria-current": isShown ? "true" : null },
        h("span", { class: "run-name" }, line(run.name ?? run.model ?? run.id, 80)),
        h("span", { class: "run-facts" }, pill(status), h("span", { class: "faint" }, timeOfDay(run.started_at)))));
  }));
}

function timeOfDay(text) {
  const date = new Date(text ?? NaN);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
}

function drawTitle() {
  const waiting = view.calls.find((call) => phaseOf(call, view) === "approval");
  const what = waiting ? `${line(waiting.name, 40)} waits for you` : shown && view.seq ? `${statusOf(view.status, view.ended).word}: ${line(view.name ?? shown, 40)}` : "";
  document.title = what ? `${what} – eagerstream` : "eagerstream";
}

connection.follow(picked);
