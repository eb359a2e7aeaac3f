// The playground: one maze, one or two panels that solve it.

import { getJSON, postJSON } from "./api.js";
import { Maze, decodeState, encodeState } from "./maze.js";
import { Panel, html } from "./panel.js";

const FAMILIES = {
  dfs: "DFS mazes (the paper)", astar: "A* mazes (the paper)", wilson: "Wilson mazes", kruskal: "Kruskal mazes", percolation: "Percolation mazes",
  "path-star-2x4": "Path-star graphs, 2 arms of 4", "path-star-5x4": "Path-star graphs, 5 arms of 4",
};
const MAX_UNDO = 200;
const SOLVE_AFTER_MILLISECONDS = 400; // the last of several quick edits is solved
const REPLAY_AFTER_MILLISECONDS = 1200;
const byId = (id) => document.getElementById(id);

const page = {
  maze: null,
  models: [],
  panels: [],
  history: [],

  say(sentence) {
    byId("message").textContent = sentence;
  },

  /** Apply a change to the maze; it is kept for undo if it did something. */
  edit(change) {
    const changed = page.maze.copy();
    if (!change(changed)) return;
    page.history.push(page.maze);
    page.history.splice(0, page.history.length - MAX_UNDO);
    page.setMaze(changed);
    page.solveSoon();
  },

  solveSoon() {
    clearTimeout(page.timer);
    page.timer = setTimeout(page.solveAll, SOLVE_AFTER_MILLISECONDS);
  },

  setMaze(maze) {
    page.maze = maze;
    byId("undo").disabled = page.history.length === 0;
    page.panels.forEach((panel) => panel.clear());
    page.changed();
  },

  /** Replace the maze by another one, which can be undone too. */
  replaceMaze(json) {
    if (page.maze) page.history.push(page.maze);
    page.setMaze(new Maze(json));
  },

  addPanel(choice) {
    const panel = new Panel(page, choice);
    page.panels.push(panel);
    byId("panels").append(panel.root);
    page.updatePanels();
    return panel;
  },

  removePanel(panel) {
    panel.clear();
    panel.root.remove();
    page.panels = page.panels.filter((each) => each !== panel);
    page.updatePanels();
    page.changed();
  },

  updatePanels() {
    byId("compare").hidden = page.panels.length > 1;
    page.panels.forEach((panel) => { panel.remove.hidden = page.panels.length < 2; });
  },

  /** Keep the link in the address bar up to date. */
  changed() {
    if (!page.maze) return;
    const state = { maze: page.maze, panels: page.panels.map((panel) => panel.choice) };
    window.history.replaceState(null, "", `#${encodeState(state)}`);
  },

  solveAll() {
    clearTimeout(page.timer);
    return Promise.all(page.panels.map((panel) => panel.solve()));
  },
};

let newest = 0; // of the requests for a maze

async function generate() {
  const number = ++newest;
  const fields = Object.fromEntries(["height", "width", "seed"].map((name) => [name, Number(byId(name).value)]));
  const maze = await postJSON("/api/generate", { family: byId("family").value, ...fields });
  if (number !== newest) return; // the answer to an older request came late
  page.replaceMaze(maze);
  await page.solveAll();
}

async function read(value) {
  const { count, ...maze } = await postJSON("/api/read", value);
  page.replaceMaze(maze);
  await page.solveAll();
  page.say(count > 1 ? `The first of ${count} mazes is shown.` : "");
}

const attempt = (run) => run().catch((error) => page.say(error.message));

/** The model for the first panel: the one that was trained on the family. */
function modelFor(family) {
  const trained = page.models.find((model) => model.family === family && model.loops);
  return (trained || page.models.find((model) => model.family === family) || page.models[0])?.name;
}

/** The second panel: the other objective on the same mazes where there is one. */
function partnerOf(name) {
  const first = page.models.find((model) => model.name === name);
  const others = page.models.filter((model) => model.name !== name);
  const partner = others.find((model) => model.family === first.family && model.objective !== first.objective && model.format === first.format)
    || others.find((model) => model.family === first.family);
  return (partner || first).name;
}

