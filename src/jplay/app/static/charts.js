// Spectra, bars and scatters.
import { h, s } from "./ui.js";

const WIDTH = 340, LEFT = 46, RIGHT = 8, TOP = 8;

function ticks(low, high, n = 4) {
  const span = high - low || 1;
  const rough = span / n, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((k) => k >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + 1e-9 * span; value += step) found.push(+value.toPrecision(10));
  return found;
}

// series: [{values, color | null, mean}], positions along x; a line breaks where bands were left out.
export function spectrumChart(positions, bands, series, label) {
  const height = 190, bottom = height - 34;
  const all = series.flatMap((one) => one.values);
  let low = Math.min(...all), high = Math.max(...all);
  if (!(high > low)) high = low + 1;
  const first = positions[0], last = positions[positions.length - 1];
  const x = (value) => LEFT + ((value - first) / (last - first || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - TOP);
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label });
  for (const value of ticks(low, high)) {
    svg.append(s("path", { class: "grid", d: `M${LEFT} ${y(value)}H${WIDTH - RIGHT}` }), text(LEFT - 5, y(value) + 4, short(value), "end"));
  }
  for (const value of ticks(first, last, 5)) svg.append(text(x(value), bottom + 15, String(value), "middle"));
  svg.append(s("path", { class: "axis", d: `M${LEFT} ${bottom}H${WIDTH - RIGHT}` }));
  svg.append(text((LEFT + WIDTH) / 2, height - 3, positions === bands ? "Band" : "Wavelength (nm)", "middle"));
  for (const one of series) {
    let d = "";
    one.values.forEach((value, place) => {
      const jump = place === 0 || bands[place] - bands[place - 1] > 1 || positions[place] - positions[place - 1] > 4 * ((last - first) / positions.length);
      d += `${jump ? "M" : "L"}${x(positions[place]).toFixed(1)} ${y(value).toFixed(1)}`;
    });
    const path = s("path", { class: `line ${one.mean ? "mean" : "own"}`, d });
    if (one.color) path.style.stroke = one.color;
    svg.append(path);
  }
  return h("div", { className: "chart" }, svg);
}

export function relevanceChart(positions, shares, label) {
  const height = 74, middle = 32;
  const most = Math.max(...shares.map(Math.abs)) || 1;
  const first = positions[0], last = positions[positions.length - 1];
  const x = (value) => LEFT + ((value - first) / (last - first || 1)) * (WIDTH - LEFT - RIGHT);
  const wide = Math.max(0.8, (WIDTH - LEFT - RIGHT) / shares.length - 0.3);
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label });
  shares.forEach((share, place) => {
    const tall = (Math.abs(share) / most) * 28;
    svg.append(s("rect", { class: share >= 0 ? "plus" : "minus", x: (x(positions[place]) - wide / 2).toFixed(1), width: wide.toFixed(2), y: (share >= 0 ? middle - tall : middle).toFixed(1), height: tall.toFixed(1) }));
  });
  svg.append(s("path", { class: "axis", d: `M${LEFT} ${middle}H${WIDTH - RIGHT}` }), text(LEFT - 5, 14, "for", "end"), text(LEFT - 5, 58, "against", "end"));
  return h("div", { className: "chart" }, svg);
}

function text(x, y, content, anchor) {
  const element = s("text", { x, y, "text-anchor": anchor });
  element.textContent = content;
  return element;
}

const short = (value) => (Math.abs(value) >= 10000 ? `${value / 1000}k` : String(+value.toPrecision(4)));

// A scatter of the training samples in a subspace; tells which sample is pointed at.
export class Scatter {
  constructor(label, onPoint) {
    this.canvas = h("canvas", { className: "scatter", tabIndex: 0, role: "img", ariaLabel: label });
    this.points = []; this.labels = []; this.colors = []; this.mark = null; this.chosen = -1;
    const point = (event) => {
      const box = this.canvas.getBoundingClientRect();
      this.choose(this.nearest(event.clientX - box.left, event.clientY - box.top));
      onPoint(this.chosen);
    };
    this.canvas.addEventListener("pointermove", point);
    this.canvas.addEventListener("pointerdown", point);
    this.canvas.addEventListener("pointerleave", () => { this.choose(-1); onPoint(-1); });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  show(points, labels, colors) {
    Object.assign(this, { points, labels, colors, chosen: -1 });
    this.draw();
  }

  choose(place) {
    if (place !== this.chosen) { this.chosen = place; this.draw(); }
  }

  scale() {
    const size = this.canvas.clientWidth;
    const spread = (k) => {
      const values = this.points.map((p) => p[k]).sort((a, b) => a - b);
      const at = (share) => values[Math.floor(share * (values.length - 1))];
      return [at(0.002), at(0.998)];
    };
    const [x0, x1] = spread(0), [y0, y1] = spread(1);
    const unit = (0.88 * size) / (Math.max(x1 - x0, y1 - y0) || 1);
    return (p) => [size / 2 + (p[0] - (x0 + x1) / 2) * unit, size / 2 - (p[1] - (y0 + y1) / 2) * unit];
  }

  nearest(x, y) {
    if (!this.points.length) return -1;
    const place = this.scale();
    let best = -1, least = 15 ** 2;
    this.points.forEach((p, number) => {
      const [px, py] = place(p);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) { least = distance; best = number; }
    });
    return best;
  }

  draw() {
    const size = this.canvas.clientWidth, ratio = devicePixelRatio || 1;
    if (!size) return;
    this.canvas.width = this.canvas.height = Math.round(size * ratio);
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    if (!this.points.length) return;
    const place = this.scale();
    context.globalAlpha = 0.8;
    this.points.forEach((p, number) => {
      const [x, y] = place(p);
      context.fillStyle = this.colors[this.labels[number]];
      context.beginPath(); context.arc(x, y, 2.6, 0, 7); context.fill();
    });
    context.globalAlpha = 1;
    const ring = (p, radius) => {
      const [x, y] = place(p);
      for (const [color, width] of [["#ffffff", 5], ["#000000", 2]]) {
        context.strokeStyle = color; context.lineWidth = width;
        context.beginPath(); context.arc(x, y, radius, 0, 7); context.stroke();
      }
    };
    if (this.chosen >= 0) ring(this.points[this.chosen], 6);
    if (this.mark) ring(this.mark, 8);
  }
}
