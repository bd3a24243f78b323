// Parts that scenes and tables share: accuracy, subspaces, files to export.
import { $, bytes, call, guarded, h, options, percent, say } from "./ui.js";
import { Scatter } from "./charts.js";

const UNITS = { scene: "fields", table: "groups" };
const MEANING = {
  "everything.zip": "All of these in one archive",
  "map.tif": "Class map, GeoTIFF with palette and names",
  "map.qml": "Style of the map for QGIS",
  "map.tif.aux.xml": "Class names for GDAL and QGIS",
  "confidence.tif": "Confidence of each pixel",
  "confidence.qml": "Style of the confidence for QGIS",
  "confidence.tif.aux.xml": "Statistics of the confidence",
  "labels.tif": "Labels as a raster",
  "polygons.gpkg": "Labels as GeoPackage",
  "polygons.geojson": "Labels as GeoJSON",
  "model.skops": "Model file for jplay map and jplay predict",
  "no-model.txt": "Why there is no model file",
  "report.html": "Report, one HTML page",
  "commands.sh": "Commands that repeat this",
  "predictions.csv": "Predictions of every row",
  "samples.csv": "Samples the model was fitted to",
};

export class Accuracy {
  constructor(box, session, extra = null) {
    this.session = session;
    this.result = h("div");
    const run = (models) => guarded(async () => session.job(await call("POST", `${session.base}/accuracy`, { models: models() })));
    box.replaceChildren(
      h("div", { className: "row" },
        h("button", { type: "button", className: "primary", id: `${box.id}-estimate`, textContent: "Estimate the accuracy", onclick: run(() => [session.state.settings.model]) }),
        h("button", { type: "button", id: `${box.id}-compare`, textContent: "Compare all models", onclick: run(() => Object.keys(session.state.models)) }),
        extra),
      this.result);
  }

  show(rows, kind) {
    if (!rows) {
      this.result.replaceChildren(h("p", { className: "soft small", textContent: `Whole ${UNITS[kind]} are left out in turn, so that the figure holds for new ones.` }));
      return;
    }
    const shown = rows.find((row) => row.model === this.session.state.settings.model) ?? rows[0];
    const random = rows.some((row) => row.folds === "random");
    const notes = shown.notes.filter((text) => !random || !/single samples/.test(text));
    this.result.replaceChildren(...[
      h("p", { className: "big", textContent: percent(shown.accuracy) }),
      h("p", { textContent: `${shown.name}: between ${percent(shown.low)} and ${percent(shown.high)} with 95 % confidence.` }),
      h("p", { className: "soft small", textContent: `${shown.title}. Average over classes ${percent(shown.average_accuracy)}, kappa ${shown.kappa?.toFixed(3) ?? "–"}.` }),
      random ? h("p", { className: "warning", textContent: `Only random folds were possible: samples were tested beside their own neighbours, and the figure is too good. ${kind === "scene" ? "Draw at least two fields of each class." : "Choose a column of groups."}` }) : null,
      ...notes.map((text) => h("p", { className: "warning", textContent: text })),
      rows.length > 1 ? this.comparison(rows) : null,
      h("h3", { textContent: "Confusion: true class by row" }),
      this.confusion(shown)].filter(Boolean));
  }

  comparison(rows) {
    const sorted = [...rows].sort((a, b) => b.accuracy - a.accuracy);
    return h("ul", { className: "bars comparison", ariaLabel: "Models compared" }, ...sorted.map((row) => h("li", {},
      h("span", { className: "what", textContent: `${row.name}, ${row.seconds} s`, title: row.name }),
      h("span", { className: "meter", title: `${percent(row.low)} to ${percent(row.high)}` },
        h("i", { style: { width: `${100 * row.accuracy}%` } }),
        h("b", { style: { left: `${100 * row.low}%`, width: `${100 * (row.high - row.low)}%` } })),
      h("span", { className: "number", textContent: percent(row.accuracy) }))));
  }

  confusion(row) {
    const short = (text) => (text.length > 12 ? `${text.slice(0, 11)}…` : text);
    const used = row.classes.map((_, k) => k).filter((k) => row.confusion[k].some(Boolean) || row.confusion.some((line) => line[k]));
    return h("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Confusion table" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col", textContent: "True" }), ...used.map((k) => h("th", { scope: "col", textContent: short(row.classes[k]), title: row.classes[k] })))),
      h("tbody", {}, ...used.map((i) => {
        const total = row.confusion[i].reduce((a, b) => a + b, 0) || 1;
        return h("tr", {}, h("th", { scope: "row", textContent: row.classes[i] }), ...used.map((j) => h("td", {
          className: `n ${i === j ? "right" : "wrong"}`, textContent: row.confusion[i][j] || "·", style: { "--share": `${(45 * row.confusion[i][j]) / total}%` } })));
      }))));
  }
}

