// Follows a run to its end, and returns what came, as the tests compare it with the server's own records.

export async function gather({ follow, RunReader }, url, options) {
  let reader = new RunReader();
  let reconnections = 0;
  const taken = []; // [first number, number of merged records]
  const types = [];
  for await (const message of follow(url, options)) {
    if (message.type === "connection" && message.state === "reconnecting") reconnections++;
    if (message.type !== "connection" && message.type !== "clock") types.push(message.type);
    if (message.type !== "records") continue;
    if (message.snapshot) {
      reader = new RunReader();
      taken.length = 0;
    }
    for (const record of message.records) {
      taken.push([record.seq, record.count ?? 1]);
      reader.feed(record);
    }
  }
  const [text, call] = reader.blocks.values();
  const partial = JSON.parse(JSON.stringify(call?.partial ?? null));
  return { taken, reconnections, last: types.at(-1), text: String(text?.text ?? ""), partial, status: reader.status };
}
