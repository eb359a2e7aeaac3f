// One model with its decoder: solve the maze, play the decoder's steps and the network's loops, save what is shown.

import { OBJECTIVES, postForBlob, postForEvents, postJSON } from "./api.js";
import { MazeView, element } from "./view.js";

const STEP_MILLISECONDS = 350;
const LOOP_MILLISECONDS = 90;
let panels = 0;

export function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const key = (kind, words) => html("li", {}, html("span", { class: `key ${kind}` }), words);
const button = (words, attributes = {}) => html("button", { type: "button", ...attributes }, words);

/** Play, pause, step and slider over frames 0 to `last`; `onShow(frame)` draws one, `onEnd()` is called after the last was played. */
class Timeline {
  constructor(name, slider, milliseconds, onShow, onEnd = () => {}) {
    this.milliseconds = milliseconds;
    this.onShow = onShow;
    this.onEnd = onEnd;
    this.name = name;
    this.play = button("Play");
    this.back = button("◀", { "aria-label": `One ${slider.unit} back` });
    this.ahead = button("▶", { "aria-label": `One ${slider.unit} ahead` });
    this.slider = html("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": slider.label });
    this.at = html("span", { class: "small at" });
    this.root = html("div", { class: "timeline" }, html("span", { class: "what" }, name), this.at, this.play, this.back, this.ahead, this.slider);
    this.unit = slider.unit;
    this.play.addEventListener("click", () => (this.timer ? this.pause() : this.start()));
    this.back.addEventListener("click", () => { this.pause(); this.show(this.frame - 1); });
    this.ahead.addEventListener("click", () => { this.pause(); this.show(this.frame + 1); });
    this.slider.addEventListener("input", () => { this.pause(); this.show(Number(this.slider.value)); });
    this.setLast(0);
    this.pause();
  }

  /** `numbers`: what to write for each frame instead of its index. */
  setLast(last, numbers = null) {
    this.last = last;
    this.numbers = numbers;
    this.slider.max = last;
    this.mark(last);
  }

  /** Move the slider without drawing. */
  mark(frame) {
    this.frame = Math.max(0, Math.min(frame, this.last));
    this.slider.value = this.frame;
    const number = (index) => (this.numbers ? this.numbers[index] : index);
    this.at.textContent = `${this.unit} ${number(this.frame)} of ${number(this.last)}`;
    this.back.disabled = this.frame === 0;
    this.ahead.disabled = this.frame === this.last;
    this.play.disabled = this.last === 0;
  }

  show(frame) {
    this.mark(frame);
    this.onShow(this.frame);
  }

  start() {
    if (this.frame === this.last) this.show(0);
    this.label("Pause");
    this.timer = setInterval(() => {
      if (this.frame < this.last) { this.show(this.frame + 1); return; }
      this.pause();
      this.onEnd();
    }, this.milliseconds);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.label("Play");
  }

  label(word) {
    this.play.textContent = word;
    this.play.setAttribute("aria-label", `${word} ${this.name.toLowerCase()}`);
  }
}

export class Panel {
  /** `page` has `maze`, `models`, `edit(change)`, `solveAll()`, `changed()` and `say(sentence)`. */
  constructor(page, choice) {
    this.page = page;
    this.number = ++panels;
    this.build();
    this.choose(choice);
    this.clear();
  }

  build() {
    const id = (name) => `${name}-${this.number}`;
    this.model = html("select", { id: id("model") });
    this.decoder = html("select", { id: id("decoder") });
    this.solveButton = button("Solve", { class: "primary", id: id("solve") });
    this.remove = button("✕", { class: "remove", "aria-label": `Remove model ${this.number}` });
    this.about = html("p", { class: "small about" });
    this.resultLine = html("p", { class: "result", role: "status", "aria-live": "polite", id: id("result") });
    this.svg = element("svg", { id: id("maze") });
    this.readout = html("p", { class: "readout", id: id("readout"), "aria-live": "polite" });
    this.steps = new Timeline("Steps of the decoder", { unit: "step", label: "Step of decoding" }, STEP_MILLISECONDS, () => this.drawSteps());
    this.loops = new Timeline("Loops of the network", { unit: "loop", label: "Loop of the network" }, LOOP_MILLISECONDS, (frame) => this.drawLoop(frame), () => this.drawSteps());
    this.exact = html("input", { type: "checkbox", id: id("exact") });
    this.tokens = html("div", { class: "tokens", tabindex: "0", role: "group", "aria-label": "Response tokens", hidden: "" });
    this.legend = html("ul", { class: "legend" });
    const save = (name, run) => {
      const made = button(name, { "aria-label": `Save as ${name}` });
      made.addEventListener("click", () => run().catch((error) => this.page.say(error.message)));
      return made;
    };
    this.root = html("section", { class: "panel", "aria-label": `Model ${this.number}` },
      html("div", { class: "row" },
        html("label", { for: id("model") }, "Model", this.model), html("label", { for: id("decoder") }, "Decoder", this.decoder), this.solveButton, this.remove),
      this.about,
      html("div", { class: "panel-body" }, this.svg, this.resultLine,
        html("div", { class: "panel-side" }, this.legend, this.readout, this.tokens, this.loops.root, this.steps.root,
          html("label", { for: id("exact") }, this.exact, " Show the exact path"),
          html("div", { class: "row" }, html("span", { class: "small" }, "Save as"),
            save("PNG", () => this.savePNG()), save("SVG", () => this.saveSVG()), save("GIF", () => this.saveGIF()), save("JSON", () => this.saveJSON())))));
    this.view = new MazeView(this.svg, {
      edit: (change) => this.page.edit(change), solve: () => this.page.solveAll(), describe: (at) => { this.readout.textContent = this.describe(at); },
    });
    this.model.addEventListener("change", () => { this.fillDecoders(); this.page.changed(); this.solve(); });
    this.decoder.addEventListener("change", () => { this.page.changed(); this.solve(); });
    this.solveButton.addEventListener("click", () => (this.request && !this.result ? this.clear("Stopped.") : this.solve()));
    this.remove.addEventListener("click", () => this.page.removePanel(this));
    this.exact.addEventListener("change", () => this.redraw());
  }

