// The runs of a journal, and decisions about calls of runs that wait.

import { h, sync } from "./dom.js";
import { line, visible } from "./format.js";

const EVERY_MS = 2_000;
const list = document.getElementById("journal");
const problem = document.getElementById("problem");
const announcer = document.getElementById("announcer");
const sent = new Set(); // the calls and runs with a decision under way
const reasons = new Map(); // by call
const keyOf = (...ids) => JSON.stringify(ids); // of a run, or of a call in it
let runs = null;

async function send(path, body, key, done) {
  if (sent.has(key)) return;
  sent.add(key);
  draw();
  try {
    const response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    problem.textContent = response.ok ? "" : (await response.text()).trim();
    if (response.ok) announcer.textContent = done;
  } catch {
    problem.textContent = "The program cannot be reached. Try again.";
  }
  await look();
  sent.delete(key);
  draw();
}

async function look() {
  try {
    const response = await fetch("journal/runs");
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    runs = await response.json();
    if (problem.dataset.kind === "look") problem.textContent = problem.dataset.kind = "";
  } catch (error) {
    problem.textContent = `The journal cannot be read (${error.message}).`;
    problem.dataset.kind = "look";
  }
  draw();
}

function draw() {
  if (runs === null) return;
  sync(list, runs.length ? runs.map(drawRun) : [h("li", { class: "empty" }, "No runs yet.")]);
}

function drawRun(run) {
  const facts = [run.model && line(run.model), run.turns === null ? null : `turn ${run.turns}`, `changed ${ago(run.idle_s)}`];
  const key = keyOf(run.run_id);
  const mayCancel = run.status === "running" || run.status === "waiting";
  return h("li", { key: run.run_id, class: "journal-run", "data-status": run.status },
    h("h2", null, h("a", { href: `journal/run?id=${encodeURIComponent(run.run_id)}` }, line(run.run_id, 255))),
    h("p", null, h("strong", null, run.status), run.owner === "silent" ? ", its owner is silent" : ""),
    h("p", { class: "faint" }, facts.filter(Boolean).join(", ")),
    run.asked.map((call) => drawCall(run, call)),
    mayCancel && h("button", {
      type: "button", "data-does": "cancel", disabled: sent.has(key),
      on: { click: () => send("journal/cancel", { run: run.run_id }, key, `Run ${line(run.run_id)} is cancelled`) },
    }, "Cancel run"));
}

function drawCall(run, call) {
  const key = keyOf(run.run_id, call.id);
  const name = line(call.name);
  const decide = (approved) => () => send(
    "journal/decide",
    { run: run.run_id, call: call.id, approved, reason: approved ? null : reasons.get(key) || null },
    key,
    `${name} is ${approved ? "approved" : "denied"}`,
  );
  return h("section", { key: call.id, class: "journal-call", "aria-label": `${name} waits for a decision` },
    h("h3", null, name),
    h("pre", { tabindex: "0" }, visible(call.input)),
    call.is_cut && h("p", { class: "journal-cut" },
      "A part of this input is not shown. So it cannot be approved here, but with `eagerstream runs approve`."),
    h("label", null, "Reason for a denial ", h("input", {
      type: "text", maxlength: "1000", on: { input: (event) => reasons.set(key, event.target.value) },
    })),
    h("p", { class: "journal-buttons" },
      !call.is_cut && h("button", { type: "button", "data-does": "approve", disabled: sent.has(key), on: { click: decide(true) } }, "Approve"),
      h("button", { type: "button", "data-does": "deny", disabled: sent.has(key), on: { click: decide(false) } }, "Deny")));
}

function ago(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 129_600 ? `${Math.round(seconds / 3_600)} h ago` : `${Math.round(seconds / 86_400)} days ago`;
}

async function follow() {
  for (;;) {
    if (!document.hidden) await look();
    await new Promise((resume) => setTimeout(resume, EVERY_MS));
  }
}

follow();
