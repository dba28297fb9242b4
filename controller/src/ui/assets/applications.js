// The list: pages are shown as they come, the rest is read while one already reads.

import { get } from "./api.js";
import { age, h, path, replace, state } from "./dom.js";

const FIRST = 50;
const PAGE = 500;
/** Rows at once: a table of ten thousand is no help to anybody. */
const ROWS = 200;

/** What the phase of an Application means. */
export function meaning(app) {
  if (app.deleting) return "idle";
  if (app.ready === "False" || /Failed|Terminated|unhealthy/.test(app.phase)) return "bad";
  if (app.phase === "workflowSuspending") return "wait";
  if (app.phase === "running") return "good";
  return "busy";
}

/** What the filter of phases offers. */
const FILTERS = [["", "all"], ["bad", "failing"], ["busy", "in progress"], ["wait", "waiting for a person"], ["good", "running"], ["idle", "being deleted"]];

function row(app) {
  const name = app.namespace + "/" + app.name;
  return h("tr", {},
    h("th", { scope: "row" }, h("a", { href: path(app.namespace, app.name), "data-key": name }, name)),
    h("td", {}, state(meaning(app), app.deleting ? "deleting" : app.phase || "new")),
    h("td", {}, app.ready || "", app.reason ? h("span", { class: "muted" }, " " + app.reason) : ""),
    h("td", { class: "why" }, app.why),
    h("td", {}, app.healthy + "/" + app.components),
    h("td", {}, app.revision),
    h("td", {}, age(app.created)));
}

/** The view of the Applications of a namespace, or of all. */
export function applications(main, namespace) {
  let known = [];
  let complete = false;
  let limit = ROWS;
  const body = h("tbody");
  const caption = h("caption", { "aria-live": "polite" }, "Reading");
  const more = h("button", { type: "button", hidden: true, onclick: () => { limit += ROWS; draw(); } }, "Show more");
  const word = h("input", { type: "search", id: "filter", autocomplete: "off", oninput: () => { limit = ROWS; draw(); } });
  const phase = h("select", { id: "phase", onchange: () => { limit = ROWS; draw(); } },
    FILTERS.map(([value, text]) => h("option", { value }, text)));
  const within = h("input", { id: "namespace", autocomplete: "off", value: namespace, size: 20 });
  const go = (event) => {
    event.preventDefault();
    location.hash = path(...[within.value.trim()].filter((name) => name));
  };
  const columns = ["Application", "Phase", "Ready", "Why", "Healthy", "Revision", "Age"];
  replace(main, h("h1", {}, namespace ? "Applications of " + namespace : "Applications"),
    h("form", { role: "search", onsubmit: go },
      h("label", { for: "namespace" }, "Namespace (all, if empty)", within), h("button", { type: "submit" }, "Go"),
      h("label", { for: "filter" }, "Filter by name or reason", word), h("label", { for: "phase" }, "State", phase)),
    h("table", {}, caption, h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))), body),
    more);

  function draw() {
    const wanted = word.value.trim().toLowerCase();
    const matches = known.filter((app) => (!phase.value || meaning(app) === phase.value) &&
      (!wanted || `${app.namespace}/${app.name} ${app.phase} ${app.reason} ${app.why}`.toLowerCase().includes(wanted)));
    replace(body, matches.slice(0, limit).map(row));
    more.hidden = matches.length <= limit;
    const bad = known.filter((app) => meaning(app) === "bad").length;
    caption.textContent = `${matches.length} of ${known.length} Applications${complete ? "" : " so far"}, ${bad} failing`;
  }

  return {
    pause: 5000,
    async read(signal) {
      const all = [];
      let next = "";
      do {
        const page = await get("applications", { namespace, limit: all.length ? PAGE : FIRST, continue: next });
        if (signal.aborted) return;
        all.push(...page.items);
        next = page.continue;
        // Only the first reading shows pages as they come: later ones would take rows away.
        if (!complete) {
          known = [...all];
          draw();
        }
      } while (next);
      const changed = !complete || JSON.stringify(all) !== JSON.stringify(known);
      known = all;
      complete = true;
      if (changed) draw();
    },
  };
}