  choose({ model, decoder } = {}) {
    this.model.replaceChildren(...this.page.models.map((each) => html("option", { value: each.name }, each.name)));
    if (this.page.models.some((each) => each.name === model)) this.model.value = model;
    this.fillDecoders();
    if (decoder && ![...this.decoder.options].some((option) => option.value === decoder)) this.decoder.append(html("option", { value: decoder }, decoder));
    if (decoder) this.decoder.value = decoder;
  }

  get choice() {
    return { model: this.model.value, decoder: this.decoder.value };
  }

  get chosen() {
    return this.page.models.find((each) => each.name === this.model.value);
  }

  fillDecoders() {
    const model = this.chosen;
    this.decoder.replaceChildren(...(model?.decoders || []).map((name) => html("option", { value: name }, name)));
    if (model) this.decoder.value = model.default_decoder;
    const objective = OBJECTIVES[model?.objective] || model?.objective;
    this.about.textContent = model ? `${model.parameters.toLocaleString("en")} parameters · ${objective} · trained on ${model.tasks}` : "";
  }

  /** Stop what is running and forget the solution. */
  clear(words = "") {
    this.request?.abort();
    this.setRequest(null);
    this.steps.pause();
    this.loops.pause();
    this.taken = [];
    this.result = null;
    this.loopCells = null;
    this.shownLoop = null;
    this.loops.root.hidden = true;
    this.resultLine.replaceChildren(words);
    this.steps.setLast(0);
    this.drawSteps();
    this.readout.textContent = this.describe(null);
  }

  setRequest(request) {
    this.request = request;
    this.solveButton.textContent = request ? "Stop" : "Solve";
  }

  async solve() {
    this.clear();
    this.page.say("");
    if (!this.chosen) {
      this.fail("No model is listed.");
      return;
    }
    if (this.page.maze.isGraph && !this.chosen.family.startsWith("path-star")) {
      this.fail("This model was trained on mazes. Choose one of path-star graphs: `clew train star-2x4-mlmu --out runs/star` trains one, `clew serve --runs runs` lists it.");
      return;
    }
    const request = new AbortController();
    this.setRequest(request);
    this.resultLine.replaceChildren("Solving ...");
    const body = { maze: this.page.maze, ...this.choice };
    try {
      await postForEvents("/api/solve", body, (name, data) => { if (!request.signal.aborted) this.onEvent(name, data); }, request.signal);
    } catch (error) {
      if (request.signal.aborted) return;
      this.fail(error.message);
    }
    if (this.result && this.chosen.loops) {
      try {
        await this.loadLoops(body, request.signal);
      } catch (error) {
        if (request.signal.aborted) return;
        this.page.say(error.message);
      }
    }
    if (this.request === request) this.setRequest(null);
  }

  fail(sentence) {
    this.resultLine.replaceChildren(html("span", { class: "badge bad" }, "not solved"), sentence);
  }

  onEvent(name, data) {
    if (name === "error") throw new Error(data.error);
    if (name === "step") {
      this.taken.push(data);
      this.steps.setLast(this.taken.length);
    } else if (name === "result") {
      this.result = data;
      this.solveButton.textContent = "Solve"; // the request goes on for the loops
      const passes = `${data.passes} ${data.passes === 1 ? "pass" : "passes"}`;
      this.resultLine.replaceChildren(badge(data), `${data.verdict} ${passes}, ${data.ms.toFixed(0)} ms.`);
    }
    this.drawSteps();
  }

  async loadLoops(body, signal) {
    const { loops, numbers } = await postJSON("/api/loops", { maze: body.maze, model: body.model }, signal);
    this.loopCells = loops;
    this.loops.root.hidden = false;
    this.loops.setLast(loops.length - 1, numbers);
  }

