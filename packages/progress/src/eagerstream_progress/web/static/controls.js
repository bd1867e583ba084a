// Stop a run, and say something to its model.

import { h } from "./dom.js";
import { icon } from "./format.js";

// `state`: isStopping (the reader is asked if he is sure), and sent and problem of the last action.
// `ui`: ask(isStopping), stop(), say(text, when); `say` returns true if it was sent.
export function drawControls(state, ui) {
  return h("section", { class: "controls", key: "controls", "aria-label": "Controls of the run" },
    h("form", { on: { submit: (event) => submit(event, ui) } },
      h("label", { for: "message" }, "Say something to the model"),
      h("input", { id: "message", name: "message", type: "text", maxlength: "10000", autocomplete: "off", disabled: state.sent === true }),
      h("div", { class: "buttons" },
        h("button", { type: "submit", value: "next_turn", disabled: state.sent === true }, icon("arrow"), "Say"),
        h("button", { type: "submit", value: "now", disabled: state.sent === true, title: "Cuts what the model is writing" }, icon("scissors"), "Interrupt"),
        state.isStopping
          ? [h("button", { key: "sure", type: "button", class: "stop", disabled: state.sent === true, on: { click: () => ui.stop() } }, icon("cross"), "Yes, stop the run"),
            h("button", { key: "no", type: "button", class: "keep", on: { click: () => ui.ask(false) } }, "No")]
          : h("button", { key: "stop", type: "button", class: "stop", on: { click: () => ui.ask(true) } }, icon("cross"), "Stop"))),
    state.problem && h("p", { class: "problem", role: "alert" }, state.problem));
}

async function submit(event, ui) {
  event.preventDefault(); // the page stays
  const field = event.target.elements.message;
  const text = field.value.trim();
  if (text && (await ui.say(text, event.submitter?.value ?? "next_turn"))) field.value = "";
}
