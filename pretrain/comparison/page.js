"use strict";
// Draws the curves of the page. The data stand in the page as JSON; nothing is fetched.
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
// Told apart by lightness and dash too, not by hue alone; a light and a dark form each.
const COLOURS = [["#0066b3", "#5eb1ff"], ["#cf4a0a", "#ff9154"], ["#007a57", "#35cf9f"],
  ["#9c3a86", "#ec93d2"], ["#8a6200", "#ecc64a"], ["#4a5058", "#c4cad2"],
  ["#1b8aa5", "#7be0f2"], ["#a3123a", "#ff7f9f"]];
const DASHES = ["", "9 4", "2 3", "11 3 2 3", "16 4", "5 2 1 2", "1 4", "12 3 2 3 2 3"];
const AXES = { step: "step", tokens: "tokens", seconds: "training time" };
const state = { axis: "step", smooth: 0, logX: false, logY: false, hidden: new Set(), zoom: null };
const charts = [];

function colour(i) { const [light, dark] = COLOURS[i % COLOURS.length]; return `light-dark(${light}, ${dark})`; }
function dash(i) { return DASHES[(i + Math.floor(i / COLOURS.length)) % DASHES.length]; }

function html(tag, options = {}, ...children) {
  const element = Object.assign(document.createElement(tag), options);
  element.append(...children);
  return element;
}

function svg(tag, attributes = {}, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function line(i, attributes) {
  const path = svg("path", { fill: "none", "stroke-width": 1.9, "stroke-linejoin": "round", ...attributes });
  path.style.stroke = colour(i);
  if (dash(i)) path.setAttribute("stroke-dasharray", dash(i));
  return path;
}

function fillKey(place) {
  const drawn = svg("svg", { width: 30, height: 10, "aria-hidden": "true" });
  drawn.append(line(Number(place.dataset.run), { d: "M1 5H29", "stroke-width": 2.6 }));
  place.replaceChildren(drawn);
}

function key(i) {
  const place = html("span", { className: "key" });
  place.dataset.run = i;
  fillKey(place);
  return place;
}

// ---- figures ----------------------------------------------------------------------------------

function short(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  for (const [unit, name] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e4, "k"]])
    if (size >= unit) return `${+(value / (unit === 1e4 ? 1e3 : unit)).toPrecision(3)}${name}`;
  return size < 1e-3 ? value.toExponential(1).replace(".0e", "e") : `${+value.toPrecision(4)}`;
}

function time(seconds) {
  if (seconds < 60) return `${+seconds.toPrecision(3)} s`;
  const units = seconds < 3600 ? [60, "min", 1, "s"] : seconds < 172800 ? [3600, "h", 60, "min"] : [86400, "d", 3600, "h"];
  const large = Math.floor(seconds / units[0]), small = Math.round((seconds - large * units[0]) / units[2]);
  return small ? `${large} ${units[1]} ${small} ${units[3]}` : `${large} ${units[1]}`;
}

function place(x, exactly) {
  if (state.axis === "seconds") return time(x);
  if (state.axis === "tokens") return short(x);
  return exactly || x < 1e5 ? Math.round(x).toLocaleString("en") : short(x);
}

function ticks(low, high, n, isTime) {
  const raw = (high - low) / n;
  let step = 10 ** Math.floor(Math.log10(raw));
  step *= [1, 2, 2.5, 5, 10].find((m) => step * m >= raw * 0.99);
  if (isTime && raw > 0.5) {
    const nice = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
    step = nice.find((s) => s >= raw) || Math.ceil(raw / 86400) * 86400;
  }
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(+(k * step).toPrecision(12));
  return found;
}

function logTicks(low, high, n) {
  const decades = Math.log10(high / low);
  if (decades < 0.7) return ticks(low, high, n, false);
  const factors = decades > 4 ? [1] : decades > 2 ? [1, 3] : [1, 2, 5], found = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
    for (const f of factors) if (f * 10 ** e >= low && f * 10 ** e <= high) found.push(+(f * 10 ** e).toPrecision(6));
  return found;
}

// ---- series -----------------------------------------------------------------------------------

