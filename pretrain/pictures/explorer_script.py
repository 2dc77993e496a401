"""The script inside a page of attention maps."""

SCRIPT = """
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("attention").textContent);
  const levels = Uint8Array.from(atob(data.weights), c => c.charCodeAt(0));
  const n = data.tokens.length, chips = [...document.querySelectorAll(".chip")];
  const large = document.querySelector(".large canvas");
  const readout = document.querySelector(".readout"), maps = [...document.querySelectorAll(".map")];
  let [layer, head, query] = data.start, geometry = null;

  // The square root of a weight, from 0 to 1: what is drawn, so that small weights show.
  const root = (l, h, q, k) => levels[((l * data.heads + h) * n + q) * n + k] / 255;
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const percent = share => (100 * share).toFixed(share < 0.095 ? 1 : 0) + " %";

  // One pixel a cell.
  function picture(canvas, l, h) {
    canvas.width = canvas.height = n;
    const pen = canvas.getContext("2d");
    pen.fillStyle = colour("--heat");
    for (let q = 0; q < n; q++) for (let k = 0; k < n; k++) {
      pen.globalAlpha = root(l, h, q, k);
      if (pen.globalAlpha) pen.fillRect(k, q, 1, 1);
    }
    return canvas;
  }

  function short(token) { return token.length > 12 ? token.slice(0, 11) + "…" : token; }

  function drawLarge() {
    const ratio = window.devicePixelRatio || 1, width = large.clientWidth;
    const pen = large.getContext("2d");
    const size = Math.max(7, Math.min(13, width / n * 0.8));
    const font = size + "px ui-monospace, monospace";
    pen.font = font;
    const widest = Math.max(...data.tokens.map(t => pen.measureText(short(t)).width));
    const left = widest + 10, top = 0.77 * widest + 14, right = 0.5 * widest;
    const side = (width - left - right) / n, height = top + side * n + 4;
    large.width = width * ratio; large.height = height * ratio;
    large.style.height = height + "px";
    pen.scale(ratio, ratio);
    pen.imageSmoothingEnabled = false;
    const small = picture(document.createElement("canvas"), layer, head);
    pen.drawImage(small, left, top, side * n, side * n);
    pen.strokeStyle = colour("--line");
    pen.strokeRect(left, top, side * n, side * n);
    pen.font = font;
    for (let i = 0; i < n; i++) {
      pen.fillStyle = colour(i === query ? "--mark" : "--ink");
      pen.textAlign = "right";
      pen.fillText(short(data.tokens[i]), left - 5, top + (i + 0.5) * side + size * 0.35);
      pen.fillStyle = colour("--ink");
      pen.textAlign = "left";
      pen.save();
      pen.translate(left + (i + 0.6) * side, top - 4);
      pen.rotate(-50 * Math.PI / 180);
      pen.fillText(short(data.tokens[i]), 0, 0);
      pen.restore();
    }
    pen.strokeStyle = colour("--mark");
    pen.lineWidth = 2;
    pen.strokeRect(left, top + query * side, side * n, side);
    geometry = { left, top, side };
  }

  function tell(key) {
    const keys = [...data.tokens.keys()].sort(
      (a, b) => root(layer, head, query, b) - root(layer, head, query, a));
    const shown = (key === undefined ? keys.slice(0, 4) : [key])
      .map(k => [k, root(layer, head, query, k) ** 2])
      .filter(([k, share]) => share >= 0.005 || k === key)
      .map(([k, share]) => "“" + data.tokens[k] + "” " + percent(share));
    readout.textContent = "Layer " + layer + ", head " + head + ": “" + data.tokens[query]
      + "” looks at " + shown.join(", ");
  }

  function showQuery(key) {
    chips.forEach((chip, k) => {
      const share = root(layer, head, query, k);
      chip.style.background =
        "color-mix(in srgb, var(--heat) " + Math.round(100 * share) + "%, transparent)";
      chip.className = "chip" + (k === query ? " query" : "")
        + (share >= 0.78 ? " full" : share >= 0.48 ? " middle" : "");
    });
    tell(key);
    drawLarge();
  }

  function choose(l, h) {
    [layer, head] = [l, h];
    maps.forEach(map => map.setAttribute(
      "aria-pressed", +map.dataset.layer === layer && +map.dataset.head === head));
    showQuery();
  }

  function cellAt(event) {
    const box = large.getBoundingClientRect();
    const k = Math.floor((event.clientX - box.left - geometry.left) / geometry.side);
    const q = Math.floor((event.clientY - box.top - geometry.top) / geometry.side);
    return q >= 0 && q < n ? [q, k >= 0 && k < n ? k : undefined] : null;
  }

  function drawAll() {
    maps.forEach(map => picture(map.firstChild, +map.dataset.layer, +map.dataset.head));
    choose(layer, head);
  }

  chips.forEach((chip, i) => {
    for (const kind of ["mouseenter", "focus", "click"]) {
      chip.addEventListener(kind, () => { query = i; showQuery(); });
    }
  });
  maps.forEach(map => map.addEventListener(
    "click", () => choose(+map.dataset.layer, +map.dataset.head)));
  large.addEventListener("mousemove", event => {
    const cell = cellAt(event);
    if (cell) { query = cell[0]; showQuery(cell[1]); }
  });
  window.addEventListener("resize", drawLarge);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  drawAll();
})();
""".strip()
