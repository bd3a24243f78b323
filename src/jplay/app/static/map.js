// The map: tiles of image and classes, shapes, drawing by mouse, touch, pen and keyboard.
import { rgb } from "./ui.js";

const MOVED = 5, NEAR = 11, AT_ONCE = 3, MOST_TILES = 96;
const ERROR_COLORS = { right: [205, 208, 212], wrong: [226, 52, 52] };

export class MapView {
  // on: pixel(row, column), finished(kind, rings), changed(id, rings), selected(id | null), hint(text)
  constructor(canvas, on) {
    Object.assign(this, { canvas, on, scene: null, base: "", tool: "move", layer: "classes", opacity: 0.65, threshold: 0 });
    Object.assign(this, { shapes: [], classes: new Map(), images: new Map(), tiles: new Map(), fit: null, draft: null, selected: null, cursor: null, mark: null, area: null });
    this.view = { scale: 1, x: 0, y: 0 };
    this.pointers = new Map();
    this.waiting = []; this.running = 0;
    this.listen();
    new ResizeObserver(() => { if (this.scene) { if (!this.touched) this.whole(); this.draw(); } }).observe(canvas);
  }

  open(scene, base) {
    Object.assign(this, { scene, base, draft: null, selected: null, cursor: null, mark: null, area: null, fit: null, touched: false });
    this.images.clear(); this.tiles.clear(); this.waiting = [];
    this.whole();
  }

  // -- view

  whole() {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const scale = Math.min(w / this.scene.width, h / this.scene.height) * 0.96;
    this.view = { scale, x: (w - scale * this.scene.width) / 2, y: (h - scale * this.scene.height) / 2 };
    this.touched = false;
    this.draw();
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const scale = Math.min(Math.max(this.view.scale * factor, 0.5 ** (this.scene.levels + 1)), 60);
    const [px, py] = this.toImage(x, y);
    this.view = { scale, x: x - px * scale, y: y - py * scale };
    this.touched = true;
    this.draw();
  }

  goTo(x, y, scale) {
    this.view.scale = scale;
    this.view.x = this.canvas.clientWidth / 2 - x * scale;
    this.view.y = this.canvas.clientHeight / 2 - y * scale;
    this.touched = true;
    this.draw();
  }

  toImage(x, y) { return [(x - this.view.x) / this.view.scale, (y - this.view.y) / this.view.scale]; }
  toScreen([x, y]) { return [x * this.view.scale + this.view.x, y * this.view.scale + this.view.y]; }

  level() { return Math.min(Math.max(Math.floor(Math.log2(1 / this.view.scale) + 0.01), 0), this.scene.levels); }

  // Tiles of the level that is shown: those in view from the middle outwards, then the rest.
  tilesNeeded() {
    const level = this.level(), size = this.scene.tile * 2 ** level;
    const rows = Math.ceil(this.scene.height / size), columns = Math.ceil(this.scene.width / size);
    const [left, top] = this.toImage(0, 0), [right, bottom] = this.toImage(this.canvas.clientWidth, this.canvas.clientHeight);
    const [mx, my] = [(left + right) / 2, (top + bottom) / 2];
    const found = [];
    const reach = 6;
    const r0 = Math.max(0, Math.floor(top / size) - reach), r1 = Math.min(rows, Math.ceil(bottom / size) + reach);
    const c0 = Math.max(0, Math.floor(left / size) - reach), c1 = Math.min(columns, Math.ceil(right / size) + reach);
    for (let row = r0; row < r1; row += 1) for (let column = c0; column < c1; column += 1) {
      const x = column * size, y = row * size;
      const seen = x < right && y < bottom && x + size > left && y + size > top;
      found.push({ level, row, column, seen, distance: Math.hypot(x + size / 2 - mx, y + size / 2 - my) });
    }
    return found.sort((a, b) => b.seen - a.seen || a.distance - b.distance).slice(0, MOST_TILES);
  }

