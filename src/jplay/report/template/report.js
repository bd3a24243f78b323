"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  // The navigation marks the section on the screen.
  const links = new Map(
    [...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]),
  );
  const parts = [...links.keys()].map(byId).filter(Boolean);
  const mark = () => {
    const passed = parts.filter((part) => part.getBoundingClientRect().top < innerHeight / 3);
    const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    const current = atEnd && scrollY > 0 ? parts.at(-1) : passed.at(-1) ?? parts[0];
    for (const [id, link] of links) {
      if (id === current?.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  addEventListener("scroll", mark, { passive: true });
  mark();

  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        // Figures start with the largest, text with the first letter.
        const numeric = heading.classList.contains("n");
        const before = heading.getAttribute("aria-sort");
        const first = numeric ? "descending" : "ascending";
        const second = numeric ? "ascending" : "descending";
        const order = before === first ? second : first;
        for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", order);
        const key = (row) => {
          const cell = row.cells[column];
          if (!numeric) return cell.textContent.trim();
          return cell.dataset.value === "" ? null : Number(cell.dataset.value);
        };
        const sign = order === "ascending" ? 1 : -1;
        const rows = [...body.rows].sort((a, b) => {
          const [x, y] = [key(a), key(b)];
          if (x === null || y === null) return (x === null) - (y === null);
          return sign * (numeric ? x - y : x.localeCompare(y, undefined, { numeric: true }));
        });
        body.append(...rows);
      });
    });
  }

  // Paper cannot be opened.
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });

  // Tables that are wider than the screen say so.
  const hint = () => {
    for (const box of document.querySelectorAll(".scroll")) {
      const wider = box.scrollWidth > box.clientWidth + 1;
      box.classList.toggle("wider", wider);
      box.classList.toggle("at-end", box.scrollLeft + box.clientWidth >= box.scrollWidth - 2);
      const said = box.previousElementSibling?.classList.contains("scroll-hint");
      if (wider && !said) {
        const line = document.createElement("p");
        line.className = "scroll-hint";
        line.textContent = "Scroll sideways for more columns →";
        box.before(line);
        box.addEventListener("scroll", hint, { passive: true });
      } else if (!wider && said) {
        box.previousElementSibling.remove();
      }
    }
  };
  addEventListener("resize", hint);
  hint();

  // Legends filter: nothing pressed shows everything.
  const chosen = new Set();
  let redrawMap = () => {};
  const press = (button, on) => button.setAttribute("aria-pressed", String(on));
  for (const button of document.querySelectorAll(".filter[data-class]")) {
    button.addEventListener("click", () => {
      const k = button.dataset.class;
      if (!chosen.delete(k)) chosen.add(k);
      for (const same of document.querySelectorAll(".filter[data-class]")) {
        press(same, chosen.has(same.dataset.class));
      }
      for (const path of document.querySelectorAll(".point")) {
        path.classList.toggle("chosen", chosen.has(path.dataset.class));
        path.classList.toggle("off", chosen.size > 0 && !chosen.has(path.dataset.class));
      }
      redrawMap();
    });
  }
  for (const figure of document.querySelectorAll("figure.chart")) {
    const buttons = [...figure.querySelectorAll(".filter[data-series]")];
    for (const button of buttons) {
      button.addEventListener("click", () => {
        press(button, button.getAttribute("aria-pressed") !== "true");
        const wanted = new Set(
          buttons.filter((b) => b.getAttribute("aria-pressed") === "true").map((b) => b.dataset.series),
        );
        for (const path of figure.querySelectorAll("path[data-series]")) {
          path.classList.toggle("off", wanted.size > 0 && !wanted.has(path.dataset.series));
        }
      });
    }
  }

  const stage = byId("stage");
  if (!stage) return;
  const data = JSON.parse(byId("map-data").textContent);
  const sheet = byId("sheet");
  const cursor = byId("cursor");
  const readout = byId("readout");
  const images = new Map([...sheet.querySelectorAll("img")].map((i) => [i.dataset.layer, i]));
  const view = { zoom: 1, x: 0, y: 0 };
  const pixel = { row: data.height >> 1, column: data.width >> 1 };
  let arrays = null;

  async function unpack(text, Type) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Type(await new Response(stream).arrayBuffer());
  }

  async function unpackAll() {
    const [truth, prediction, training, spectra] = await Promise.all([
      unpack(data.truth, Uint16Array),
      unpack(data.prediction, Uint16Array),
      unpack(data.training, Uint8Array),
      unpack(data.spectra, Uint8Array),
    ]);
    const bands = data.spectrumShape[2];
    for (let start = 0; start < spectra.length; start += bands) {
      for (let b = 1; b < bands; b++) spectra[start + b] += spectra[start + b - 1];
    }
    arrays = { truth, prediction, training, spectra, means: classMeans(truth, spectra, bands) };
    stage.dataset.ready = "true";
    drawVeil();
  }

  // Darkens the pixels of classes that the legend does not show.
  function drawVeil() {
    const veil = byId("veil");
    const layer = document.querySelector("input[name=layer]:checked").value;
    veil.hidden = !arrays || !chosen.size;
    if (veil.hidden) return;
    const labels = layer === "truth" ? arrays.truth : arrays.prediction;
    const context = veil.getContext("2d");
    const image = context.createImageData(data.width, data.height);
    const dark = new Uint32Array(image.data.buffer);
    const wanted = new Set([...chosen].map(Number));
    for (let i = 0; i < labels.length; i++) dark[i] = wanted.has(labels[i]) ? 0 : 0xe0161210;
    context.putImageData(image, 0, 0);
  }
  redrawMap = drawVeil;

  function spectrumAt(spectra, row, column) {
    const [, width, bands] = data.spectrumShape;
    const step = data.spectrumStep;
    const start = (Math.floor(row / step) * width + Math.floor(column / step)) * bands;
    return spectra.subarray(start, start + bands);
  }

  function classMeans(truth, spectra, bands) {
    const sums = data.classes.map(() => new Float64Array(bands));
    const counts = data.classes.map(() => 0);
    for (let row = 0; row < data.height; row += data.spectrumStep) {
      for (let column = 0; column < data.width; column += data.spectrumStep) {
        const k = truth[row * data.width + column] - 1;
        if (k < 0) continue;
        const values = spectrumAt(spectra, row, column);
        for (let b = 0; b < bands; b++) sums[k][b] += values[b];
        counts[k]++;
      }
    }
    return sums.map((sum, k) => (counts[k] ? sum.map((v) => v / counts[k]) : null));
  }

  function showLayer() {
    const layer = document.querySelector("input[name=layer]:checked").value;
    const opacity = byId("blend").value / 100;
    for (const [key, image] of images) {
      image.hidden = key !== "color" && key !== layer;
      image.style.opacity = key === "color" ? 1 : opacity;
    }
    byId("blend").disabled = layer === "color";
    byId("legend-errors").hidden = layer !== "errors";
    byId("legend-classes").hidden = layer === "errors";
    drawVeil();
  }

  function place() {
    const limit = (v, size) => Math.min(0, Math.max(size * (1 - view.zoom), v));
    view.x = limit(view.x, stage.clientWidth);
    view.y = limit(view.y, stage.clientHeight);
    sheet.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.zoom})`;
    stage.classList.toggle("zoomed", view.zoom > 1);
    // The mark keeps its thickness on the screen.
    cursor.style.outlineWidth = `${2 / view.zoom}px`;
    cursor.style.boxShadow = `0 0 0 ${4 / view.zoom}px #000`;
  }

  function zoomBy(factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
    const zoom = Math.min(24, Math.max(1, view.zoom * factor));
    view.x = x - ((x - view.x) * zoom) / view.zoom;
    view.y = y - ((y - view.y) * zoom) / view.zoom;
    view.zoom = zoom;
    place();
  }

  function centreOnPixel() {
    const x = ((pixel.column + 0.5) / data.width) * stage.clientWidth * view.zoom + view.x;
    const y = ((pixel.row + 0.5) / data.height) * stage.clientHeight * view.zoom + view.y;
    if (x < 0 || x > stage.clientWidth) view.x += stage.clientWidth / 2 - x;
    if (y < 0 || y > stage.clientHeight) view.y += stage.clientHeight / 2 - y;
    place();
  }

  function choose(row, column) {
    pixel.row = Math.min(data.height - 1, Math.max(0, row));
    pixel.column = Math.min(data.width - 1, Math.max(0, column));
    cursor.hidden = false;
    cursor.style.left = `${(100 * pixel.column) / data.width}%`;
    cursor.style.top = `${(100 * pixel.row) / data.height}%`;
    if (!arrays) return;
    const index = pixel.row * data.width + pixel.column;
    const truth = arrays.truth[index];
    const prediction = arrays.prediction[index];
    const name = (k) => (k ? data.classes[k - 1] : "not known");
    const verdict = arrays.training[index]
      ? "a training pixel"
      : truth === 0 ? "" : truth === prediction ? "right" : "wrong";
    const step = data.pixelStep;
    const known = images.has("truth") ? `Truth: ${name(truth)}. ` : "";
    readout.textContent =
      `Row ${pixel.row * step}, column ${pixel.column * step}. ${known}` +
      `Prediction: ${name(prediction)}${verdict ? ` (${verdict})` : ""}.`;
    drawSpectrum(spectrumAt(arrays.spectra, pixel.row, pixel.column), truth, prediction);
  }

  const svgNode = (tag, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };

  // Round numbers between two limits.
  function ticks(low, high, count) {
    const raw = (high - low) / count || 1;
    const scale = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((m) => m * scale >= raw) * scale;
    const found = [];
    for (let n = Math.ceil(low / step); n * step <= high; n++) found.push(Number((n * step).toPrecision(6)));
    return found;
  }

  function drawSpectrum(values, truth, prediction) {
    const [width, height, left, bottom, top, right] = [460, 260, 72, 40, 10, 12];
    const waves = data.wavelengths;
    const curves = [["this pixel", values, "series-0"]];
    if (truth && arrays.means[truth - 1]) {
      curves.push([`mean of ${data.classes[truth - 1]}`, arrays.means[truth - 1], "series-1"]);
    }
    if (prediction && prediction !== truth && arrays.means[prediction - 1]) {
      curves.push([
        `mean of ${data.classes[prediction - 1]}`, arrays.means[prediction - 1], "series-2",
      ]);
    }
    const real = (v) => data.low + (v / 255) * (data.high - data.low);
    let low = Infinity, high = -Infinity;
    for (const [, curve] of curves) {
      for (const v of curve) { low = Math.min(low, v); high = Math.max(high, v); }
    }
    if (high === low) high = low + 1;
    const pad = 0.04 * (high - low);
    low -= pad;
    high += pad;
    const first = waves[0], last = waves[waves.length - 1];
    const px = (w) => left + ((w - first) / (last - first || 1)) * (width - left - right);
    const py = (v) => height - bottom - ((v - low) / (high - low)) * (height - top - bottom);
    const svg = svgNode("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
    svg.append(svgNode("title", {}, `Spectrum of the pixel in row ${pixel.row}, column ${pixel.column}`));
    for (const value of ticks(real(low), real(high), 4)) {
      const y = py(((value - data.low) / (data.high - data.low)) * 255);
      svg.append(svgNode("path", { class: "grid", d: `M${left} ${y}H${width - right}` }));
      svg.append(svgNode("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, value));
    }
    for (const wave of ticks(first, last, 5)) {
      svg.append(svgNode("text", { x: px(wave), y: height - bottom + 16, "text-anchor": "middle" }, wave));
    }
    svg.append(svgNode("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, data.axis));
    const middle = (top + height - bottom) / 2;
    svg.append(svgNode("text", { x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, data.valueName));
    const starts = new Set([0, ...data.gaps]);
    for (const [, curve, style] of [...curves].reverse()) {
      const d = Array.from(
        curve,
        (v, b) => `${starts.has(b) ? "M" : "L"}${px(waves[b]).toFixed(1)} ${py(v).toFixed(1)}`,
      ).join("");
      svg.append(svgNode("path", { class: `line ${style}`, d }));
    }
    byId("spectrum").replaceChildren(svg);
    byId("spectrum-key").replaceChildren(...curves.map(([name, , style]) => {
      const item = document.createElement("li");
      const mark = svgNode("svg", { viewBox: "0 0 30 10", "aria-hidden": "true" });
      mark.append(svgNode("path", { class: `line ${style}`, d: "M1 5H29" }));
      item.append(mark, name);
      return item;
    }));
  }

  function pixelUnder(event) {
    const box = stage.getBoundingClientRect();
    const x = (event.clientX - box.left - stage.clientLeft - view.x) / view.zoom / stage.clientWidth;
    const y = (event.clientY - box.top - stage.clientTop - view.y) / view.zoom / stage.clientHeight;
    return [Math.floor(y * data.height), Math.floor(x * data.width)];
  }

  const held = new Map();
  let spread = 0;
  const distance = () => {
    const [a, b] = [...held.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  };
  stage.addEventListener("pointerdown", (event) => {
    held.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (held.size === 2) spread = distance();
    choose(...pixelUnder(event));
  });
  stage.addEventListener("pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (!before) {
      choose(...pixelUnder(event));
      return;
    }
    held.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (held.size === 2) {
      const now = distance();
      const box = stage.getBoundingClientRect();
      const [a, b] = [...held.values()];
      zoomBy(now / (spread || now), (a.x + b.x) / 2 - box.left, (a.y + b.y) / 2 - box.top);
      spread = now;
    } else if (view.zoom > 1) {
      view.x += event.clientX - before.x;
      view.y += event.clientY - before.y;
      place();
    } else {
      choose(...pixelUnder(event));
    }
  });
  for (const kind of ["pointerup", "pointercancel", "pointerleave"]) {
    stage.addEventListener(kind, (event) => held.delete(event.pointerId));
  }
  stage.addEventListener("wheel", (event) => {
    // Elsewhere the wheel scrolls the page.
    if (!event.ctrlKey && document.activeElement !== stage) return;
    event.preventDefault();
    const box = stage.getBoundingClientRect();
    zoomBy(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });

  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  stage.addEventListener("keydown", (event) => {
    const stride = event.shiftKey ? 10 : 1;
    if (event.key in moves) {
      const [down, along] = moves[event.key];
      choose(pixel.row + stride * down, pixel.column + stride * along);
      centreOnPixel();
    } else if (event.key === "+" || event.key === "=") {
      zoomBy(1.5);
    } else if (event.key === "-") {
      zoomBy(1 / 1.5);
    } else if (event.key === "0" || event.key === "Escape") {
      zoomBy(0);
    } else {
      return;
    }
    event.preventDefault();
  });

  byId("zoom-in").addEventListener("click", () => zoomBy(1.5));
  byId("zoom-out").addEventListener("click", () => zoomBy(1 / 1.5));
  byId("zoom-reset").addEventListener("click", () => zoomBy(0));
  byId("blend").addEventListener("input", showLayer);
  for (const radio of document.querySelectorAll("input[name=layer]")) {
    radio.addEventListener("change", showLayer);
  }
  window.addEventListener("resize", place);
  showLayer();
  place();
  if (typeof DecompressionStream === "undefined") {
    readout.textContent = "This browser is too old to show classes and spectra of pixels.";
  } else {
    unpackAll();
  }
})();