// Where a step of a run lies on the chosen axis; NaN where the run does not know.
function position(run, step) {
  if (state.axis === "step") return step;
  const { steps, [state.axis]: values } = data.runs[run].clock;
  if (!steps || !values) return NaN;
  let right = steps.findIndex((s) => s >= step);
  if (right < 0) return values[values.length - 1];
  if (right === 0 || steps[right] === step) return values[right];
  const share = (step - steps[right - 1]) / (steps[right] - steps[right - 1]);
  return values[right - 1] + share * (values[right] - values[right - 1]);
}

// An exponential average without the pull of its start towards zero.
function smoothed(values, beta) {
  let sum = 0, weight = 0;
  return values.map((value) => {
    sum = beta * sum + (1 - beta) * value;
    weight = beta * weight + (1 - beta);
    return sum / weight;
  });
}

// Validation is measured on the same text each time: an average over the steps would only lag.
function curves(view, name) {
  const beta = name.startsWith("val/") ? 0 : state.smooth;
  return view.series.flatMap((series, run) => {
    if (!series || state.hidden.has(run)) return [];
    const [table, raw] = series, kept = [];
    data.steps[table].forEach((step, k) => {
      const x = position(run, step);
      if (Number.isFinite(x) && !(state.logX && x <= 0)) kept.push([x, raw[k], step]);
    });
    const ys = kept.map((p) => p[1]);
    const y = beta && ys.length > 2 ? smoothed(ys, beta) : ys;
    return kept.length ? [{ run, x: kept.map((p) => p[0]), steps: kept.map((p) => p[2]), raw: ys, y }] : [];
  });
}

// ---- a chart ----------------------------------------------------------------------------------

class Chart {
  constructor(chart, { height = 220, title = chart.name, note = "" } = {}) {
    this.metric = chart.name;
    this.views = chart.views;
    this.view = this.views[0];
    this.height = height;
    this.name = title;
    this.note = html("small", { textContent: note });
    this.svg = svg("svg", { class: "chart", height, role: "img" });
    this.svg.append(svg("title", {}, title));
    this.tip = html("div", { className: "tip", hidden: true });
    const caption = html("figcaption", {}, html("span", {}, title, " ", this.note));
    if (this.views.length > 1) caption.append(this.chooser());
    this.figure = html("figure", {}, caption, this.svg, this.tip);
    this.clip = `clip-${charts.length}`;
    this.listen();
    charts.push(this);
    new ResizeObserver(() => this.draw()).observe(this.figure);
  }

  chooser() {
    const select = html("select", { ariaLabel: `What to show of ${this.name}` });
    this.views.forEach((view, i) => select.append(html("option", { value: i, textContent: view.name })));
    select.onchange = () => { this.view = this.views[select.value]; this.draw(); };
    return select;
  }

  // Scales for what is visible: the zoomed stretch, and the values within it.
  scales(lines, width) {
    const xs = lines.flatMap((c) => [c.x[0], c.x[c.x.length - 1]]);
    let [x0, x1] = state.zoom || [Math.min(...xs), Math.max(...xs)];
    if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
    let y0 = Infinity, y1 = -Infinity, least = Infinity;
    for (const c of lines) c.x.forEach((x, k) => {
      if (x < x0 || x > x1) return;
      y0 = Math.min(y0, c.y[k], c.raw[k]); y1 = Math.max(y1, c.y[k], c.raw[k]);
      least = Math.min(least, c.raw[k]);
    });
    if (y0 === Infinity) return null;
    const logX = state.logX && x0 > 0, logY = state.logY && least > 0;
    const pad = y1 === y0 ? Math.abs(y0) * 0.05 || 0.5 : (y1 - y0) * 0.05;
    if (logY) { const f = y1 === y0 ? 1.05 : (y1 / y0) ** 0.04; y0 /= f; y1 *= f; }
    else { y1 += pad; y0 = y0 >= 0 && y0 < pad ? 0 : y0 - pad; if (y0 === 0 && y1 === pad) y1 = 1; }
    const box = { left: 50, right: width - 12, top: 8, bottom: this.height - 24 };
    const map = (a, b, from, to, log) => {
      const f = log ? (v) => Math.log(Math.max(v, 1e-300)) : (v) => v; // what is 0 lies far below
      return (v) => from + ((f(v) - f(a)) / (f(b) - f(a))) * (to - from);
    };
    return { x0, x1, y0, y1, logX, logY, box, x: map(x0, x1, box.left, box.right, logX),
      y: map(y0, y1, box.bottom, box.top, logY) };
  }