/** Two models of the same mazes and format, MLM-U first, next token second; null if there is no such pair. */
function objectivePair() {
  for (const first of page.models.filter((model) => model.objective === "mlm-u")) {
    const second = page.models.find((model) => model.objective === "next-token" && model.family === first.family
      && model.format === first.format && model.height === first.height && model.width === first.width);
    if (second) return [first, second];
  }
  return null;
}

/** Show both objectives on a maze of the size that their models were trained on. */
async function showPair() {
  const [first, second] = objectivePair();
  page.panels.slice().forEach((panel) => { panel.clear(); panel.root.remove(); });
  page.panels = [];
  page.addPanel({ model: first.name });
  page.addPanel({ model: second.name });
  byId("family").value = first.family;
  byId("height").value = first.height;
  byId("width").value = first.width;
  await generate();
}

function connect() {
  byId("generate").addEventListener("submit", (event) => {
    event.preventDefault();
    byId("seed").value = (Number(byId("seed").value) + 1) % 1000000000;
    attempt(generate);
  });
  byId("sizes").addEventListener("change", () => { if (byId("generate").reportValidity()) attempt(generate); });
  byId("family").addEventListener("change", () => {
    const graph = byId("family").value.startsWith("path-star");
    for (const name of ["height", "width"]) byId(name).disabled = graph;
    const model = modelFor(byId("family").value);
    if (page.panels.length === 1 && model) { page.panels[0].choose({ model }); }
    attempt(generate);
  });
  byId("undo").addEventListener("click", undo);
  byId("read").addEventListener("click", () => attempt(() => read(new Blob([byId("paste").value]))));
  byId("file").addEventListener("change", (event) => { if (event.target.files[0]) attempt(() => read(event.target.files[0])); });
  byId("compare").addEventListener("click", () => {
    const panel = page.addPanel({ model: partnerOf(page.panels[0].choice.model) });
    page.changed();
    attempt(() => panel.solve());
  });
  byId("pair").hidden = objectivePair() === null;
  byId("pair").addEventListener("click", () => attempt(showPair));
  byId("link").addEventListener("click", async () => {
    page.changed();
    try {
      await navigator.clipboard.writeText(window.location.href);
      page.say("The link is in the clipboard.");
    } catch {
      page.say("The link is in the address bar.");
    }
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches?.("input:not([type=range]), textarea");
    if ((event.ctrlKey || event.metaKey) && event.key === "z" && !typing) { event.preventDefault(); undo(); }
  });
  document.addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
  document.addEventListener("dragleave", () => document.body.classList.remove("dropping"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    const [file] = event.dataTransfer.files;
    const text = event.dataTransfer.getData("text");
    if (file || text) attempt(() => read(file || new Blob([text])));
  });
  window.addEventListener("hashchange", () => { if (window.location.hash) attempt(restore); });
}

function undo() {
  const before = page.history.pop();
  if (!before) return;
  page.setMaze(before);
  page.solveSoon();
}

/** Show the state of the link, or a new maze on a first visit. */
async function restore() {
  const text = window.location.hash.slice(1);
  if (text) {
    let state;
    try {
      state = decodeState(text);
      page.maze = new Maze(state.maze);
    } catch {
      throw new Error("The link is damaged; a new maze is shown instead.");
    }
    page.panels.slice().forEach((panel) => { panel.root.remove(); });
    page.panels = [];
    (state.panels || []).slice(0, 2).forEach((choice) => page.addPanel(choice));
    if (!page.panels.length) page.addPanel({});
    page.setMaze(new Maze(state.maze));
    await page.solveAll();
    return;
  }
  await firstMaze();
}

async function firstMaze() {
  if (!page.panels.length) page.addPanel({ model: modelFor("dfs") });
  await generate();
  if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  // Whoever does nothing sees how the plan forms.
  const replay = setTimeout(() => page.panels[0].replay(), REPLAY_AFTER_MILLISECONDS);
  for (const name of ["pointerdown", "keydown"]) document.addEventListener(name, () => clearTimeout(replay), { once: true });
}

async function begin() {
  const { models, families } = await getJSON("/api/models");
  page.models = models;
  byId("family").replaceChildren(...families.map((family) => html("option", { value: family }, FAMILIES[family] || family)));
  connect();
  try {
    await restore();
  } catch (error) {
    page.maze = null;
    await firstMaze();
    page.say(error.message);
  }
  document.body.dataset.ready = "yes";
}

attempt(begin);