  /** Play the loops, or the steps of a model without loops. */
  replay() {
    if (this.result) (this.loopCells ? this.loops : this.steps).start();
  }

  drawSteps() {
    this.shownLoop = null;
    this.redraw();
  }

  drawLoop(frame) {
    this.shownLoop = frame;
    this.redraw();
  }

  /** What is known of the cells and tokens after the steps up to the shown one. */
  shown() {
    const exactPath = this.exact.checked && this.result ? this.result.exact_path : null;
    if (this.shownLoop !== null) return { probabilities: this.loopCells[this.shownLoop], committed: new Map(), tokens: new Map(), exactPath };
    const committed = new Map();
    const tokens = new Map();
    let probabilities = null;
    this.taken.slice(0, this.steps.frame).forEach((step) => {
      if (step.probabilities) ({ probabilities } = step);
      for (const filled of step.filled) {
        const at = filled.cell === null ? null : String(filled.cell);
        if (step.hidden) {
          if (at) committed.delete(at);
          tokens.delete(filled.position);
        } else {
          if (at) committed.set(at, { order: step.pass, probability: filled.probability });
          tokens.set(filled.position, { ...filled, pass: step.pass });
        }
      }
    });
    const last = this.result && this.steps.frame === this.taken.length;
    const passes = Math.max(1, ...this.taken.map((step) => step.pass));
    return { probabilities, committed, tokens, passes, path: last ? this.result.path : null, exactPath };
  }

  redraw() {
    if (!this.page.maze) return;
    const shown = this.shown();
    this.view.draw(this.page.maze, shown);
    const text = this.taken.some((step) => !step.probabilities);
    this.tokens.hidden = !text;
    if (text) {
      this.tokens.replaceChildren(...[...shown.tokens.entries()].sort((a, b) => a[0] - b[0]).map(([, token]) =>
        html("span", {}, token.token, html("small", {}, ` pass ${token.pass}, ${token.probability.toFixed(2)}`))));
    }
    this.legend.replaceChildren(...[
      shown.probabilities && key("on", "probability of being on the path"),
      shown.committed.size && (shown.passes > 1 ? key("order", `committed, from pass 1 to ${shown.passes}`) : key("once", "committed in pass 1")),
      shown.path && key("path", "the model's path"),
      shown.exactPath && key("exact", "the exact path"),
    ].filter(Boolean));
  }

  /** One sentence about a cell [x, y] or the label of a node, for pointer, touch and keyboard; null if there is none. */
  describe(at) {
    const graph = this.page.maze?.isGraph;
    if (at === null) return `Point at a ${graph ? "node" : "cell"} to see in which pass it was committed, and with what probability.`;
    const { committed, probabilities } = this.shown();
    const [x, y] = graph ? [] : at;
    const where = graph ? `node ${at}` : `row ${y + 1}, column ${x + 1}`;
    if (!graph && this.page.maze.isWall(at)) return `${where}: a wall`;
    const found = committed.get(String(at));
    if (found) return `${where}: committed in pass ${found.order} with probability ${found.probability.toFixed(3)}`;
    return probabilities ? `${where}: on the path with probability ${probabilities[y][x].toFixed(3)}` : `${where}: not committed`;
  }

  svgText() {
    const copy = this.svg.cloneNode(true);
    const [, , width, height] = copy.getAttribute("viewBox").split(" ").map(Number);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", Math.round(30 * width));
    copy.setAttribute("height", Math.round(30 * height));
    for (const name of ["id", "class", "tabindex", "role"]) copy.removeAttribute(name);
    copy.querySelectorAll("[data-pointer]").forEach((mark) => mark.remove());
    return new XMLSerializer().serializeToString(copy);
  }

  async saveSVG() {
    download(new Blob([this.svgText()], { type: "image/svg+xml" }), "maze.svg");
  }

  async savePNG() {
    const address = URL.createObjectURL(new Blob([this.svgText()], { type: "image/svg+xml" }));
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: image.naturalWidth, height: image.naturalHeight });
    const context = canvas.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0);
    URL.revokeObjectURL(address);
    download(await new Promise((resolve) => canvas.toBlob(resolve, "image/png")), "maze.png");
  }

  async saveGIF() {
    download(await postForBlob("/api/animate", { maze: this.page.maze, ...this.choice }), "maze.gif");
  }

  async saveJSON() {
    const value = { maze: this.page.maze, ...this.choice, result: this.result };
    download(new Blob([JSON.stringify(value, null, 2)], { type: "application/json" }), "maze.json");
  }
}

function badge({ exact, shortest, valid, failure }) {
  if (exact) return html("span", { class: "badge good" }, "exact");
  if (shortest) return html("span", { class: "badge good" }, "another shortest path");
  return html("span", { class: `badge ${valid ? "warn" : "bad"}` }, failure);
}

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  html("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