  request() {
    if (!this.scene) return;
    const wanted = this.tilesNeeded();
    const jobs = [];
    for (const tile of wanted) {
      const key = `${tile.level}/${tile.row}/${tile.column}`;
      if (tile.seen && !this.images.has(key)) jobs.push({ key, kind: "image", tile });
      if (this.fit !== null && this.layer !== "image" && this.tiles.get(key)?.fit !== this.fit) jobs.push({ key, kind: "map", tile });
    }
    this.waiting = jobs;
    this.next();
  }

  async next() {
    while (this.running < AT_ONCE && this.waiting.length) {
      const job = this.waiting.shift();
      if (job.kind === "image" ? this.images.has(job.key) : this.tiles.get(job.key)?.asked === this.fit) continue;
      this.running += 1;
      (job.kind === "image" ? this.loadImage(job) : this.loadClasses(job)).finally(() => { this.running -= 1; this.draw(); this.next(); });
    }
    this.on.loading?.(this.running + this.waiting.length);
  }

  async loadImage({ key }) {
    const { base, look } = this;
    this.images.set(key, null);
    try {
      const answer = await fetch(`${base}/image/${key}?${look}`);
      if (!answer.ok) throw new Error((await answer.json()).error);
      const bitmap = await createImageBitmap(await answer.blob());
      if (base === this.base && look === this.look) this.images.set(key, bitmap);
    } catch (error) {
      this.on.failed?.(error.message);
    }
  }

  async loadClasses({ key }) {
    const { base, fit } = this;
    const before = this.tiles.get(key);
    this.tiles.set(key, { ...before, asked: fit });
    const answer = await fetch(`${base}/map/${fit}/${key}`).catch(() => null);
    if (!answer || base !== this.base) return;
    if (!answer.ok) {
      if (this.tiles.get(key)?.asked === fit) this.tiles.set(key, { ...before });
      if (answer.status !== 404) this.on.failed?.((await answer.json()).error);
      return;
    }
    const height = +answer.headers.get("x-height"), width = +answer.headers.get("x-width");
    const content = new Uint8Array(await answer.arrayBuffer()), n = height * width;
    if (fit < (this.tiles.get(key)?.fit ?? 0)) return;
    this.tiles.set(key, { asked: this.tiles.get(key)?.asked, fit, height, width, codes: content.subarray(0, n), confidence: content.subarray(n, 2 * n), labels: content.subarray(2 * n) });
    this.on.arrived?.(fit);
  }

  setLook(bands, percent) {
    this.look = `bands=${bands.join(",")}&percent=${percent}`;
    this.images.clear();
    this.draw();
  }

  setFit(number) { this.fit = number; this.draw(); }
  repaint() { for (const tile of this.tiles.values()) tile.painted = null; this.draw(); }

  paint(tile) {
    const key = `${this.layer}/${this.threshold}`;
    if (tile.painted === key) return tile.canvas;
    tile.canvas ??= new OffscreenCanvas(tile.width, tile.height);
    const context = tile.canvas.getContext("2d");
    const image = context.createImageData(tile.width, tile.height), out = image.data;
    const colors = [];
    for (const [code, one] of this.classes) colors[code] = rgb(one.color);
    for (let k = 0; k < tile.codes.length; k += 1) {
      const code = tile.codes[k];
      if (!code) continue;
      let color = null;
      if (this.layer === "confidence") { const c = tile.confidence[k] / 255; color = [68 + 185 * c, 1 + 230 * c, 84 - 47 * c]; }
      else if (this.layer === "errors") { if (tile.labels[k]) color = tile.labels[k] === code ? ERROR_COLORS.right : ERROR_COLORS.wrong; }
      else if (tile.confidence[k] >= this.threshold * 255) color = colors[code];
      if (color) { out[4 * k] = color[0]; out[4 * k + 1] = color[1]; out[4 * k + 2] = color[2]; out[4 * k + 3] = 255; }
    }
    context.putImageData(image, 0, 0);
    tile.painted = key;
    return tile.canvas;
  }

