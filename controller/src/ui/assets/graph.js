// A graph in columns: an ordered list for whoever reads it, lines between its entries for whoever sees it.

import { h } from "./dom.js";

/** The column of each node: behind all that it comes after. Circles are cut where they close. */
export function columns(nodes) {
  const byKey = new Map(nodes.map((node) => [node.key, node]));
  const column = new Map();
  const rank = (node, path) => {
    if (column.has(node.key)) return column.get(node.key);
    if (path.has(node.key) || path.size > 500) return 0;
    path.add(node.key);
    let found = 0;
    for (const key of node.after) {
      const before = byKey.get(key);
      if (before) found = Math.max(found, rank(before, path) + 1);
    }
    path.delete(node.key);
    column.set(node.key, found);
    return found;
  };
  for (const node of nodes) rank(node, new Set());
  return column;
}

/** Draws nodes `{key, title, kind, word, note, more: [elements], after: [keys]}`. */
export function graph(label, nodes) {
  const column = columns(nodes);
  const rows = new Map();
  const boxes = new Map();
  const names = new Map(nodes.map((node) => [node.key, node.title]));
  const items = nodes.map((node) => {
    const at = column.get(node.key) || 0;
    const row = (rows.get(at) || 0) + 1;
    rows.set(at, row);
    const before = node.after.map((key) => names.get(key)).filter((name) => name);
    const box = h("details", { class: "node " + node.kind, "data-key": node.key },
      h("summary", {}, h("b", {}, node.title), h("span", { class: "state " + node.kind }, node.word), " ",
        h("span", { class: "muted" }, node.note),
        before.length ? h("span", { class: "unseen" }, ", after " + before.join(", ")) : ""),
      node.more);
    boxes.set(node.key, box);
    const item = h("li", {}, box);
    // Allowed by the content security policy, other than an attribute.
    item.style.gridColumn = String(at + 1);
    item.style.gridRow = String(row);
    return item;
  });
  const lines = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  lines.setAttribute("aria-hidden", "true");
  const frame = h("div", { class: "graph", role: "group", "aria-label": label }, lines, h("ol", {}, items));
  const draw = () => {
    const list = frame.querySelector("ol");
    lines.setAttribute("width", String(list.scrollWidth + 8));
    lines.setAttribute("height", String(list.scrollHeight + 8));
    const origin = frame.getBoundingClientRect();
    const paths = [];
    for (const node of nodes) {
      const to = boxes.get(node.key).getBoundingClientRect();
      for (const key of node.after) {
        if (!boxes.has(key)) continue;
        const from = boxes.get(key).getBoundingClientRect();
        const x1 = from.right - origin.left + frame.scrollLeft;
        const y1 = from.top - origin.top + 22;
        const x2 = to.left - origin.left + frame.scrollLeft;
        const y2 = to.top - origin.top + 22;
        const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
        line.setAttribute("d", `M${x1} ${y1}C${x1 + 22} ${y1} ${x2 - 22} ${y2} ${x2} ${y2}`);
        paths.push(line);
      }
    }
    lines.replaceChildren(...paths);
  };
  new ResizeObserver(draw).observe(frame);
  frame.addEventListener("toggle", draw, true);
  return frame;
}
