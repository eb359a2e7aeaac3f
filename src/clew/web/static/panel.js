// One model with its decoder: solve the maze, play the decoder's steps, say what came out, save it.

import { postForBlob, postForEvents, postJSON } from "./api.js";
import { MazeView, element } from "./view.js";

const FRAME_MILLISECONDS = 350;
let panels = 0;

export class Panel {
  /** `page` has `maze`, `models`, `edit(change)` and `say(sentence)`. */
  constructor(page, choice) {
    this.page = page;
    this.number = ++panels;
    this.steps = [];
    this.result = null;
    this.loops = null;
    this.frame = 0;
    this.build();
    this.choose(choice);
  }

  build() {
    const id = (name) => `${name}-${this.number}`;
    this.root = html("section", { class: "panel", "aria-label": `Model ${this.number}` });
    this.model = html("select", { id: id("model") });
    this.decoder = html("select", { id: id("decoder") });
    this.solveButton = html("button", { type: "button", class: "primary", id: id("solve") }, "Solve");
    this.remove = html("button", { type: "button", "aria-label": `Remove model ${this.number}` }, "Remove");
    this.svg = element("svg", { id: id("maze") });
    this.play = html("button", { type: "button", "aria-label": "Play" }, "Play");
    this.back = html("button", { type: "button", "aria-label": "One step back" }, "◀");
    this.ahead = html("button", { type: "button", "aria-label": "One step ahead" }, "▶");
    this.slider = html("input", { type: "range", min: 0, max: 0, value: 0, id: id("step"), "aria-label": "Step of decoding" });
    this.stepText = html("span", { class: "small" });
    this.loopSlider = html("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Loop of the network" });
    this.loopText = html("span", { class: "small" });
    this.loopRow = html("div", { class: "timeline", hidden: "" }, html("span", { class: "small" }, "Loops of the first pass"), this.loopSlider, this.loopText);
    this.exact = html("input", { type: "checkbox", id: id("exact") });
    this.resultLine = html("p", { class: "result", role: "status", "aria-live": "polite", id: id("result") });
    this.tokens = html("div", { class: "tokens", tabindex: "0", role: "group", "aria-label": "Response tokens", hidden: "" });
    const save = (name, run) => {
      const button = html("button", { type: "button" }, name);
      button.addEventListener("click", () => run().catch((error) => this.page.say(error.message)));
      return button;
    };
    this.root.append(
      html("div", { class: "row" },
        html("label", { for: id("model") }, "Model", this.model), html("label", { for: id("decoder") }, "Decoder", this.decoder), this.solveButton, this.remove),
      this.svg,
      html("div", { class: "timeline" }, this.play, this.back, this.ahead, this.slider, this.stepText),
      this.loopRow,
      html("label", { class: "small", for: id("exact") }, this.exact, " Show the exact path"),
      this.resultLine,
      this.tokens,
      html("div", { class: "row" }, html("span", { class: "small" }, "Save as"),
        save("PNG", () => this.savePNG()), save("SVG", () => this.saveSVG()), save("GIF", () => this.saveGIF()), save("JSON", () => this.saveJSON())),
    );
    this.view = new MazeView(this.svg, { edit: (change) => this.page.edit(change), solve: () => this.solve() });
    this.model.addEventListener("change", () => { this.fillDecoders(); this.clear(); this.page.changed(); });
    this.decoder.addEventListener("change", () => { this.clear(); this.page.changed(); });
    this.solveButton.addEventListener("click", () => this.solve());
    this.remove.addEventListener("click", () => this.page.removePanel(this));
    this.slider.addEventListener("input", () => this.show(Number(this.slider.value)));
    this.back.addEventListener("click", () => this.show(this.frame - 1));
    this.ahead.addEventListener("click", () => this.show(this.frame + 1));
    this.play.addEventListener("click", () => (this.timer ? this.pause() : this.playFrames()));
    this.exact.addEventListener("change", () => this.redraw());
    this.loopSlider.addEventListener("input", () => this.showLoop(Number(this.loopSlider.value)));
  }

  choose({ model, decoder } = {}) {
    this.model.replaceChildren(...this.page.models.map((each) => html("option", { value: each.name }, `${each.name} (${each.summary})`)));
    if (this.page.models.some((each) => each.name === model)) this.model.value = model;
    this.fillDecoders();
    if ([...this.decoder.options].some((option) => option.value === decoder)) this.decoder.value = decoder;
  }

  get choice() {
    return { model: this.model.value, decoder: this.decoder.value };
  }

  fillDecoders() {
    const model = this.page.models.find((each) => each.name === this.model.value);
    this.decoder.replaceChildren(...(model?.decoders || []).map((name) => html("option", { value: name }, name)));
    if (model) this.decoder.value = model.default_decoder;
  }

  clear() {
    this.request?.abort();
    this.pause();
    this.steps = [];
    this.result = null;
    this.loops = null;
    this.loopRow.hidden = true;
    this.resultLine.textContent = "";
    this.resultLine.className = "result";
    this.tokens.hidden = true;
    this.slider.max = 0;
    this.show(0);
  }

  async solve() {
    this.clear();
    this.page.say("");
    const request = new AbortController();
    this.request = request;
    this.resultLine.textContent = "Solving ...";
    const body = { maze: this.page.maze, ...this.choice };
    try {
      await postForEvents("/api/solve", body, (name, data) => this.onEvent(name, data), request.signal);
      if (this.page.models.find((each) => each.name === body.model)?.loops) await this.loadLoops(body, request.signal);
    } catch (error) {
      if (request.signal.aborted) return;
      this.resultLine.textContent = error.message;
      this.resultLine.className = "result bad";
    }
  }

  onEvent(name, data) {
    if (name === "error") throw new Error(data.error);
    if (name === "step") {
      this.steps.push(data);
      this.slider.max = this.steps.length;
      this.show(this.steps.length);
    } else if (name === "result") {
      this.result = data;
      this.show(this.steps.length);
      const good = data.valid && data.shortest;
      const passes = `${data.passes} ${data.passes === 1 ? "pass" : "passes"}`;
      const failure = data.failure ? ` Failure class: ${data.failure}.` : "";
      this.resultLine.textContent = `${data.exact ? "Exact: " : ""}${data.verdict}${failure} ${passes}, ${data.ms.toFixed(0)} ms.`;
      this.resultLine.className = `result ${good ? "good" : "bad"}`;
    }
  }

  async loadLoops(body, signal) {
    const { loops, numbers } = await postJSON("/api/loops", { maze: body.maze, model: body.model }, signal);
    this.loops = loops;
    this.loopNumbers = numbers;
    this.loopRow.hidden = false;
    this.loopSlider.max = loops.length - 1;
    this.loopSlider.value = loops.length - 1;
    this.loopText.textContent = `${numbers.at(-1)} of ${numbers.at(-1)}`;
  }

  show(frame) {
    this.frame = Math.max(0, Math.min(frame, this.steps.length));
    this.slider.value = this.frame;
    this.stepText.textContent = `step ${this.frame} of ${this.steps.length}`;
    this.back.disabled = this.frame === 0;
    this.ahead.disabled = this.frame === this.steps.length;
    this.play.disabled = this.steps.length === 0;
    this.redraw();
  }

  showLoop(index) {
    this.pause();
    this.loopText.textContent = `${this.loopNumbers[index]} of ${this.loopNumbers.at(-1)}`;
    this.view.draw(this.page.maze, { probabilities: this.loops[index], exactPath: this.exactPath() });
  }

  exactPath() {
    return this.exact.checked && this.result ? this.result.exact_path : null;
  }

  redraw() {
    const committed = new Map();
    const tokens = new Map();
    let probabilities = null;
    this.steps.slice(0, this.frame).forEach((step) => {
      if (step.probabilities) ({ probabilities } = step);
      for (const filled of step.filled) {
        const key = filled.cell ? filled.cell.join(",") : filled.node !== undefined ? String(filled.node) : null;
        if (step.hidden) {
          if (key) committed.delete(key);
          tokens.delete(filled.position);
        } else {
          if (key) committed.set(key, { order: step.pass, probability: filled.probability });
          tokens.set(filled.position, { ...filled, pass: step.pass });
        }
      }
    });
    const last = this.result && this.frame === this.steps.length;
    this.view.draw(this.page.maze, { probabilities, committed, path: last ? this.result.path : null, exactPath: this.exactPath() });
    const text = this.steps.some((step) => !step.probabilities);
    this.tokens.hidden = !text;
    if (text) {
      this.tokens.replaceChildren(...[...tokens.entries()].sort((a, b) => a[0] - b[0]).map(([, token]) =>
        html("span", { title: `pass ${token.pass}, probability ${token.probability.toFixed(3)}` }, token.token, html("sub", {}, ` ${token.pass}`))));
    }
  }

  playFrames() {
    if (this.frame === this.steps.length) this.show(0);
    this.play.textContent = "Pause";
    this.play.setAttribute("aria-label", "Pause");
    this.timer = setInterval(() => {
      this.show(this.frame + 1);
      if (this.frame >= this.steps.length) this.pause();
    }, FRAME_MILLISECONDS);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "Play";
    this.play.setAttribute("aria-label", "Play");
  }

  svgText() {
    const copy = this.svg.cloneNode(true);
    const [, , width, height] = copy.getAttribute("viewBox").split(" ").map(Number);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", Math.round(30 * width));
    copy.setAttribute("height", Math.round(30 * height));
    for (const name of ["id", "class", "tabindex", "role"]) copy.removeAttribute(name);
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

export function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  html("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
