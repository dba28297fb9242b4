// One Application: its run and its objects as graphs, events, revisions and their differences, what a reconcile would write.

import { get } from "./api.js";
import { meaning } from "./applications.js";
import { age, between, facts, h, replace, state, table } from "./dom.js";
import { graph } from "./graph.js";

const STEPS = { succeeded: "good", failed: "bad", running: "busy", suspending: "wait", pending: "idle", skipped: "idle" };
const VERBS = { add: "+ add", change: "~ change", replace: "! replace", delete: "- delete", note: "= note", refused: "! refused" };

/** A value in one line. */
const short = (value) => value === undefined || value === null ? "-" : (typeof value === "string" ? value : JSON.stringify(value)).slice(0, 400);

function fields(list) {
  return h("ul", { class: "fields" }, (list || []).slice(0, 200).map((field) => h("li", {}, field.path, ": ",
    field.secret ? "changed" : [h("span", { class: "before" }, short(field.before)), " \u2192 ", h("span", { class: "after" }, short(field.after))])));
}

function summary(one) {
  const app = one.summary;
  return [
    h("p", {}, state(meaning(app), app.deleting ? "deleting" : app.phase || "new"), " ", h("span", { class: "why" }, app.why)),
    facts(["Ready", [app.ready, app.reason].filter((word) => word).join(", ")], ["Revision", app.revision],
      ["Generation", one.observed === one.generation ? one.generation : `${one.generation}, reconciled: ${one.observed}`],
      ["Author", one.author], ["Drift", app.drift], ["Age", age(app.created)]),
    table("Conditions", ["Type", "Status", "Reason", "Message", "Since"], one.conditions.map((condition) =>
      [condition.type, condition.status, condition.reason, condition.message, age(condition.since)])),
  ];
}

function run(one) {
  const flow = one.workflow;
  if (!flow) return [h("p", { class: "muted" }, "No workflow has started.")];
  const nodes = flow.steps.map((step) => ({
    key: step.key, title: step.key, kind: STEPS[step.phase] || "idle", word: step.phase,
    note: step.start ? between(step.start, step.phase === "running" ? "" : step.end) : "", after: step.after,
    more: [facts(["Type", step.type], ["Reason", step.reason], ["Message", step.message], ["Started", age(step.start)], ["Last attempt", age(step.end)])],
  }));
  return [
    h("p", {}, h("b", {}, flow.phase), " ", h("span", { class: "muted" }, [flow.mode, between(flow.start, flow.end)].filter((word) => word).join(", ")),
      flow.message ? h("span", { class: "why" }, " " + flow.message) : ""),
    nodes.length ? graph("Steps of the workflow", nodes) : "",
  ];
}

function tree(one, found) {
  const nodes = [];
  for (const component of one.components) {
    const services = component.services;
    const healthy = services.length > 0 && services.every((service) => service.healthy);
    const kind = services.length === 0 ? "idle" : healthy ? "good" : "bad";
    nodes.push({
      key: "component " + component.name, title: component.name, kind, after: component.after.map((name) => "component " + name),
      word: services.length === 0 ? "not deployed" : healthy ? "healthy" : "not healthy", note: component.type,
      more: services.map((service) => facts(["Deployed to", [service.cluster, service.namespace].filter((word) => word).join("/")],
        ["Message", service.message], ...service.traits.map((trait) =>
          ["Trait " + trait.type, [trait.pending ? "pending" : trait.healthy ? "healthy" : "not healthy", trait.message].filter((word) => word).join(": ")]))),
    });
    for (const trait of component.traits) {
      nodes.push({
        key: `trait ${component.name} ${trait}`, title: trait, kind: "idle", word: "trait", note: "", after: ["component " + component.name], more: [],
      });
    }
  }
  const keys = new Set(nodes.map((node) => node.key));
  for (const object of found ? found.objects : []) {
    const trait = `trait ${object.component} ${object.trait}`;
    const parent = keys.has(trait) ? trait : "component " + object.component;
    nodes.push({
      key: object.key, title: `${object.kind} ${object.name}`, kind: object.health, word: object.state, note: object.text, after: [parent],
      more: [facts(["API version", object.apiVersion], ["Namespace", object.namespace], ["Cluster", object.cluster], ["Applied by", object.creator],
        ["Age", age(object.created)])],
    });
  }
  for (const pod of found ? found.pods : []) {
    const parents = nodes.filter((node) => pod.owners.includes(node.key)).map((node) => node.key);
    nodes.push({
      key: pod.key, title: "Pod " + pod.name, kind: pod.health, word: pod.state, note: pod.text,
      after: parents.length ? parents : ["component " + pod.component], more: [facts(["Namespace", pod.namespace], ["Age", age(pod.created)])],
    });
  }
  return [found && found.note ? h("p", { class: "wait" }, found.note) : "", nodes.length ? graph("Components, traits, objects and Pods", nodes) : ""];
}

function events(list) {
  if (!list.length) return [h("p", { class: "muted" }, "None is kept.")];
  return [table("The newest first; the API server keeps them for an hour unless it is told otherwise", ["Reason", "Type", "Message", "Count", "Last"],
    list.map((event) => [event.reason, state(event.type === "Warning" ? "bad" : "idle", event.type), event.message, event.count, age(event.last)]))];
}

