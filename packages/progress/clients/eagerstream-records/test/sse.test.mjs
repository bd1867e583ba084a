import assert from "node:assert/strict";
import { test } from "node:test";
import { MessageTooLong, SSEDecoder } from "eagerstream-records";

const STREAM = "retry: 250\n\n: comment\r\n\r\nevent: records\rid: 7\rdata: {\"a\":\rdata:1}\r\rdata\n\nid: 8\n\nevent: only\n\n"
  + "id: a\0b\ndata:  two spaces\nother: x\nretry: 1s\n\nevent: end\r\ndata: {}\r\n\r\ndata: cut off";
const EXPECTED = [
  { event: "records", data: '{"a":\n1}', id: "7" },
  { event: "message", data: "", id: "7" },
  { event: "message", data: " two spaces", id: "8" },
  { event: "end", data: "{}", id: "8" },
];

function decode(pieces, maxChars = 1000) {
  const decoder = new SSEDecoder(maxChars);
  const messages = pieces.flatMap((piece) => decoder.feed(piece));
  return { messages, retryMs: decoder.retryMs };
}

test("any cutting of the stream gives the same messages", () => {
  assert.deepEqual(decode([STREAM]), { messages: EXPECTED, retryMs: 250 });
  for (let size = 1; size < 20; size++) {
    const pieces = STREAM.match(new RegExp(`[^]{1,${size}}`, "g"));
    assert.deepEqual(decode(pieces), { messages: EXPECTED, retryMs: 250 }, `pieces of ${size}`);
    assert.deepEqual(decode(pieces.flatMap((piece) => [piece, ""])).messages, EXPECTED, `pieces of ${size}, and empty ones`);
  }
});

test("a message is bounded, a stream is not", () => {
  const message = `data: ${"x".repeat(80)}\n\n`;
  assert.equal(decode(Array(1000).fill(message), 100).messages.length, 1000);
  assert.equal(decode(Array(1000).fill(":".padEnd(90, "x") + "\n"), 100).messages.length, 0);
  for (const endless of ["data: x\n", "x", "event: x\n"]) assert.throws(() => decode(Array(1000).fill(endless), 100), MessageTooLong);
});