  draw() {
    const width = this.figure.clientWidth;
    if (!width) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.lines = curves(this.view, this.metric);
    this.scale = this.lines.length ? this.scales(this.lines, width) : null;
    this.tip.hidden = true;
    const title = this.svg.firstChild;
    this.svg.replaceChildren(title);
    if (!this.scale) {
      this.svg.append(svg("text", { x: 50, y: 40 }, "Nothing to show here."));
      return;
    }
    this.drawAxes();
    this.drawLines();
    this.over = svg("g");
    this.svg.append(this.over);
  }

  drawAxes() {
    const { box, x0, x1, y0, y1, logX, logY, x, y } = this.scale, g = svg("g");
    const across = Math.max(Math.floor((box.right - box.left) / 95), 2), up = Math.max(Math.floor(this.height / 42), 2);
    for (const value of logY ? logTicks(y0, y1, up) : ticks(y0, y1, up, false)) {
      g.append(svg("path", { class: "axis", d: `M${box.left} ${y(value)}H${box.right}` }));
      g.append(svg("text", { x: box.left - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)));
    }
    const isTime = state.axis === "seconds" && !logX;
    for (const value of logX ? logTicks(x0, x1, across) : ticks(x0, x1, across, isTime)) {
      const near = x(value) > box.right - 16 ? "end" : "middle";
      g.append(svg("text", { x: x(value), y: box.bottom + 17, "text-anchor": near }, place(value)));
      g.append(svg("path", { class: "axis", d: `M${x(value)} ${box.bottom}v4` }));
    }
    g.append(svg("path", { class: "axis", d: `M${box.left} ${box.top}V${box.bottom}H${box.right}` }));
    if (state.logY && !logY) g.append(svg("text", { x: box.left + 6, y: box.top + 10 }, "linear: there are values of 0 or less"));
    this.svg.append(g);
  }

  drawLines() {
    const { box, x, y } = this.scale;
    const clip = svg("clipPath", { id: this.clip });
    clip.append(svg("rect", { x: box.left, y: box.top - 4, width: box.right - box.left, height: box.bottom - box.top + 8 }));
    const g = svg("g", { "clip-path": `url(#${this.clip})` });
    const path = (c, ys) => "M" + c.x.map((v, k) => `${x(v).toFixed(1)} ${y(ys[k]).toFixed(1)}`).join("L");
    for (const c of this.lines) if (c.y !== c.raw) g.append(line(c.run, { d: path(c, c.raw), class: "raw", "stroke-dasharray": "none", "stroke-width": 1.2 }));
    for (const c of [...this.lines].reverse()) { // the first run, the best, on top
      g.append(line(c.run, { d: path(c, c.y) }));
      if (c.x.length > 40 && this.height > 100) continue;
      c.x.forEach((v, k) => { const dot = svg("circle", { cx: x(v), cy: y(c.y[k]), r: c.x.length === 1 ? 4 : 2.2 }); dot.style.fill = colour(c.run); g.append(dot); });
    }
    this.svg.append(clip, g);
  }

  listen() {
    const at = (event) => event.clientX - this.svg.getBoundingClientRect().left;
    this.svg.onpointermove = (event) => { if (this.scale) this.from === undefined ? this.hover(at(event)) : this.stretch(at(event)); };
    this.svg.onpointerleave = () => { if (this.from === undefined) this.leave(); };
    this.svg.onpointerdown = (event) => {
      if (!this.scale || event.button) return;
      this.from = at(event);
      this.svg.setPointerCapture(event.pointerId);
    };
    this.svg.onpointercancel = () => { this.from = undefined; this.leave(); };
    this.svg.onpointerup = (event) => {
      const from = this.from, to = at(event);
      this.from = undefined;
      this.leave();
      if (from === undefined || Math.abs(to - from) < 8) return;
      set({ zoom: [from, to].sort((a, b) => a - b).map((p) => this.value(p)) });
    };
    this.svg.ondblclick = () => set({ zoom: null });
  }

