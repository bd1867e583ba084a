// A list of which only the part near the visible one is drawn, so that a run of any length stays smooth. It scrolls
// with the page. Each item has its own height, which is measured when it is drawn, and guessed before.

import { h } from "./dom.js";

const MAX_WHOLE = 200; // shorter lists are drawn completely, so that the browser itself finds and prints all of it
const NEAR_PX = 1000; // drawn above and below the visible part
const GAP_PX = 12; // as in the style sheet
const TOP_PX = 60; // below the head of the page

export class WindowedList {
  #element = null;
  #items = [];
  #heights = new Map(); // measured, by key
  #drawn = []; // places of the drawn items
  #wanted = [0, 0]; // the part that had to be drawn, in pixels

  // items: {key, guessPx, draw}; the guess of an item's height must not change. `kept`: the key of an item that is drawn
  // wherever it is, because Tab goes there. `id`: of the run.
  draw(items, kept, id) {
    this.#items = items;
    this.#drawn = this.#choose(kept);
    const children = [];
    let last = -1;
    for (const place of this.#drawn) {
      children.push(this.#space(last + 1, place), items[place].draw());
      last = place;
    }
    children.push(this.#space(last + 1, items.length));
    return h("div", { class: "turns", key: `turns ${id}`, drawn: (element) => this.#measure(element) }, children);
  }

  // The part that is needed now is not drawn completely: after a scroll.
  get isStale() {
    if (this.#drawn.length === this.#items.length || !this.#element?.isConnected) return false;
    const [from, to] = this.#visible();
    return from - NEAR_PX / 2 < this.#wanted[0] || to + NEAR_PX / 2 > this.#wanted[1];
  }

  // Does something that changes heights, and leaves what the reader sees in its place.
  steady(change) {
    const page = document.scrollingElement;
    const anchor = page.scrollTop > 0 ? this.#anchor() : null;
    const before = anchor?.getBoundingClientRect().top;
    change();
    const moved = anchor?.isConnected ? anchor.getBoundingClientRect().top - before : 0;
    if (Math.abs(moved) >= 1) page.scrollTop += moved;
  }

  // The first item in the upper half of what is visible; else the one with the focus, if that is visible.
  #anchor() {
    if (!this.#element?.isConnected) return null;
    const children = [...this.#element.children].filter((child) => child.className !== "space");
    const isBetween = (child, bottomPx) => child.getBoundingClientRect().bottom > TOP_PX && child.getBoundingClientRect().top < bottomPx;
    return children.find((child) => isBetween(child, innerHeight / 2))
      ?? children.find((child) => child.contains(document.activeElement) && isBetween(child, innerHeight)) ?? null;
  }

  #visible() {
    const top = this.#element?.isConnected ? this.#element.getBoundingClientRect().top : 0;
    return [-top, innerHeight - top];
  }

  #choose(kept) {
    const items = this.#items;
    if (items.length <= MAX_WHOLE) return items.map((_, place) => place);
    const [from, to] = this.#visible();
    this.#wanted = [from - NEAR_PX, to + NEAR_PX];
    const chosen = [];
    let at = 0;
    items.forEach((item, place) => {
      const end = at + this.#heightOf(item);
      if ((end > this.#wanted[0] && at < this.#wanted[1]) || item.key === kept) chosen.push(place);
      at = end;
    });
    return chosen;
  }

  #heightOf(item) {
    return this.#heights.get(item.key) ?? item.guessPx;
  }

  #space(from, to) {
    if (from === to) return null;
    let height = -GAP_PX;
    for (let place = from; place < to; place++) height += this.#heightOf(this.#items[place]);
    return h("div", { class: "space", key: `space ${from}`, "aria-hidden": "true", style: { height: `${height}px` } });
  }

  #measure(element) {
    this.#element = element;
    if (this.#drawn.length === this.#items.length) return;
    let place = 0;
    for (const child of element.children) {
      if (child.className === "space") continue;
      const { key } = this.#items[this.#drawn[place++]];
      this.#heights.set(key, child.offsetHeight + GAP_PX);
    }
  }
}
