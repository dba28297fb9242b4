// Which view is shown, and when it is read again.

import { Failure, get, key } from "./api.js";
import { application } from "./application.js";
import { applications } from "./applications.js";
import { h, path, replace } from "./dom.js";

const main = document.getElementById("main");
const crumbs = document.getElementById("crumbs");
const leave = document.getElementById("leave");
const notice = document.getElementById("notice");

/** What ends the view that is shown. */
let leaving = new AbortController();

function place(parts) {
  const trail = [["Applications", path()]];
  if (parts.length > 0) trail.push([parts[0], path(parts[0])]);
  if (parts.length === 2) trail.push([parts[1], path(...parts)]);
  crumbs.replaceChildren(...trail.map(([name, to], n) =>
    h("li", {}, h("a", { href: to, "aria-current": n === trail.length - 1 && "page" }, name))));
  document.title = parts.length === 2 ? parts.join("/") + " - Applications" : "Applications";
}

function ask(message) {
  const field = h("input", { type: "password", id: "key", autocomplete: "off", required: true, size: 44, "aria-describedby": "hint" });
  const enter = (event) => {
    event.preventDefault();
    key.set(field.value.trim());
    show();
  };
  leave.hidden = true;
  replace(main, h("h1", {}, "Applications"),
    h("form", { onsubmit: enter }, h("label", { for: "key" }, "Key or token", field), h("button", { type: "submit" }, "Enter")),
    h("p", { id: "hint", class: "muted" },
      "The key that `vela-controller ui` prints, or, in a cluster, a bearer token of yours (kubectl create token). ",
      "It is kept in this tab only. You see what you may read."),
    message ? h("p", { class: "bad", role: "alert" }, message) : "");
  field.focus();
}

function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  let parts;
  try {
    parts = location.hash.replace(/^#\/?/, "").split("/").filter((part) => part).map(decodeURIComponent);
  } catch {
    parts = [];
  }
  place(parts);
  notice.textContent = "";
  if (!key.get()) return ask("");
  leave.hidden = false;
  const view = parts.length === 2 ? application(main, ...parts) : applications(main, parts[0] || "");
  run(view, signal);
}

/** Reads a view again and again: while somebody can see it, and never busier than a tenth of the time. */
async function run(view, signal) {
  while (!signal.aborted) {
    const start = performance.now();
    try {
      await view.read(signal);
      notice.textContent = "";
    } catch (failure) {
      if (signal.aborted) return;
      if (failure instanceof Failure && failure.code === 401) {
        key.forget();
        return ask(failure.message);
      }
      notice.textContent = failure.message;
    }
    const pause = Math.max(view.pause, 10 * (performance.now() - start));
    await new Promise((done) => setTimeout(done, pause));
    while (document.hidden && !signal.aborted) {
      await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
    }
  }
}

leave.addEventListener("click", () => {
  key.forget();
  show();
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", () => {
  show();
  main.focus();
  window.scrollTo(0, 0);
});
show();
