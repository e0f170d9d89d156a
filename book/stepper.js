// The stepper: walks through recorded traces, one chapter or two side by side. traces.js, made with the site, sets
// window.kvbook = {traces: {chapter: trace}, words: {id: text}}; common/trace.h says what a trace holds.
(() => {
  "use strict";
  const { traces, words } = window.kvbook;
  const NO_TOKEN = -1; // in a trace: an empty slot

  const SIGNS = { new: "+", held: "", evicted: "×", empty: "" };
  const STATES = { new: "new", held: "held", evicted: "not kept", empty: "empty" };

  // What a trace says ----------------------------------------------------------------------------------------------

  // Every slot during one forward, as slot_states() in common/trace_text.cpp finds them.
  function slotsOf(forward) {
    const kept = new Set(forward.after);
    const slots = forward.keys.map((position) => {
      if (position === NO_TOKEN) return { position, state: "empty" };
      if (!kept.has(position)) return { position, state: "evicted" };
      return { position, state: position >= forward.first_position ? "new" : "held" };
    });
    while (slots.length < forward.after.length) slots.push({ position: NO_TOKEN, state: "empty" });
    return slots;
  }

  function positionsOf(forward) {
    return forward.ids.map((_, i) => forward.first_position + i);
  }

  function keysOf(forward) {
    return forward.visible[0].length;
  }

  function heldBy(forward) {
    return forward.after.filter((position) => position !== NO_TOKEN).length;
  }

  // The text of the token at every position that the trace feeds.
  function tokensOf(trace) {
    const tokens = [];
    for (const forward of trace.forwards) forward.ids.forEach((id, i) => (tokens[forward.first_position + i] = words[id]));
    return tokens;
  }

  function range(positions) {
    const first = positions[0];
    const last = positions[positions.length - 1];
    return first === last ? `${first}` : `${first} to ${last}`;
  }

  function bytesText(bytes) {
    return bytes < 1000 ? `${bytes} B` : `${(bytes / 1000).toFixed(1)} kB`;
  }

  // What is shown --------------------------------------------------------------------------------------------------

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // The text so far; what this forward is the first to feed stands out.
  function sequence(trace, at) {
    const tokens = tokensOf(trace);
    const end = (i) => (i < 0 ? 0 : trace.forwards[i].first_position + trace.forwards[i].ids.length);
    const line = element("p", { class: "stepper-text" });
    tokens.slice(0, end(at)).forEach((token, position) => {
      line.append(position < end(at - 1) ? token : element("mark", {}, token));
    });
    return line;
  }

  function facts(forward, tokens) {
    const positions = positionsOf(forward);
    const fed = positions.map((position) => tokens[position]).join("").trim();
    const list = element("dl", { class: "stepper-facts" });
    const add = (name, what, value, text) =>
      list.append(element("div", {}, element("dt", {}, what), element("dd", { "data-fact": name, "data-value": value }, text)));
    add("fed", "tokens fed", forward.ids.length, `${forward.ids.length}: “${fed}”`);
    add("position", forward.ids.length > 1 ? "positions" : "position", forward.first_position, range(positions));
    add("keys", "keys seen", keysOf(forward), `${keysOf(forward)}`);
    const room = forward.after.length;
    add("held", "slots held after", heldBy(forward), room > heldBy(forward) ? `${heldBy(forward)} of ${room}` : `${heldBy(forward)}`);
    add("bytes", "bytes held after", forward.bytes, bytesText(forward.bytes));
    return list;
  }

  function strip(forward, tokens) {
    const list = element("ol", { class: "stepper-slots", "aria-label": "slots during this forward" });
    for (const { position, state } of slotsOf(forward)) {
      const empty = position === NO_TOKEN;
      const label = empty ? "empty" : `position ${position}, ${tokens[position].trim()}, ${STATES[state]}`;
      const slot = element("li", { class: `stepper-${state}`, "data-state": state });
      slot.append(element("span", { class: "stepper-hidden" }, label));
      if (!empty) {
        const sign = element("b", { "aria-hidden": "true" }, `${SIGNS[state]}${position}`);
        slot.append(sign, element("span", { "aria-hidden": "true" }, tokens[position].trim()));
      }
      list.append(slot);
    }
    return list;
  }

  function mask(forward) {
    const positions = positionsOf(forward);
    const head = element("tr", {}, element("td", { "aria-hidden": "true" }));
    for (const position of forward.keys) head.append(element("th", { scope: "col" }, position === NO_TOKEN ? "–" : `${position}`));
    const table = element("table", { class: "stepper-mask" });
    table.append(element("caption", {}, "mask: queries down, keys across, ● seen"), head);
    forward.visible.forEach((row, i) => {
      const line = element("tr", {}, element("th", { scope: "row" }, `${positions[i]}`));
      for (const seen of row) {
        line.append(element("td", seen ? { class: "stepper-seen" } : {}, element("span", { "aria-hidden": "true" }, seen ? "●" : ""),
          element("span", { class: "stepper-hidden" }, seen ? "seen" : "hidden")));
      }
      table.append(line);
    });
    return element("div", { class: "stepper-scroll", tabindex: "0", role: "group", "aria-label": "mask" }, table);
  }

  function panel(chapter, at) {
    const trace = traces[chapter];
    const forward = trace.forwards[at];
    const tokens = tokensOf(trace);
    return element("section", { class: "stepper-panel", "data-chapter": chapter, "aria-label": chapter },
      element("p", { class: "stepper-chapter" }, chapter), facts(forward, tokens), strip(forward, tokens), mask(forward));
  }

  function summary(chapter, at) {
    const forward = traces[chapter].forwards[at];
    return `${chapter} feeds ${forward.ids.length}, sees ${keysOf(forward)} keys, ` +
      `then holds ${heldBy(forward)} tokens in ${bytesText(forward.bytes)}.`;
  }

  // The page -------------------------------------------------------------------------------------------------------

  const chapters = Object.keys(traces);
  const steps = Math.min(...chapters.map((chapter) => traces[chapter].forwards.length));
  let at = 0;

  function choice(id, label, options, chosen) {
    const select = element("select", { id });
    for (const option of options) select.append(element("option", { value: option }, option || "nothing"));
    select.value = chosen;
    select.addEventListener("change", show);
    return [element("div", {}, element("label", { for: id }, label), " ", select), select];
  }

  function button(words, name, step) {
    const made = element("button", { type: "button", "data-step": name }, words);
    made.addEventListener("click", () => go(step()));
    return made;
  }

  const [leftChoice, left] = choice("stepper-left", "Show", chapters, chapters[0]);
  const [rightChoice, right] = choice("stepper-right", "beside", ["", ...chapters], chapters[1]);
  const start = button("⇤ start", "start", () => 0);
  const back = button("← back", "back", () => at - 1);
  const next = button("next →", "next", () => at + 1);
  const count = element("span", { class: "stepper-count" });
  const said = element("p", { class: "stepper-said", role: "status" });
  const text = element("div");
  const panels = element("div", { class: "stepper-panels" });

  function go(to) {
    at = Math.max(0, Math.min(steps - 1, to));
    show();
  }

  function show() {
    const shown = [left.value, right.value].filter((chapter) => chapter);
    count.textContent = `forward ${at + 1} of ${steps}`;
    // Not `disabled`: a button that loses itself under the reader's finger loses the keyboard's place, too.
    for (const [made, end] of [[start, 0], [back, 0], [next, steps - 1]]) made.setAttribute("aria-disabled", `${at === end}`);
    said.textContent = `Forward ${at + 1}: ${shown.map((chapter) => summary(chapter, at)).join(" ")}`;
    text.replaceChildren(sequence(traces[left.value], at));
    panels.replaceChildren(...shown.map((chapter) => panel(chapter, at)));
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.target.closest("input, select, textarea, .stepper-scroll")) return; // they have a use for the arrows
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    go(to);
  });

  const legend = element("ul", { class: "stepper-legend" });
  for (const state of Object.keys(STATES)) {
    const box = element("span", { class: `stepper-${state}`, "aria-hidden": "true" }, SIGNS[state]);
    legend.append(element("li", {}, box, ` ${STATES[state]}`));
  }

  document.getElementById("stepper").replaceChildren(
    element("div", { class: "stepper-controls" }, leftChoice, rightChoice),
    element("div", { class: "stepper-controls stepper-steps" }, start, back, next, count),
    text, panels, legend, said);
  show();
})();
