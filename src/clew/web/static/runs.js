// The table of runs, and the curves of the chosen ones, refreshed while they train.

import { OBJECTIVES, getJSON } from "./api.js";
import { lineChart } from "./chart.js";
import { html } from "./panel.js";

const REFRESH_MILLISECONDS = 3000;
const MAX_CHOSEN = 6;
const HEAD = ["", "run", "model", "objective", "mazes", "parameters", "progress", "loss", "held-out exact", "changed"];
const NUMBERS = new Set(["parameters", "loss", "held-out exact", "changed"]);
const chosen = new Set();
const open = new Set(); // configs that are unfolded
let known = null;
let configs = {};

const say = (words) => { document.getElementById("message").textContent = words; };
const percent = (value) => (value === null || value === undefined ? "" : `${(100 * value).toFixed(1)} %`);

function age(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = units.find(([each]) => seconds >= each) || [1, "s"];
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

function row(run) {
  const box = html("input", { type: "checkbox", "aria-label": `Show curves of ${run.name}` });
  box.checked = chosen.has(run.name);
  box.addEventListener("change", () => {
    if (box.checked && chosen.size >= MAX_CHOSEN) {
      box.checked = false;
      say(`At most ${MAX_CHOSEN} runs are drawn at once.`);
      return;
    }
    if (box.checked) chosen.add(run.name); else chosen.delete(run.name);
    drawCharts().catch((error) => say(error.message));
  });
  if (run.error) return html("tr", {}, html("td"), html("td", {}, run.name), html("td", { colspan: HEAD.length - 2 }, run.error));
  const progress = html("span", {}, html("progress", { max: 1, value: run.progress ?? 0, "aria-label": `Progress of ${run.name}` }), `step ${run.step.toLocaleString("en")}`);
  const { model, objective, data } = run.config;
  const sizes = data.family.startsWith("path-star") ? "" : ` ${[...new Set([data.sizes[0], data.sizes.at(-1)])].map((size) => `${size}x${data.width || size}`).join(" to ")}`;
  const cells = [box, run.name, model.kind, OBJECTIVES[objective.name] || objective.name, data.family + sizes, run.parameters?.toLocaleString("en") ?? "", progress, run.loss?.toFixed(4) ?? "", percent(run.exact), age(run.age)];
  return html("tr", {}, ...cells.map((cell, i) => html("td", NUMBERS.has(HEAD[i]) ? { class: "number" } : {}, cell)));
}

async function refresh() {
  const { folder, runs } = await getJSON("/api/runs");
  configs = Object.fromEntries(runs.map((run) => [run.name, run.config]));
  if (known === null && runs.length) chosen.add(runs.toSorted((a, b) => a.age - b.age)[0].name);
  const measured = JSON.stringify(runs.map((run) => ({ ...run, age: 0 })));
  if (!runs.length) {
    say(folder ? `There are no runs in ${folder} yet.` : "No folder of runs was given; start the page with `clew serve --runs DIR`.");
    document.getElementById("table").hidden = true;
    return;
  }
  say("");
  document.getElementById("table").hidden = false;
  const head = html("thead", {}, html("tr", {}, ...HEAD.map((word) => html("th", { scope: "col", ...(NUMBERS.has(word) ? { class: "number" } : {}) }, word))));
  const focused = document.activeElement?.getAttribute("aria-label");
  document.getElementById("runs").replaceChildren(head, html("tbody", {}, ...runs.map(row)));
  if (focused) document.querySelector(`#runs [aria-label="${CSS.escape(focused)}"]`)?.focus();
  if (measured !== known) await drawCharts();
  known = measured;
}

async function drawCharts() {
  const names = [...chosen];
  const all = await Promise.all(names.map((name) => getJSON(`/api/runs/${name.split("/").map(encodeURIComponent).join("/")}`)));
  const charts = [["loss", "Training loss"], ["exact", "Exact paths on held-out mazes, %"]].map(([key, title]) => {
    const series = all.map((run, index) => ({ name: names[index], points: run.curves[key] }));
    return html("figure", { class: "card" }, html("figcaption", {}, title), lineChart(series, { xLabel: "mazes seen", title: `${title}, of ${names.join(", ")}`, yMax: key === "exact" ? 100 : null }));
  });
  document.getElementById("charts").replaceChildren(...(names.length ? charts : []));
  document.getElementById("config").replaceChildren(...all.map((run, index) => {
    const details = html("details", { class: "card" }, html("summary", {}, `Config of ${names[index]}`), html("pre", { tabindex: "0" }, JSON.stringify(configs[names[index]], null, 2)));
    details.open = open.has(names[index]);
    details.addEventListener("toggle", () => (details.open ? open.add(names[index]) : open.delete(names[index])));
    return details;
  }));
}

async function loop() {
  try {
    await refresh();
  } catch (error) {
    say(error.message);
  }
  setTimeout(loop, REFRESH_MILLISECONDS);
}

loop();