  leave() { this.tip.hidden = true; if (this.over) this.over.replaceChildren(); }

  // The value on the x axis at a pixel.
  value(pixel) {
    const { box, x0, x1, logX } = this.scale;
    const share = (Math.min(Math.max(pixel, box.left), box.right) - box.left) / (box.right - box.left);
    return logX ? x0 * (x1 / x0) ** share : x0 + share * (x1 - x0);
  }

  stretch(pixel) {
    const { box } = this.scale, [a, b] = [this.from, pixel].sort((p, q) => p - q);
    this.tip.hidden = true;
    this.over.replaceChildren(svg("rect", { class: "range", x: a, y: box.top, width: b - a, height: box.bottom - box.top }));
  }

  hover(pixel) {
    const { box, x, y, x0, x1 } = this.scale, wanted = this.value(pixel), rows = [];
    this.over.replaceChildren(svg("path", { class: "cross", d: `M${x(wanted)} ${box.top}V${box.bottom}` }));
    for (const c of this.lines) {
      let k = 0;
      c.x.forEach((v, i) => { if (Math.abs(v - wanted) < Math.abs(c.x[k] - wanted)) k = i; });
      if (c.x[k] < x0 || c.x[k] > x1) continue;
      rows.push({ ...c, k });
      const dot = svg("circle", { cx: x(c.x[k]), cy: y(c.y[k]), r: 4 });
      dot.style.fill = colour(c.run);
      this.over.append(dot);
    }
    rows.sort((a, b) => b.y[b.k] - a.y[a.k]);
    const table = html("table");
    for (const r of rows) {
      const moved = state.axis === "step" ? "" : `step ${r.steps[r.k].toLocaleString("en")}`;
      const raw = r.y === r.raw ? "" : `(${short(r.raw[r.k])})`;
      table.append(html("tr", {}, html("td", {}, key(r.run), data.runs[r.run].name), html("td", {}, html("b", { textContent: short(r.y[r.k]) })),
        html("td", { className: "faint", textContent: `${raw} ${moved}`.trim() })));
    }
    this.tip.replaceChildren(html("div", { className: "faint", textContent: `${AXES[state.axis]} ${place(wanted, true)}` }), table);
    this.tip.hidden = false;
    const left = x(wanted) + 14, wide = this.tip.offsetWidth;
    this.tip.style.left = `${left + wide > this.figure.clientWidth ? Math.max(x(wanted) - wide - 14, 0) : left}px`;
    this.tip.style.top = "38px";
  }
}

// ---- the toolbar ------------------------------------------------------------------------------

function set(changes) {
  if (changes.axis && changes.axis !== state.axis) changes.zoom = null; // of another axis
  Object.assign(state, changes);
  refresh();
  for (const chart of charts) chart.draw();
}

const marks = []; // functions that bring the toolbar's buttons up to date
function refresh() { for (const mark of marks) mark(); }

function toggle(text, isOn, change, title = "") {
  const button = html("button", { type: "button", title }, text);
  button.onclick = change;
  marks.push(() => button.setAttribute("aria-pressed", isOn()));
  return button;
}