/** The cluster of an object, if it is not that of the Application. */
const inCluster = ({ cluster }) => (cluster ? ` in cluster ${cluster}` : "");

function planned(plan) {
  const changes = plan.changes.filter((change) => change.verb !== "note");
  return [
    h("p", { role: "status" }, h("b", {}, plan.summary), plan.problem ? h("span", { class: "bad" }, " " + plan.problem) : ""),
    plan.lines.map((line) => h("p", { class: "muted" }, line)),
    changes.map((change) => [
      h("h3", {}, `${VERBS[change.verb]} ${change.kind} ${[change.namespace, change.name].filter((word) => word).join("/")}${inCluster(change)}`,
        change.restarts ? h("span", { class: "muted" }, ` ${change.restarts} Pods restart`) : "",
        change.holdsData ? h("span", { class: "bad" }, " holds data") : ""), fields(change.fields)]),
    plan.refused.map((refused) => h("p", { class: "bad" }, `refused: ${refused.kind} ${refused.name}${inCluster(refused)}: ${refused.message}`)),
  ];
}

/** The view of one Application. */
export function application(main, namespace, name) {
  const parts = {};
  const section = (id, title) => {
    parts[id] = h("div");
    return h("section", { "aria-labelledby": "title-" + id }, h("h2", { id: "title-" + id }, title), parts[id]);
  };
  const said = {};
  /** Draws a part only if what it shows has changed. */
  const draw = (id, data, render) => {
    const text = JSON.stringify(data);
    if (said[id] === text) return;
    said[id] = text;
    replace(parts[id], render());
  };
  const failed = (id, failure) => replace(parts[id], h("p", { class: "bad" }, failure.message));
  const base = ["applications", namespace, name];

  const answer = h("div");
  const compute = async () => {
    button.disabled = true;
    replace(answer, h("p", { role: "status" }, "Planning"));
    try {
      replace(answer, planned(await get(...base, "plan")));
    } catch (failure) {
      replace(answer, h("p", { class: "bad", role: "alert" }, failure.message));
    }
    button.disabled = false;
  };
  const button = h("button", { type: "button", id: "plan", onclick: compute }, "Plan a reconcile");

  const difference = h("div");
  const compare = async (from, to) => {
    try {
      const found = await get(...base, "revisions", from, to);
      replace(difference, h("h3", { role: "status" }, `${from} \u2192 ${to}`),
        found.fields.length ? fields(found.fields) : h("p", {}, "The specs are the same."),
        found.definitions.length ? h("p", {}, "Other definitions: " + found.definitions.join(", ")) : "");
    } catch (failure) {
      replace(difference, h("p", { class: "bad", role: "alert" }, failure.message));
    }
  };
  const revisions = (list) => [table("The newest first", ["Revision", "Result", "Created", "Difference"], list.map((revision, n) => [
    revision.name + (revision.current ? " (current)" : ""),
    revision.succeeded ? state("good", "succeeded") : state("idle", revision.phase || "not finished"), age(revision.created),
    [n + 1 < list.length ? h("button", { type: "button", "data-key": "before " + revision.name, onclick: () => compare(list[n + 1].name, revision.name) },
      "to the one before") : "", " ",
    h("button", { type: "button", "data-key": "now " + revision.name, onclick: () => compare(revision.name, "live") }, "to the live spec")]]))];

  replace(main, h("h1", {}, `${namespace}/${name}`),
    section("summary", "State"), section("run", "Workflow"), section("tree", "Components and objects"), section("events", "Events"),
    section("revisions", "Revisions"),
    h("section", { "aria-labelledby": "title-plan" }, h("h2", { id: "title-plan" }, "Plan and drift"),
      h("p", { class: "muted" }, "What a reconcile of the Application as it is would write; in a settled Application this is the drift. Nothing is written: each write is a dry run under your rights."),
      button, answer));
  parts.revisions.after(difference);

  let shown = "";
  let found = null;
  let asked = 0;
  return {
    pause: 2000,
    async read(signal) {
      const one = await get(...base);
      if (signal.aborted) return;
      const others = [
        get(...base, "events").then((found) => draw("events", found, () => events(found.events)), (failure) => failed("events", failure)),
      ];
      draw("summary", [one.summary, one.conditions, one.observed], () => summary(one));
      draw("run", one.workflow, () => run(one));
      if (!said.tree) draw("tree", one.components, () => tree(one, null));
      // Revisions come with runs.
      if (shown !== one.summary.revision + one.summary.phase) {
        shown = one.summary.revision + one.summary.phase;
        others.push(get(...base, "revisions").then((found) => draw("revisions", found, () => revisions(found.revisions)), (failure) => failed("revisions", failure)));
      }
      // Each object is a request: they are read when the Application has changed, and now and then.
      const state = JSON.stringify([one.summary, one.components, one.workflow]);
      if (said.state !== state || performance.now() - asked > 10000) {
        others.push(get(...base, "objects").catch((failure) => ({ objects: [], pods: [], note: failure.message })).then((read) => { found = read; }));
        said.state = state;
        asked = performance.now();
      }
      await Promise.all(others);
      if (!signal.aborted) draw("tree", [one.components, found], () => tree(one, found));
    },
  };
}
