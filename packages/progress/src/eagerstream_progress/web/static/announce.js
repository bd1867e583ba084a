// Announcements for screen readers: states, not each fragment.

import { count, line } from "./format.js";

const EVERY_MS = 1000;
const MAX_SHOWN = 3;
const MAX_KEPT = 5;
const announcer = document.getElementById("announcer");
let next = [];

export function announce(text) {
  if (!next.length) setTimeout(tell, EVERY_MS);
  next.push(line(text, 120));
}

function tell() {
  const told = next.slice(-MAX_SHOWN);
  const hidden = next.length - told.length;
  next = [];
  const paragraph = document.createElement("p");
  paragraph.textContent = `${hidden ? `${count(hidden, "change")}. ` : ""}${told.join(". ")}`;
  announcer.append(paragraph);
  while (announcer.childElementCount > MAX_KEPT) announcer.firstChild.remove();
}
