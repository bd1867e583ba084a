// The runs of a journal, and decisions about calls of runs that wait.

import { h, sync } from "./dom.js";

const EVERY_MS = 2_000;
const list = document.getElementById("journal");
const problem = document.getElementById("problem");
const announcer = document.getElementById("announcer");
const sent = new Set(); // the calls and runs with a decision under way
const reasons = new Map(); // by call
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
  const facts = [run.model, run.turns === null ? null : `turn ${run.turns}`, `changed ${ago(run.idle_s)}`];
  const mayCancel = run.status === "running" || run.status === "waiting";
  return h("li", { key: run.run_id, class: "journal-run", "data-status": run.status },
    h("h2", null, h("a", { href: `journal/run?id=${encodeURIComponent(run.run_id)}` }, run.run_id)),
    h("p", null, h("strong", null, run.status), run.owner === "silent" ? ", its owner is silent" : ""),
    h("p", { class: "faint" }, facts.filter(Boolean).join(", ")),
    run.asked.map((call) => drawCall(run, call)),
    mayCancel && h("button", {
      type: "button", "data-does": "cancel", disabled: sent.has(run.run_id),
      on: { click: () => send("journal/cancel", { run: run.run_id }, run.run_id, `Run ${run.run_id} is cancelled`) },
    }, "Cancel run"));
}

function drawCall(run, call) {
  const key = `${run.run_id} ${call.id}`;
  const decide = (approved) => () => send(
    "journal/decide",
    { run: run.run_id, call: call.id, approved, reason: approved ? null : reasons.get(key) || null },
    key,
    `${call.name} is ${approved ? "approved" : "denied"}`,
  );
  return h("section", { key: call.id, class: "journal-call", "aria-label": `${call.name} waits for a decision` },
    h("h3", null, call.name),
    h("pre", { tabindex: "0" }, call.input),
    h("label", null, "Reason for a denial ", h("input", {
      type: "text", maxlength: "1000", on: { input: (event) => reasons.set(key, event.target.value) },
    })),
    h("p", { class: "journal-buttons" },
      h("button", { type: "button", "data-does": "approve", disabled: sent.has(key), on: { click: decide(true) } }, "Approve"),
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