function toolbar() {
  const bar = document.getElementById("toolbar"), group = (...parts) => bar.append(html("div", { className: "group" }, ...parts));
  if (data.runs.length > 1) group(...data.runs.map((run, i) => {
    const button = toggle(key(i), () => !state.hidden.has(i), () => {
      state.hidden.has(i) ? state.hidden.delete(i) : state.hidden.add(i);
      set({});
    }, "Hide or show this run");
    button.classList.add("run");
    button.append(run.name);
    return button;
  }));
  const known = Object.keys(AXES).filter((axis) => axis === "step" || data.runs.some((run) => run.clock[axis]));
  group(html("span", { className: "faint", textContent: "by" }), ...known.map((axis) => toggle(AXES[axis].replace("training ", ""), () => state.axis === axis, () => set({ axis }))));
  const slider = html("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: 0, ariaLabel: "Smoothing" }), shown = html("output");
  slider.oninput = () => set({ smooth: Number(slider.value) });
  marks.push(() => { shown.textContent = state.smooth ? state.smooth.toFixed(2) : "off"; });
  group(html("label", { className: "group", title: "Exponential average; validation curves stay as measured" }, "smoothing ", slider), shown);
  group(toggle("log x", () => state.logX, () => set({ logX: !state.logX, zoom: null })), toggle("log y", () => state.logY, () => set({ logY: !state.logY })));
  const reset = html("button", { type: "button", textContent: "reset zoom", title: "Drag over a chart to zoom; a double click resets too" });
  reset.onclick = () => set({ zoom: null });
  marks.push(() => { reset.disabled = !state.zoom; });
  group(reset, theme());
}

function theme() {
  const order = ["auto", "light", "dark"], button = html("button", { type: "button", title: "Colours of the page" });
  let chosen = "auto";
  const show = () => {
    chosen === "auto" ? delete document.documentElement.dataset.theme : (document.documentElement.dataset.theme = chosen);
    button.textContent = `colours: ${chosen}`;
  };
  button.onclick = () => { chosen = order[(order.indexOf(chosen) + 1) % 3]; show(); };
  show();
  return button;
}

// ---- the page ---------------------------------------------------------------------------------

const byName = new Map(data.charts.map((chart) => [chart.name, chart]));
const used = new Set();
function take(name) { used.add(name); return byName.get(name); }

// Charts in the open: what most people look for, with a sentence on how to read it.
const OPEN = [
  ["Loss", "wide", [["val/loss", "validation loss", "nats, lower is better"], ["train/loss", "training loss", "nats"]]],
  ["Inside", "", [["attention/entropy", "attention entropy", "0 looks at one token, 1 at all alike"],
    ["ffn/dead_share", "dead feed-forward units", "share that no token switches on"],
    ["grad/norm", "gradient norm", "before clipping"], ["speed/tokens_per_s", "speed", "tokens/s"]]],
];

function openSections(main) {
  for (const [title, kind, wanted] of OPEN) {
    const found = wanted.filter(([name]) => byName.has(name));
    if (!found.length) continue;
    const height = kind ? 300 : 220;
    const grid = html("div", { className: `grid ${kind}` }, ...found.map(([name, words, note]) => new Chart(take(name), { height, title: words, note }).figure));
    main.append(html("h2", { textContent: title }), grid);
  }
}

function foldedSections(main) {
  const groups = new Map();
  for (const chart of data.charts) {
    if (used.has(chart.name)) continue;
    const prefix = chart.name.includes("/") ? chart.name.split("/")[0] : "other";
    groups.set(prefix, [...(groups.get(prefix) || []), chart]);
  }
  if (groups.size) main.append(html("h2", { textContent: "Everything else" }));
  for (const [prefix, members] of [...groups].sort()) {
    const n = members.length === 1 ? "1 curve" : `${members.length} curves`;
    const section = html("details", {}, html("summary", {}, `${prefix} `, html("small", { textContent: n })));
    section.addEventListener("toggle", () => { // drawn when it is looked at
      if (section.open && section.children.length === 1) section.append(html("div", { className: "grid" }, ...members.map((chart) => new Chart(chart).figure)));
    });
    main.append(section);
  }
}

function glance() {
  const chart = byName.get("val/loss") || byName.get("train/loss");
  const corner = document.getElementById("glance");
  if (!chart) { corner.remove(); return; }
  corner.append(new Chart({ ...chart, views: chart.views.slice(0, 1) }, { height: 210, title: chart.name === "val/loss" ? "validation loss" : "training loss", note: "nats" }).figure);
  corner.append(html("div", { className: "legend" }, ...data.runs.map((run, i) => html("span", {}, key(i), run.name))));
}

toolbar();
glance();
const main = document.getElementById("curves");
openSections(main);
foldedSections(main);
if (!data.charts.length) { main.append(html("p", { className: "faint", textContent: "No metrics were logged." })); document.getElementById("toolbar").remove(); }
document.querySelectorAll(".key[data-run]").forEach(fillKey);
refresh();
})();
