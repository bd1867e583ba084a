// A server whose answers a test decides, and counts.

import { createServer } from "node:http";
import { once } from "node:events";

// answers: one function (request, response) per request; the last one answers all further requests.
export async function serve(test, ...answers) {
  const requests = [];
  const server = createServer((request, response) => {
    requests.push({ after: Number(request.headers["last-event-id"] ?? 0), headers: request.headers, method: request.method, url: request.url });
    answers[Math.min(requests.length, answers.length) - 1](request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  test.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}/events?run=r`, requests };
}

export const message = (event, data, id) =>
  `event: ${event}\n${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`;

export const batch = (seq, { snapshot = false, records = [{ v: 2, seq, at_s: 0, type: "turn_start", turn: seq }] } = {}) =>
  message("records", { snapshot, records }, seq);

// Sends these texts; then ends, cuts the connection, or keeps it open.
export const stream = (texts, then = "end") => (_, response) => {
  response.writeHead(200, { "Content-Type": "text/event-stream; charset=utf-8" });
  response.write("retry: 1\n\n");
  for (const text of texts) response.write(text);
  if (then === "end") response.end();
  else if (then === "cut") setImmediate(() => setImmediate(() => response.destroy()));
};

export const refuse = (status, headers = {}) => (_, response) => response.writeHead(status, headers).end("no\n");