export class Subspace {
  constructor(box, session, onSample) {
    this.session = session;
    this.onSample = onSample;
    this.layer = h("select", { id: `${box.id}-layer`, onchange: () => this.redraw() });
    this.text = h("p", { className: "soft small" });
    this.scatter = new Scatter("Training samples in the chosen subspace", (place) => this.point(place));
    this.key = h("ul", { className: "key" });
    box.replaceChildren(h("label", { className: "block", textContent: "Layer of the chain " }, this.layer), this.scatter.canvas, this.text, this.key);
    this.clear();
  }

  clear() {
    this.looks = null;
    this.scatter.show([], [], []);
    this.key.replaceChildren();
    this.text.textContent = "Fit a model first.";
  }

  show(fit, looks, colors) {
    const before = this.layer.value;
    this.looks = looks; this.colors = colors; this.fit = fit;
    options(this.layer, fit.layers.map((name, place) => [place, name]), before !== "" && +before < fit.layers.length ? before : fit.layers.length - 1);
    this.key.replaceChildren(...fit.class_names.map((name, k) => h("li", {}, h("span", { className: "swatch", style: { "--c": colors[k] } }), name)));
    this.text.textContent = looks.columns ? "Point at a sample to find it on the map, or at the map to find its pixel here." : "Point at a sample to see which row it is.";
    this.redraw();
  }

  redraw() {
    if (!this.looks) return;
    this.scatter.show(this.looks.planes[+this.layer.value], this.looks.labels, this.colors);
    this.place(this.pixel);
  }

  place(planes) {
    this.pixel = planes;
    this.scatter.mark = planes ? planes[+this.layer.value] ?? null : null;
    this.scatter.draw();
  }

  point(place) {
    if (!this.looks) return;
    if (place >= 0) this.text.textContent = `${this.fit.class_names[this.looks.labels[place]]}, ${this.looks.columns ? `row ${this.looks.rows[place]}, column ${this.looks.columns[place]}` : `row ${this.looks.rows[place] + 1} of the table`}`;
    this.onSample(place);
  }
}

export class TakeAway {
  constructor(box, session) {
    this.session = session;
    this.list = h("ul", { className: "results" });
    this.commands = h("pre", { tabIndex: 0, ariaLabel: "Commands that repeat this", role: "region" });
    this.after = h("div", { hidden: true }, this.list, h("h3", { textContent: "Repeat it without the app" }), this.commands,
      h("button", { type: "button", textContent: "Copy", onclick: () => navigator.clipboard.writeText(this.commands.textContent).then(() => say("Copied.", "info"), () => say("The browser does not allow it. Select the text instead.")) }));
    box.replaceChildren(
      h("p", { className: "soft small", textContent: "Writes maps, labels, model, report and the commands that repeat it. Estimate the accuracy first, and the report has it." }),
      h("button", { type: "button", className: "primary", id: `${box.id}-write`, textContent: "Write the files", onclick: guarded(async () => session.job(await call("POST", `${session.base}/export`))) }),
      this.after);
  }

  async show() {
    const { base } = this.session;
    const { files } = await call("GET", `${base}/results`);
    this.after.hidden = !files.length;
    const order = Object.keys(MEANING);
    files.sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name));
    this.list.replaceChildren(...files.map(({ name, bytes: size }) => h("li", {},
      h("span", {}, h("a", { href: `${base}/results/${encodeURIComponent(name)}`, download: name, textContent: name }), h("br"), h("span", { className: "soft small", textContent: MEANING[name] ?? "" })),
      h("span", { className: "soft small", textContent: bytes(size) }))));
    if (files.some((file) => file.name === "commands.sh")) {
      const answer = await call("GET", `${base}/results/commands.sh`);
      this.commands.textContent = await answer.text();
    }
  }
}

export function tabs() {
  const list = [...document.querySelectorAll("[role=tab]")];
  const choose = (tab) => {
    for (const one of list) {
      one.setAttribute("aria-selected", one === tab);
      one.tabIndex = one === tab ? 0 : -1;
      $(one.getAttribute("aria-controls")).hidden = one !== tab;
    }
  };
  for (const [place, tab] of list.entries()) {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = list[(place + step + list.length) % list.length];
      next.focus(); choose(next);
    });
  }
}

// Buttons of which one is chosen, as radio buttons are.
export function radios(group, attribute, onChoose) {
  const buttons = [...group.querySelectorAll("[role=radio]")];
  const choose = (button) => {
    for (const one of buttons) { one.setAttribute("aria-checked", one === button); one.tabIndex = one === button ? 0 : -1; }
    onChoose(button.dataset[attribute]);
  };
  for (const [place, button] of buttons.entries()) {
    button.tabIndex = button.getAttribute("aria-checked") === "true" ? 0 : -1;
    button.addEventListener("click", () => choose(button));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = buttons[(place + step + buttons.length) % buttons.length];
      next.focus(); choose(next);
    });
  }
  return (name) => choose(buttons.find((button) => button.dataset[attribute] === name));
}