  // What the map shows at a pixel, from the tile on the screen.
  shownAt(row, column) {
    const level = this.level(), size = this.scene.tile * 2 ** level;
    const tile = this.tiles.get(`${level}/${Math.floor(row / size)}/${Math.floor(column / size)}`);
    if (!tile?.codes) return null;
    const place = Math.floor((row % size) / 2 ** level) * tile.width + Math.floor((column % size) / 2 ** level);
    return { code: tile.codes[place], confidence: tile.confidence[place] / 255, label: tile.labels[place], fit: tile.fit };
  }

  // The square of the visible part whose pixels are least certain.
  leastCertain() {
    const level = this.level(), step = 2 ** level, size = this.scene.tile * step;
    const [left, top] = this.toImage(0, 0), [right, bottom] = this.toImage(this.canvas.clientWidth, this.canvas.clientHeight);
    const visible = Math.min(Math.min(right, this.scene.width) - Math.max(left, 0), Math.min(bottom, this.scene.height) - Math.max(top, 0));
    const side = Math.max(4, Math.round(visible / 14 / step));
    let best = null;
    for (const { row, column, seen } of this.tilesNeeded()) {
      const tile = this.tiles.get(`${level}/${row}/${column}`);
      if (!seen || !tile?.codes) continue;
      for (let y = 0; y + side <= tile.height; y += Math.ceil(side / 2)) for (let x = 0; x + side <= tile.width; x += Math.ceil(side / 2)) {
        let sum = 0, n = 0, labelled = 0;
        for (let j = y; j < y + side; j += 1) for (let i = x; i < x + side; i += 1) {
          const k = j * tile.width + i;
          if (tile.codes[k]) { sum += tile.confidence[k]; n += 1; }
          if (tile.labels[k]) labelled += 1;
        }
        const box = { x: column * size + x * step, y: row * size + y * step, size: side * step, confidence: sum / n / 255 };
        const inside = box.x + box.size > left && box.x < right && box.y + box.size > top && box.y < bottom;
        if (inside && n > 0.8 * side * side && labelled < 0.1 * n && (!best || box.confidence < best.confidence)) best = box;
      }
    }
    this.area = best;
    this.draw();
    return best;
  }

  // -- drawing on the canvas

