// A program with the hook: one part starts a run of a gateway, the other follows the same run as a watcher.

import { StrictMode, createElement as h, memo, useState } from "react";
import { createRoot } from "react-dom/client";
import { startRun } from "eagerstream-records";
import { useRun } from "eagerstream-records/react";

globalThis.renders = {}; // of each paragraph, by its text
globalThis.errors = [];
addEventListener("unhandledrejection", ({ reason }) => errors.push(String(reason)));

const Paragraph = memo(({ paragraph }) => {
  renders[paragraph.text] = (renders[paragraph.text] ?? 0) + 1;
  return h("p", null, paragraph.text);
});

function Document({ followed: { run, connection, error }, id }) {
  const { title = "", paragraphs = [] } = run.calls.at(-1)?.input ?? {};
  return h("section", { id, "data-connection": connection, "data-status": run.status, "data-error": error && String(error.message) },
    h("h1", null, title),
    paragraphs.map((paragraph, place) => h(Paragraph, { key: place, paragraph })));
}

function Starting({ source, onRun }) {
  const followed = useRun(source);
  if (followed.run.id) queueMicrotask(() => onRun(followed.run.id));
  return h(Document, { followed, id: "started" });
}

function Watching({ run }) {
  const followed = useRun(run && `/watch/events?run=${run}`);
  return h(Document, { followed, id: "watched" });
}

function App() {
  const [source, setSource] = useState(null);
  const [run, setRun] = useState(location.hash.slice(1) || null);
  const start = () => setSource(() => (signal) => startRun("/runs", { topic: "harbours" }, { signal }));
  return h("main", null,
    h("button", { id: "start", onClick: start }, "start"),
    h("button", { id: "leave", onClick: () => setSource(null) }, "leave"),
    h("button", { id: "unknown", onClick: () => setRun("unknown") }, "follow an unknown run"),
    source && h(Starting, { source, onRun: setRun }),
    h(Watching, { run }));
}

createRoot(document.getElementById("root")).render(h(StrictMode, null, h(App)));
