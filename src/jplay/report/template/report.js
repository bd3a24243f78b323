"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  const highlight = byId("highlight");
  if (highlight) {
    highlight.addEventListener("change", () => {
      byId("panels").classList.toggle("highlighting", highlight.value !== "");
      for (const path of document.querySelectorAll("#panels .point")) {
        path.classList.toggle("chosen", path.dataset.class === highlight.value);
      }
    });
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
  }

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
    const chosen = document.querySelector("input[name=layer]:checked").value;
    const opacity = byId("blend").value / 100;
    for (const [key, image] of images) {
      image.hidden = key !== "color" && key !== chosen;
      image.style.opacity = key === "color" ? 1 : opacity;
    }
    byId("blend").disabled = chosen === "color";
    byId("legend-errors").hidden = chosen !== "errors";
    byId("legend-classes").hidden = chosen === "errors" || chosen === "color";
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
    readout.textContent =
      `Row ${pixel.row * step}, column ${pixel.column * step}. Truth: ${name(truth)}. ` +
      `Prediction: ${name(prediction)}${verdict ? ` (${verdict})` : ""}.`;
    drawSpectrum(spectrumAt(arrays.spectra, pixel.row, pixel.column), truth, prediction);
  }

  const svgNode = (tag, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };

  function drawSpectrum(values, truth, prediction) {
    const [width, height, left, bottom, top, right] = [460, 260, 58, 40, 10, 12];
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
    const first = waves[0], last = waves[waves.length - 1];
    const px = (w) => left + ((w - first) / (last - first || 1)) * (width - left - right);
    const py = (v) => height - bottom - ((v - low) / (high - low)) * (height - top - bottom);
    const svg = svgNode("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
    svg.append(svgNode("title", {}, `Spectrum of the pixel in row ${pixel.row}, column ${pixel.column}`));
    for (const share of [0, 0.5, 1]) {
      const v = low + share * (high - low);
      svg.append(svgNode("path", { class: "grid", d: `M${left} ${py(v)}H${width - right}` }));
      const label = Number(real(v).toPrecision(3)).toString();
      svg.append(svgNode("text", { x: left - 6, y: py(v) + 4, "text-anchor": "end" }, label));
      const w = first + share * (last - first);
      const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
      svg.append(svgNode("text", { x: px(w), y: height - bottom + 16, "text-anchor": anchor }, Math.round(w)));
    }
    const axis = data.axis === "nm" ? "Wavelength (nm)" : "Band";
    svg.append(svgNode("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, axis));
    for (const [, curve, style] of [...curves].reverse()) {
      const d = "M" + Array.from(curve, (v, b) => `${px(waves[b]).toFixed(1)} ${py(v).toFixed(1)}`).join("L");
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