  draw() {
    if (!this.scene || this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.render(); this.request(); });
  }

  render() {
    const { canvas, view } = this, ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.imageSmoothingEnabled = view.scale < 1;
    this.renderTiles(context, this.images, (bitmap) => bitmap && { picture: bitmap, width: bitmap.width, height: bitmap.height });
    if (this.layer !== "image") {
      context.globalAlpha = this.opacity;
      context.imageSmoothingEnabled = false;
      this.renderTiles(context, this.tiles, (tile) => tile?.codes && { picture: this.paint(tile), width: tile.width, height: tile.height });
      context.globalAlpha = 1;
    }
    for (const shape of this.shapes) this.renderShape(context, shape);
    if (this.draft) this.renderDraft(context);
    if (this.area) this.renderBox(context, this.area);
    if (this.cursor) this.renderCross(context, this.cursor, "#ffffff");
    if (this.mark) this.renderCross(context, this.mark, "#ffff1e");
  }

  // Coarser tiles first, so that finer ones lie over them once they are there.
  renderTiles(context, store, picture) {
    const now = this.level();
    const keys = [...store.keys()].map((key) => [key, ...key.split("/").map(Number)]).filter(([, level]) => level >= now).sort((a, b) => b[1] - a[1]);
    for (const [key, level, row, column] of keys) {
      const found = picture(store.get(key));
      if (!found) continue;
      const step = 2 ** level, size = this.scene.tile * step;
      const [x, y] = this.toScreen([column * size, row * size]);
      context.drawImage(found.picture, x, y, found.width * step * this.view.scale, found.height * step * this.view.scale);
    }
  }

  path(context, rings) {
    context.beginPath();
    for (const ring of rings) {
      ring.forEach((point, place) => { const [x, y] = this.toScreen(point); if (place) context.lineTo(x, y); else context.moveTo(x, y); });
      context.closePath();
    }
  }

  renderShape(context, shape) {
    const color = this.classes.get(shape.class)?.color ?? "#ffffff";
    if (shape.kind === "point") {
      const [x, y] = this.toScreen([Math.floor(shape.rings[0][0][0]) + 0.5, Math.floor(shape.rings[0][0][1]) + 0.5]);
      context.beginPath(); context.arc(x, y, shape.id === this.selected ? 8 : 5, 0, 7);
      context.fillStyle = color; context.fill();
      context.lineWidth = 2; context.strokeStyle = "#ffffff"; context.stroke();
      return;
    }
    this.path(context, shape.rings);
    context.fillStyle = color; context.globalAlpha = 0.18; context.fill("evenodd"); context.globalAlpha = 1;
    const chosen = shape.id === this.selected;
    context.lineWidth = chosen ? 5 : 3.5; context.strokeStyle = "#ffffff"; context.stroke();
    context.lineWidth = chosen ? 3 : 2; context.strokeStyle = color; context.stroke();
    if (!chosen) return;
    for (const ring of shape.rings) ring.forEach((point, place) => {
      this.handle(context, point, 5, "#ffffff");
      const after = ring[(place + 1) % ring.length];
      this.handle(context, [(point[0] + after[0]) / 2, (point[1] + after[1]) / 2], 3, "#bbbbbb");
    });
  }

  handle(context, point, radius, color) {
    const [x, y] = this.toScreen(point);
    context.beginPath(); context.arc(x, y, radius, 0, 7);
    context.fillStyle = color; context.fill();
    context.lineWidth = 1.5; context.strokeStyle = "#000000"; context.stroke();
  }

  renderDraft(context) {
    const color = this.draft.color;
    const points = this.pointer ? [...this.draft.points, this.pointer] : this.draft.points;
    this.path(context, [points]);
    context.fillStyle = color; context.globalAlpha = 0.25; context.fill(); context.globalAlpha = 1;
    context.setLineDash([6, 4]); context.lineWidth = 2; context.strokeStyle = "#ffffff"; context.stroke(); context.setLineDash([]);
    this.draft.points.forEach((point, place) => this.handle(context, point, place ? 3.5 : 6, place ? "#ffffff" : color));
  }

  renderBox(context, box) {
    const [x, y] = this.toScreen([box.x, box.y]), size = box.size * this.view.scale;
    context.setLineDash([8, 5]); context.lineWidth = 4; context.strokeStyle = "#000000"; context.strokeRect(x, y, size, size);
    context.lineWidth = 2; context.strokeStyle = "#ffff1e"; context.strokeRect(x, y, size, size); context.setLineDash([]);
  }

  renderCross(context, [column, row], color) {
    const [x, y] = this.toScreen([column + 0.5, row + 0.5]);
    for (const [stroke, width] of [["#000000", 4], [color, 2]]) {
      context.strokeStyle = stroke; context.lineWidth = width; context.beginPath();
      context.moveTo(x - 13, y); context.lineTo(x - 4, y); context.moveTo(x + 4, y); context.lineTo(x + 13, y);
      context.moveTo(x, y - 13); context.lineTo(x, y - 4); context.moveTo(x, y + 4); context.lineTo(x, y + 13);
      context.stroke();
    }
  }

  // -- hands

  setTool(tool) {
    this.tool = tool;
    this.canvas.classList.toggle("drawing", tool === "polygon" || tool === "point");
    this.drop();
    if (tool !== "edit") this.select(null);
  }

  drop() { this.draft = null; this.draw(); this.tell(); }

  tell() {
    const n = this.draft?.points.length ?? 0;
    const texts = { polygon: n ? (n < 3 ? "Set the next corner." : "Set the next corner; double-click, or click the first corner, to finish.") : "Click the corners of a field.", point: "Click a pixel.", edit: this.selected ? "Drag corners; small handles add one. Delete removes the shape." : "Click a shape." };
    this.on.hint(texts[this.tool] ?? "");
  }

  select(id) {
    if (this.selected === id) return;
    this.selected = id;
    this.on.selected(id);
    this.draw();
    if (this.tool === "edit") this.tell();
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => {
      if (!this.scene) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), ...this.place(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", (event) => { this.pointers.delete(event.pointerId); this.drag = null; });
    canvas.addEventListener("pointerleave", () => { this.pointer = null; this.draw(); });
    canvas.addEventListener("dblclick", (event) => { event.preventDefault(); this.finish(); });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  down(event) {
    if (!this.scene || event.button > 1) return;
    this.canvas.setPointerCapture(event.pointerId);
    const at = this.place(event);
    this.pointers.set(event.pointerId, at);
    if (this.pointers.size === 2) { this.drag = { kind: "pinch", ...this.pinch() }; return; }
    this.drag = { kind: "view", from: at, view: { ...this.view }, moved: false, pan: event.button === 1 };
    const grip = this.tool === "edit" && event.button === 0 ? this.gripAt(at) : null;
    if (grip) this.drag = { kind: "grip", from: at, moved: false, ...grip };
  }

  pinch() {
    const [[ax, ay], [bx, by]] = [...this.pointers.values()];
    return { span: Math.hypot(ax - bx, ay - by), middle: [(ax + bx) / 2, (ay + by) / 2] };
  }

  move(event) {
    if (!this.scene) return;
    const at = this.place(event);
    // A browser repeats the last movement when the page changes: the cursor stays where the keys took it.
    const rests = this.resting?.[0] === event.clientX && this.resting[1] === event.clientY;
    this.resting = [event.clientX, event.clientY];
    if (rests && !this.drag) return;
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, at);
    this.pointer = this.toImage(...at);
    if (this.drag?.kind === "pinch" && this.pointers.size === 2) {
      const now = this.pinch();
      this.view.x += now.middle[0] - this.drag.middle[0];
      this.view.y += now.middle[1] - this.drag.middle[1];
      this.zoom(now.span / this.drag.span, ...now.middle);
      Object.assign(this.drag, now);
      return;
    }
    if (this.drag) {
      const dx = at[0] - this.drag.from[0], dy = at[1] - this.drag.from[1];
      if (Math.hypot(dx, dy) > MOVED) this.drag.moved = true;
      if (this.drag.moved && this.drag.kind === "view") {
        this.view.x = this.drag.view.x + dx; this.view.y = this.drag.view.y + dy;
        this.touched = true;
        this.draw();
        return;
      }
      if (this.drag.moved && this.drag.kind === "grip") this.pull(this.pointer);
    }
    if (this.draft) this.draw();
    this.point(...this.pointer);
  }

  up(event) {
    this.pointers.delete(event.pointerId);
    const { drag } = this;
    this.drag = null;
    if (!drag || drag.kind === "pinch") return;
    if (drag.kind === "grip" && drag.moved) { this.on.changed(this.selected, this.shapes.find((one) => one.id === this.selected).rings); return; }
    if (!drag.moved && !drag.pan) this.click(this.place(event));
  }

  point(x, y) {
    const column = Math.floor(x), row = Math.floor(y);
    if (column < 0 || row < 0 || column >= this.scene.width || row >= this.scene.height) return;
    this.cursor = [column, row];
    this.draw();
    this.on.pixel(row, column);
  }

  click(at) {
    const spot = this.toImage(...at);
    this.point(...spot);
    if (this.tool === "point") this.on.finished("point", [[spot]]);
    else if (this.tool === "edit") this.select(this.shapeAt(at)?.id ?? null);
    else if (this.tool === "polygon") {
      if (!this.draft) {
        const color = this.on.draftColor();
        if (!color) return;
        this.draft = { points: [], color };
      }
      const { points } = this.draft;
      const near = (point) => { const [x, y] = this.toScreen(point); return Math.hypot(x - at[0], y - at[1]) < NEAR; };
      if (points.length >= 3 && near(points[0])) { this.finish(); return; }
      if (points.length && near(points[points.length - 1])) { this.draw(); return; }
      points.push(spot);
      this.draw(); this.tell();
    }
  }

  finish() {
    const points = this.draft?.points ?? [];
    if (points.length < 3) return;
    this.draft = null;
    this.on.finished("polygon", [points]);
    this.draw(); this.tell();
  }

  shapeAt(at) {
    const [x, y] = this.toImage(...at);
    for (const shape of [...this.shapes].reverse()) {
      if (shape.kind === "point") {
        const [px, py] = this.toScreen([Math.floor(shape.rings[0][0][0]) + 0.5, Math.floor(shape.rings[0][0][1]) + 0.5]);
        if (Math.hypot(px - at[0], py - at[1]) < NEAR) return shape;
      } else if (shape.rings.reduce((inside, ring) => inside !== contains(ring, x, y), false)) return shape;
    }
    return null;
  }

  gripAt(at) {
    const shape = this.shapes.find((one) => one.id === this.selected);
    if (!shape) return null;
    const near = (point) => { const [x, y] = this.toScreen(point); return Math.hypot(x - at[0], y - at[1]) < NEAR; };
    for (const [ring, points] of shape.rings.entries()) {
      for (const [place, point] of points.entries()) if (near(point)) return { ring, place };
      if (shape.kind === "polygon") for (const [place, point] of points.entries()) {
        const after = points[(place + 1) % points.length];
        if (near([(point[0] + after[0]) / 2, (point[1] + after[1]) / 2])) return { ring, place: place + 1, fresh: true };
      }
    }
    return null;
  }

  pull(spot) {
    const points = this.shapes.find((one) => one.id === this.selected).rings[this.drag.ring];
    if (this.drag.fresh) { points.splice(this.drag.place, 0, spot); this.drag.fresh = false; } else points[this.drag.place] = spot;
    this.draw();
  }

  key(event) {
    if (!this.scene) return;
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key in steps) {
      const [dx, dy] = steps[event.key], by = event.shiftKey ? 10 : 1;
      const [x, y] = this.cursor ?? [Math.floor(this.scene.width / 2), Math.floor(this.scene.height / 2)];
      const column = Math.min(Math.max(x + dx * by, 0), this.scene.width - 1), row = Math.min(Math.max(y + dy * by, 0), this.scene.height - 1);
      this.pointer = [column + 0.5, row + 0.5];
      this.point(...this.pointer);
    } else if (event.key === "Enter") {
      if (!this.cursor) return;
      const spot = this.toScreen([this.cursor[0] + 0.5, this.cursor[1] + 0.5]);
      const last = this.draft?.points.at(-1);
      if (last && Math.floor(last[0]) === this.cursor[0] && Math.floor(last[1]) === this.cursor[1]) this.finish();
      else this.click(spot);
    } else if (event.key === "Escape") { this.drop(); this.select(null); }
    else if (event.key === "Backspace" && this.draft) { this.draft.points.pop(); if (!this.draft.points.length) this.draft = null; this.draw(); this.tell(); }
    else if ((event.key === "Delete" || event.key === "Backspace") && this.selected) this.on.removed(this.selected);
    else if (event.key === "+" || event.key === "=") this.zoom(1.5);
    else if (event.key === "-") this.zoom(1 / 1.5);
    else if (event.key === "0") this.whole();
    else return;
    event.preventDefault();
  }
}

function contains(ring, x, y) {
  let inside = false;
  for (let i = 0, j = ring.length - 1; i < ring.length; j = i, i += 1) {
    const [xi, yi] = ring[i], [xj, yj] = ring[j];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}
