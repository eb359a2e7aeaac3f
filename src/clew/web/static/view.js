// Draw a maze or a graph as SVG, with what a model has predicted, and turn pointer and key events into edits.

import { EAST, NORTH, SOUTH, WEST } from "./maze.js";

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = { start: "#1a8f4c", goal: "#c2570c", path: "#d7263d", on: "#2f7de1", wall: "#39424e", filled: "#7d8794", exact: "#7b3fb5", cursor: "#f2a900" };
const ORDER = [[91, 42, 134], [42, 157, 143], [244, 211, 94]]; // committed first, halfway, last; as in the GIF
const MARGIN = 0.12;
const TOUCH_PIXELS = 24; // a finger this near to the start or the goal drags it

/** The colour of what was committed in a pass. */
function orderColour(pass, passes) {
  const position = passes > 1 ? ((pass - 1) / (passes - 1)) * (ORDER.length - 1) : 1;
  const first = Math.min(Math.floor(position), ORDER.length - 2);
  return `rgb(${ORDER[first].map((value, i) => Math.round(value + (ORDER[first + 1][i] - value) * (position - first))).join(",")})`;
}

export function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export class MazeView {
  /** `edit(change)` gets a function that changes the maze, `describe(at)` the cell or node under pointer or cursor, or null; Enter calls `solve()`. */
  constructor(svg, { edit, solve, describe }) {
    this.svg = svg;
    this.edit = edit;
    this.describe = describe;
    this.cursor = null;
    this.dragging = null;
    svg.classList.add("maze");
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "application");
    svg.addEventListener("pointerdown", (event) => this.pointerDown(event));
    svg.addEventListener("pointermove", (event) => this.pointerMove(event));
    svg.addEventListener("pointerup", (event) => this.pointerUp(event));
    svg.addEventListener("pointercancel", () => { this.dragging = null; this.markEnds(); });
    svg.addEventListener("pointerleave", () => { this.hint?.setAttribute("d", ""); if (!this.cursor) describe(null); });
    // A finger on the maze scrolls the page, except when it drags the start or the goal.
    svg.addEventListener("touchstart", (event) => { if (event.touches.length === 1 && this.endAt(event.touches[0], true)) event.preventDefault(); }, { passive: false });
    svg.addEventListener("keydown", (event) => this.keyDown(event, solve));
    svg.addEventListener("blur", () => { this.cursor = null; this.drawCursor(); describe(null); });
  }

  /** `shown`: {probabilities, committed: Map cell -> {order, probability}, path, exactPath}. */
  draw(maze, shown = {}) {
    this.maze = maze;
    this.svg.replaceChildren();
    if (maze.isGraph) this.drawGraph(shown);
    else this.drawMaze(shown);
  }

  drawMaze({ probabilities = null, committed = new Map(), passes = 1, path = null, exactPath = null }) {
    const { maze } = this;
    const { width, height } = maze;
    this.svg.setAttribute("viewBox", `${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}`);
    this.svg.setAttribute("aria-label", `Maze of ${height} rows and ${width} columns, start at row ${maze.start[1] + 1}, column ${maze.start[0] + 1}, ` +
      `goal at row ${maze.goal[1] + 1}, column ${maze.goal[0] + 1}. Arrow keys move the cursor.`);
    const cells = element("g");
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const box = { x, y, width: 1.01, height: 1.01 };
        if (maze.isWall([x, y])) {
          cells.append(element("rect", { ...box, fill: COLOURS.filled }));
          continue;
        }
        const done = committed.get(`${x},${y}`);
        const probability = done ? done.probability : probabilities ? probabilities[y][x] : 0;
        if (probability > 0.005) {
          const opacity = done ? 0.15 + 0.4 * probability : 0.75 * probability;
          cells.append(element("rect", { ...box, fill: done ? orderColour(done.order, passes) : COLOURS.on, "fill-opacity": opacity.toFixed(3) }));
        }
        if (done && passes > 1 && width <= 20 && height <= 20) {
          cells.append(element("text", { x: x + 0.06, y: y + 0.21, "font-size": 0.2, fill: "#1b2129" }, String(done.order)));
        }
      }
    }
    this.svg.append(cells);
    this.svg.append(this.walls());
    if (path) this.svg.append(polyline(path, { stroke: COLOURS.path, "stroke-width": 0.16 }));
    if (exactPath) this.svg.append(polyline(exactPath, { stroke: COLOURS.exact, "stroke-width": 0.1, "stroke-dasharray": "0.22 0.2" }));
    this.svg.append(this.marker("goal"), this.marker("start"));
    this.cursorMark = element("rect", { width: 0.9, height: 0.9, fill: "none", stroke: COLOURS.cursor, "stroke-width": 0.1, visibility: "hidden", "data-pointer": "" });
    this.hint = element("path", { fill: "none", stroke: COLOURS.cursor, "stroke-width": 0.14, "stroke-linecap": "round", "pointer-events": "none", "data-pointer": "" });
    this.svg.append(this.cursorMark, this.hint);
    this.drawCursor();
  }

  walls() {
    const { maze } = this;
    let lines = "";
    for (let y = 0; y < maze.height; y++) {
      for (let x = 0; x < maze.width; x++) {
        if (!maze.isOpen([x, y], NORTH)) lines += `M${x} ${y}h1`;
        if (!maze.isOpen([x, y], WEST)) lines += `M${x} ${y}v1`;
        if (y === maze.height - 1 && !maze.isOpen([x, y], SOUTH)) lines += `M${x} ${y + 1}h1`;
        if (x === maze.width - 1 && !maze.isOpen([x, y], EAST)) lines += `M${x + 1} ${y}v1`;
      }
    }
    return element("path", { d: lines, stroke: COLOURS.wall, "stroke-width": 0.08, fill: "none", "stroke-linecap": "square" });
  }

  marker(name) {
    const [x, y] = this.maze[name];
    const common = { fill: COLOURS[name], stroke: "#fff", "stroke-width": 0.06, "data-end": name };
    const shape = name === "start"
      ? element("circle", { cx: x + 0.5, cy: y + 0.5, r: 0.3, ...common })
      : element("rect", { x: x + 0.22, y: y + 0.22, width: 0.56, height: 0.56, ...common });
    shape.append(element("title", {}, name));
    return shape;
  }

  drawCursor() {
    if (!this.cursorMark) return;
    const visible = this.cursor && !this.maze.isGraph;
    this.cursorMark.setAttribute("visibility", visible ? "visible" : "hidden");
    if (visible) {
      this.cursorMark.setAttribute("x", this.cursor[0] + 0.05);
      this.cursorMark.setAttribute("y", this.cursor[1] + 0.05);
    }
  }

  /** Nodes on rays around the centre, each ray one arm; edges as they are listed. */
  drawGraph({ committed = new Map(), passes = 1, path = null, exactPath = null }) {
    const { edges, start, goal } = this.maze.json;
    const next = new Map();
    for (const [a, b] of edges) {
      next.set(a, [...(next.get(a) || []), b]);
      next.set(b, [...(next.get(b) || []), a]);
    }
    const position = this.nodes = new Map([[start, [0, 0]]]);
    const arms = next.get(start) || [];
    arms.forEach((first, arm) => {
      const angle = (2 * Math.PI * arm) / arms.length - Math.PI / 2;
      let [before, node, radius] = [start, first, 1.4];
      while (node !== undefined) {
        position.set(node, [radius * Math.cos(angle), radius * Math.sin(angle)]);
        const onward = (next.get(node) || []).filter((other) => other !== before && !position.has(other));
        [before, node, radius] = [node, onward[0], radius + 1.4];
      }
    });
    const reach = Math.max(...[...position.values()].map(([x, y]) => Math.hypot(x, y))) + 0.8;
    this.svg.setAttribute("viewBox", `${-reach} ${-reach} ${2 * reach} ${2 * reach}`);
    this.svg.setAttribute("aria-label", `Path-star graph with ${arms.length} arms, start node ${start}, goal node ${goal}.`);
    for (const [a, b] of edges) {
      if (!position.has(a) || !position.has(b)) continue;
      const [[x1, y1], [x2, y2]] = [position.get(a), position.get(b)];
      this.svg.append(element("line", { x1, y1, x2, y2, stroke: "#7b838d", "stroke-width": 0.06 }));
    }
    const line = (nodes, attributes) => polyline(nodes.filter((n) => position.has(n)).map((n) => position.get(n)), attributes, 0);
    if (exactPath) this.svg.append(line(exactPath, { stroke: COLOURS.exact, "stroke-width": 0.2, "stroke-dasharray": "0.25 0.2" }));
    if (path) this.svg.append(line(path, { stroke: COLOURS.path, "stroke-width": 0.16 }));
    for (const [node, [x, y]] of position) {
      const done = committed.get(String(node));
      const fill = node === start ? COLOURS.start : node === goal ? COLOURS.goal : "#fff";
      const circle = element("circle", { cx: x, cy: y, r: 0.42, fill, stroke: COLOURS.wall, "stroke-width": 0.05 });
      if (done) {
        circle.append(element("title", {}, `node ${node}: committed in pass ${done.order}, probability ${done.probability.toFixed(3)}`));
        this.svg.append(element("circle", { cx: x, cy: y, r: 0.56, fill: orderColour(done.order, passes), "fill-opacity": (0.2 + 0.7 * done.probability).toFixed(3) }));
        this.svg.append(element("text", { x: x + 0.62, y: y - 0.38, "font-size": 0.3, fill: "#1b2129" }, String(done.order)));
      }
      this.svg.append(circle);
      this.svg.append(element("text", { x, y: y + 0.14, "font-size": 0.4, "text-anchor": "middle", fill: fill === "#fff" ? "#1b2129" : "#fff" }, String(node)));
    }
  }

  position(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    return [point.x, point.y];
  }

  /** "start" or "goal" if that is at the pointer; a finger may miss it by TOUCH_PIXELS. */
  endAt(event, touch) {
    if (this.maze.isGraph) return undefined;
    const [x, y] = this.position(event);
    const reach = touch ? Math.max(0.5, TOUCH_PIXELS / this.svg.getScreenCTM().a) : 0.5;
    const distance = (name) => Math.max(Math.abs(this.maze[name][0] + 0.5 - x), Math.abs(this.maze[name][1] + 0.5 - y));
    const [nearest] = ["start", "goal"].sort((a, b) => distance(a) - distance(b));
    return distance(nearest) < reach ? nearest : undefined;
  }

  pointerDown(event) {
    if (this.maze.isGraph || event.button > 0) return;
    const [x, y] = this.position(event);
    this.dragging = { end: this.endAt(event, event.pointerType === "touch"), x, y, moved: false };
    this.svg.setPointerCapture(event.pointerId);
  }

  pointerMove(event) {
    const [x, y] = this.position(event);
    if (this.maze.isGraph) {
      const near = [...this.nodes].find(([, [nodeX, nodeY]]) => Math.hypot(nodeX - x, nodeY - y) < 0.6);
      this.describe(near ? near[0] : null);
      return;
    }
    const cell = [Math.floor(x), Math.floor(y)];
    if (this.maze.contains(cell)) this.describe(cell);
    if (event.pointerType === "mouse") this.drawHint(x, y);
    if (!this.dragging) return;
    if (Math.hypot(x - this.dragging.x, y - this.dragging.y) > 0.3) this.dragging.moved = true;
    if (this.dragging.moved && this.dragging.end && this.maze.contains(cell)) this.markEnds({ [this.dragging.end]: cell });
  }

  /** Put the marks of start and goal on their cells, or on those of a drag. */
  markEnds(dragged = {}) {
    for (const mark of this.svg.querySelectorAll("[data-end]")) {
      const [x, y] = this.maze[mark.dataset.end];
      const [toX, toY] = dragged[mark.dataset.end] || [x, y];
      mark.setAttribute("transform", `translate(${toX - x} ${toY - y})`);
    }
  }

  pointerUp(event) {
    const { dragging } = this;
    this.dragging = null;
    if (!dragging) return;
    const [x, y] = this.position(event);
    const cell = [Math.floor(x), Math.floor(y)];
    if (this.maze.contains(cell)) this.describe(cell);
    if (dragging.moved) {
      this.markEnds();
      if (dragging.end) this.edit((maze) => maze.moveEnd(dragging.end, cell));
      return;
    }
    const side = sideAt(x, y);
    this.edit((maze) => (side ? maze.toggleSide(cell, side) : maze.toggleWall(cell)));
  }

  /** Mark the wall or the cell that a click would change. */
  drawHint(x, y) {
    const [cellX, cellY] = [Math.floor(x), Math.floor(y)];
    const side = sideAt(x, y);
    const line = { [NORTH]: `M${cellX} ${cellY}h1`, [SOUTH]: `M${cellX} ${cellY + 1}h1`, [WEST]: `M${cellX} ${cellY}v1`, [EAST]: `M${cellX + 1} ${cellY}v1` }[side];
    const trial = this.maze.copy();
    const possible = !this.dragging && (side ? trial.toggleSide([cellX, cellY], side) : trial.toggleWall([cellX, cellY]));
    this.hint.setAttribute("d", possible ? line || `M${cellX + 0.15} ${cellY + 0.15}h.7v.7h-.7z` : "");
  }

  keyDown(event, solve) {
    const sides = { ArrowUp: NORTH, ArrowDown: SOUTH, ArrowLeft: WEST, ArrowRight: EAST };
    if (event.key === "Enter") {
      event.preventDefault();
      solve();
      return;
    }
    if (this.maze.isGraph || event.ctrlKey || event.metaKey || event.altKey) return;
    this.cursor ||= this.maze.start.slice();
    const side = sides[event.key];
    const cell = this.cursor.slice();
    if (side && event.shiftKey) this.edit((maze) => maze.toggleSide(cell, side));
    else if (side) {
      const moved = this.maze.neighbour(cell, side);
      if (this.maze.contains(moved)) this.cursor = moved;
    } else if (event.key === " ") this.edit((maze) => maze.toggleWall(cell));
    else if (event.key === "s" || event.key === "S") this.edit((maze) => maze.moveEnd("start", cell));
    else if (event.key === "g" || event.key === "G") this.edit((maze) => maze.moveEnd("goal", cell));
    else return;
    event.preventDefault();
    this.drawCursor();
    this.describe(this.cursor);
  }
}

/** The side of a cell that a point is near to, or null in the middle of the cell. */
function sideAt(x, y) {
  const [fx, fy] = [x - Math.floor(x), y - Math.floor(y)];
  const [[distance, side]] = [[fy, NORTH], [1 - fy, SOUTH], [fx, WEST], [1 - fx, EAST]].sort((a, b) => a[0] - b[0]);
  return distance < 0.25 ? side : null;
}

function polyline(cells, attributes, offset = 0.5) {
  const points = cells.map(([x, y]) => `${x + offset},${y + offset}`).join(" ");
  return element("polyline", { points, fill: "none", "stroke-linejoin": "round", "stroke-linecap": "round", ...attributes });
}
