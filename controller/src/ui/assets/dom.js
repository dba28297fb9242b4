// Elements from data. What somebody else wrote becomes text nodes only: nothing here parses markup.

/** An element with attributes (`on...` are listeners, `class` and the like attributes) and children. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== undefined && child !== null && child !== ""));
  return element;
}

/** A part of an address below `#`. */
export const path = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");

/** A time span in one or two units, as kubectl shows it. */
export function span(seconds) {
  if (!(seconds >= 0)) return "";
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0s";
  const [unit, size] = units[first];
  const whole = Math.floor(seconds / size) + unit;
  const next = units[first + 1];
  const rest = next ? Math.floor((seconds % size) / next[1]) : 0;
  return rest && seconds < size * 10 ? whole + rest + next[0] : whole;
}

/** How long ago a time was, with the time itself for whoever asks. */
export function age(text) {
  const at = Date.parse(text);
  if (Number.isNaN(at)) return "";
  const date = new Date(at);
  return h("time", { datetime: date.toISOString(), title: date.toLocaleString() }, span((Date.now() - at) / 1000) || "0s");
}

/** The time between two times. */
export function between(from, to) {
  const start = Date.parse(from);
  const end = to ? Date.parse(to) : Date.now();
  return Number.isNaN(start) ? "" : span((end - start) / 1000);
}

/** A word in the colour and form of what it means. */
export const state = (kind, word) => h("span", { class: "state " + kind }, word);

/** Names and values; without those that have none. */
export function facts(...pairs) {
  const list = h("dl");
  for (const [name, value] of pairs) {
    if (value === undefined || value === null || value === "") continue;
    list.append(h("dt", {}, name), h("dd", {}, value));
  }
  return list;
}

/** A table with a caption; rows are lists of cells, of which the first names the row. */
export function table(caption, columns, rows) {
  const head = h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)));
  const line = (cells) => h("tr", {}, cells.map((cell, n) =>
    n === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: "text" }, cell)));
  return h("table", {}, h("caption", {}, caption), h("thead", {}, head), h("tbody", {}, rows.map(line)));
}

/** Replaces what an element shows, but keeps what is open and where the focus is: elements are known by `data-key`. */
export function replace(element, ...children) {
  const key = (node) => node.dataset.key;
  const open = new Set([...element.querySelectorAll("details[open][data-key]")].map(key));
  const focused = element.contains(document.activeElement) ? document.activeElement.closest("[data-key]") : null;
  const active = focused && key(focused);
  element.replaceChildren(...children.flat(3).filter((child) => child !== undefined && child !== null && child !== ""));
  for (const details of element.querySelectorAll("details[data-key]")) {
    if (open.has(key(details))) details.open = true;
  }
  if (active) {
    const again = [...element.querySelectorAll("[data-key]")].find((node) => key(node) === active);
    const target = again && (again.tagName === "DETAILS" ? again.querySelector("summary") : again);
    if (target) target.focus();
  }
}
