// The page: what is open, what is drawn, what is under way.
import { $, bytes, call, guarded, h, options, percent, say } from "./ui.js";
import { MapView } from "./map.js";
import { relevanceChart, spectrumChart } from "./charts.js";
import { Accuracy, Subspace, TakeAway, radios, tabs } from "./views.js";

const POLL = 120, WATCH = 4000;
const session = { id: null, base: "", state: null, looks: null, job: (progress) => { showJobs(progress.jobs); poll(0); } };
let chosen = null, timer = null, known = [], settled = null;

try { known = JSON.parse(localStorage.getItem("jplay-sessions") ?? "[]"); } catch { known = []; }

// -- start

async function start() {
  const facts = await call("POST", "/api/start", { known });
  const id = location.hash.slice(1);
  if (/^[0-9a-f]{32}$/.test(id)) {
    try { return await resume(id); } catch (error) { say(error.message); history.replaceState(null, "", "/"); }
  } else if (facts.scene) {
    const before = facts.recent.find((one) => one.source === facts.scene);
    if (before) { await resume(before.id); say(`Continued with ${before.n_shapes} shapes of before.`, "info"); return undefined; }
    try { return await open({ path: facts.scene }); } catch (error) { say(error.message); }
  }
  $("card-recent").hidden = !facts.recent.length;
  $("recent").replaceChildren(...facts.recent.map((one) => h("li", {}, h("button", { type: "button", onclick: guarded(() => resume(one.id)) },
    h("span", { textContent: one.title }),
    h("span", { className: "soft", textContent: `${one.kind === "scene" ? `${one.n_shapes} shapes, ` : ""}${new Date(1000 * one.changed).toLocaleString()}` })))));
  await browse("");
  return undefined;
}

async function browse(folder) {
  const found = await call("GET", `/api/files?folder=${encodeURIComponent(folder)}`);
  const entry = (name, note, onclick) => h("li", {}, h("button", { type: "button", onclick: guarded(onclick) }, h("span", { textContent: name }), h("span", { className: "soft", textContent: note })));
  $("folder-name").textContent = found.folder;
  $("files").replaceChildren(
    ...(found.above === null ? [] : [entry("Up", "folder", () => browse(found.above))]),
    ...found.folders.map((one) => entry(one.name, "folder", () => browse(one.path))),
    ...found.files.map((one) => entry(one.name, `${one.kind}${one.bytes ? `, ${bytes(one.bytes)}` : ""}`, () => openOrAsk({ path: one.path }))));
  if (!found.folders.length && !found.files.length) $("files").append(h("li", { className: "soft", textContent: "No scene or table here." }));
}

async function openOrAsk(request, id = null) {
  try {
    await open(request, id);
  } catch (error) {
    if (/`variable`/.test(error.message)) {
      $("variable-form").hidden = false;
      $("variable-form").onsubmit = (event) => { event.preventDefault(); guarded(open)({ ...request, variable: $("variable").value }, id); };
      $("variable").focus();
    }
    throw error;
  }
}

async function create() {
  const { id } = await call("POST", "/api/sessions");
  return id;
}

async function open(request, id = null) {
  $("facts").textContent = "Opening…";
  try {
    id ??= await create();
    begin(id, await call("POST", `/api/sessions/${id}/open`, request));
  } finally {
    if (!session.state) $("facts").textContent = "";
  }
}

async function resume(id) {
  $("facts").textContent = "Opening…";
  try { begin(id, await call("GET", `/api/sessions/${id}`)); } finally { if (!session.state) $("facts").textContent = ""; }
}

async function upload(files) {
  if (!files.length) return;
  const id = await create(), bar = $("upload-progress");
  bar.hidden = false;
  try {
    const total = files.reduce((sum, file) => sum + file.size, 0) || 1;
    let sent = 0, names = [];
    for (const file of files) {
      const { upload: name } = await call("PUT", `/api/sessions/${id}/upload/${encodeURIComponent(file.name)}`, file);
      names.push(name);
      sent += file.size;
      bar.value = sent / total;
    }
    const main = names.find((name) => /\.hdr$/i.test(name)) ?? names[0];
    await openOrAsk({ upload: main }, id);
  } finally {
    bar.hidden = true;
  }
}

function begin(id, state) {
  Object.assign(session, { id, base: `/api/sessions/${id}`, looks: null, state: null });
  history.replaceState(null, "", `#${id}`);
  known = [id, ...known.filter((one) => one !== id)].slice(0, 50);
  localStorage.setItem("jplay-sessions", JSON.stringify(known));
  $("start").hidden = true;
  $("scene").hidden = state.kind !== "scene";
  $("table").hidden = state.kind !== "table";
  $("title").textContent = state.title;
  document.title = `${state.title} – jplay`;
  settled = null;
  if (state.kind === "scene") beginScene(state); else beginTable(state);
  apply(state);
  poll(POLL);
}

// -- state of the server

function apply(state) {
  const before = session.state;
  if (before && state.revision < before.revision) return;
  session.state = state;
  if (state.kind === "scene") applyScene(state); else applyTable(state);
  showJobs(state.jobs);
  if (state.fit && state.fit.number !== session.looks?.number) guarded(fetchLooks)();
  if (!state.fit) { session.looks = null; parts()?.subspace.clear(); }
  const accuracy = JSON.stringify(state.accuracy);
  if (accuracy !== settled) { settled = accuracy; parts().accuracy.show(state.accuracy, state.kind); }
}

const scene = {}, table = {};
const parts = () => (session.state?.kind === "table" ? table : scene);

async function fetchLooks() {
  const looks = await call("GET", `${session.base}/looks`);
  session.looks = looks;
  const { fit } = session.state;
  if (!fit || fit.number !== looks.number) return;
  parts().subspace.show(fit, looks, colorsOf(fit));
  if (session.state.kind === "table") showImportance(fit, looks);
}

function colorsOf(fit) {
  if (session.state.kind === "scene") return fit.classes.map((code) => classOf(code)?.color ?? "#888888");
  return fit.classes.map((_, k) => PALETTE[k % PALETTE.length]);
}
const PALETTE = ["#0078f9", "#d29600", "#750f57", "#e078c5", "#3c3b00", "#0e8868", "#a5a5a5", "#0708f6", "#876996", "#ad5910", "#00b4ff", "#ff186a", "#98373c", "#b4d078", "#004b94"];

// -- work under way

function showJobs(jobs) {
  const labels = { fit: "Fit", accuracy: "Accuracy", export: "Files" };
  const boxes = Object.values(jobs).filter((job) => job.state === "running").map((job) => {
    const bar = h("progress", { ariaLabel: `${labels[job.kind]}: progress` });
    if (job.total) { bar.max = job.total; bar.value = job.done; }
    else if (job.expected) { bar.max = 1; bar.value = Math.min(0.95, job.seconds / job.expected); }
    return h("div", { className: "job" },
      h("span", { textContent: `${job.text} · ${job.seconds.toFixed(1)} s` }), bar,
      h("button", { className: "plain", type: "button", textContent: "Stop", onclick: guarded(async () => session.job(await call("POST", `${session.base}/cancel/${job.kind}`))) }));
  });
  $("jobs").replaceChildren(...boxes);
}

const told = new Set();
let busy = false;

function poll(delay) {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const { base } = session;
    let next = WATCH;
    if (!busy && !document.hidden) {
      busy = true;
      try {
        const progress = await call("GET", `${base}/progress`);
        if (base === session.base) {
          showJobs(progress.jobs);
          for (const job of Object.values(progress.jobs)) {
            if (job.state === "running") next = POLL;
            else if (!told.has(job.number)) {
              told.add(job.number);
              if (job.state === "failed") say(job.message);
              if (job.kind === "export" && job.state === "done") guarded(() => parts().takeaway.show())();
            }
          }
          if (progress.revision !== session.state.revision) apply(await call("GET", base));
        }
      } catch (error) {
        if (error.status === 404) say(error.message);
        next = WATCH;
      } finally {
        busy = false;
      }
    }
    poll(next);
  }, delay);
}

// -- scene

const classOf = (code) => session.state.classes.find((one) => one.id === code);
const send = guarded(async (method, path, body) => { apply(await call(method, session.base + path, body)); poll(POLL); return true; });

function beginScene(state) {
  const { scene: facts } = state;
  chosen = state.classes[0]?.id ?? null;
  $("facts").textContent = `${facts.height} × ${facts.width} pixels, ${facts.n_bands} bands${facts.good.length < facts.n_bands ? ` (${facts.good.length} good)` : ""}, ${bytes(facts.megabytes * 2 ** 20)}${facts.crs ? `, ${facts.crs}` : ", not georeferenced"}`;
  $("example-labels").hidden = !state.has_example;
  const presets = Object.entries(facts.presets);
  options($("preset"), [...presets.map(([name]) => [name, name]), ["", "Own choice"]], presets[0][0]);
  const bandName = (band) => (facts.wavelengths ? `${band}: ${Math.round(facts.wavelengths[band])} nm` : String(band));
  const bands = Array.from({ length: facts.n_bands }, (_, band) => [band, bandName(band)]);
  ["band-r", "band-g", "band-b"].forEach((id, place) => options($(id), bands, presets[0][1][place]));
  options($("model"), Object.entries(state.models), state.settings.model);
  $("max-per-class").value = state.settings.max_per_class;
  $("auto").checked = state.settings.auto;
  $("threshold").value = Math.round(100 * state.settings.min_confidence);
  $("threshold").dispatchEvent(new Event("input"));
  scene.map.open(facts, session.base);
  setLook();
  scene.chooseTool(state.shapes.length ? "move" : "polygon");
  guarded(() => scene.takeaway.show())();
}

function setLook() {
  const bands = ["band-r", "band-g", "band-b"].map((id) => +$(id).value);
  scene.map.setLook(bands, $("percent").value);
}

function applyScene(state) {
  const { map } = scene;
  if (!state.classes.some((one) => one.id === chosen)) chosen = state.classes[0]?.id ?? null;
  map.classes = new Map(state.classes.map((one) => [one.id, one]));
  if (!map.drag) map.shapes = state.shapes.map((one) => ({ ...one, rings: one.rings.map((ring) => ring.map((point) => [...point])) }));
  if (map.selected && !state.shapes.some((one) => one.id === map.selected)) map.select(null);
  map.fit = state.fit?.number ?? null;
  if (map.fit === null) map.tiles.clear();
  map.repaint();
  showClasses(state);
  $("notes").replaceChildren(...state.notes.map((text) => h("li", { textContent: text })));
  const { fit } = state;
  $("fit-facts").textContent = fit ? `${fit.model_name}: ${fit.n_samples} pixels of ${fit.classes.length} classes in ${fit.seconds.toFixed(1)} s.` : "Draw fields of at least two classes.";
  showLegend();
}

function showLegend() {
  const entry = (color, name) => h("li", {}, h("span", { className: "swatch", style: { "--c": color } }), name);
  const texts = {
    errors: () => [entry("rgb(205,208,212)", "drawn and mapped alike"), entry("rgb(226,52,52)", "mapped otherwise than drawn")],
    confidence: () => [entry("rgb(68,1,84)", "unsure"), entry("rgb(253,231,37)", "sure")],
  };
  const shown = texts[scene.map.layer]?.() ?? [];
  $("legend").replaceChildren(...shown);
  $("legend").hidden = !session.state.fit || !shown.length;
}

// Rows stay the elements they are: a name may be half typed while the state arrives.
function showClasses(state) {
  const rows = new Map([...$("classes").children].map((item) => [+item.dataset.id, item]));
  const wanted = state.classes.map((one) => {
    const row = rows.get(one.id) ?? classRow(one.id);
    const [color, name, count, remove] = row.children;
    const { pixels, fields } = state.counts[one.id] ?? { pixels: 0, fields: 0 };
    row.className = one.id === chosen ? "chosen" : "";
    row.dataset.fields = fields;
    if (document.activeElement !== color) color.value = one.color;
    if (document.activeElement !== name || name.value === name.defaultValue) { name.defaultValue = one.name; if (name.value !== one.name) name.value = one.name; }
    color.ariaLabel = `Colour of ${one.name}`;
    remove.ariaLabel = `Delete class ${one.name}`;
    count.textContent = fields ? `${pixels} pixels, ${fields} ${fields === 1 ? "field" : "fields"}` : "nothing drawn";
    return row;
  });
  const now = [...$("classes").children];
  if (now.length !== wanted.length || now.some((row, place) => row !== wanted[place])) $("classes").replaceChildren(...wanted);
  options($("shape-class"), state.classes.map((one) => [one.id, one.name]), shapeNow()?.class);
}

function classRow(id) {
  const change = (values) => send("PUT", `/classes/${id}`, values);
  const row = h("li", { onclick: () => choose(id) },
    h("input", { type: "color", onchange: (event) => change({ color: event.target.value }) }),
    h("input", { className: "name", maxLength: 80, ariaLabel: `Name of class ${id}`, onfocus: () => choose(id), onchange: async (event) => { if (!(await change({ name: event.target.value }))) event.target.value = classOf(id).name; } }),
    h("span", { className: "count" }),
    h("button", { className: "plain", type: "button", textContent: "×", onclick: (event) => {
      event.stopPropagation();
      const { fields } = row.dataset;
      if (fields === "0" || confirm(`Delete ${classOf(id).name} and its ${fields} shapes?`)) send("DELETE", `/classes/${id}`);
    } }));
  row.dataset.id = id;
  return row;
}

function choose(id) {
  chosen = id;
  [...$("classes").children].forEach((item, place) => item.classList.toggle("chosen", session.state.classes[place]?.id === id));
}

const shapeNow = () => session.state?.shapes.find((one) => one.id === scene.map.selected);

async function finished(kind, rings) {
  if (chosen === null && !(await send("POST", "/classes", {}))) return;
  const id = crypto.randomUUID ? crypto.randomUUID().slice(0, 36) : `s${Date.now()}${Math.random().toString(36).slice(2)}`;
  scene.map.shapes.push({ id, class: chosen, kind, rings });
  scene.map.draw();
  session.drawn = performance.now();
  const kept = await send("PUT", `/shapes/${id}`, { class: chosen, kind, rings });
  if (!kept) { scene.map.shapes = scene.map.shapes.filter((one) => one.id !== id); scene.map.draw(); }
}

let asking = false, latest = null;

async function askPixel(row, column) {
  latest = [row, column];
  if (asking) return;
  asking = true;
  while (latest) {
    const [r, c] = latest;
    latest = null;
    try { showPixel(await call("GET", `${session.base}/pixel/${r}/${c}`)); } catch (error) { $("pixel-text").textContent = error.message; }
  }
  asking = false;
}

function showPixel(pixel) {
  const { scene: facts, fit } = session.state, { looks } = session;
  const shown = scene.map.shownAt(pixel.row, pixel.column);
  const texts = [`Row ${pixel.row}, column ${pixel.column}.`];
  if (!pixel.valid) texts.push("No data.");
  if (shown?.code) texts.push(shown.confidence < scene.map.threshold ? "Unclassified on the map." : `On the map: ${classOf(shown.code)?.name ?? "a deleted class"} (${percent(shown.confidence, 0)}).`);
  if (shown?.label) texts.push(`Drawn: ${classOf(shown.label)?.name ?? "–"}.`);
  $("pixel-text").textContent = texts.join(" ");
  const positions = facts.wavelengths ? facts.good.map((band) => facts.wavelengths[band]) : facts.good;
  const ready = fit && looks && pixel.fit === fit.number && looks.number === fit.number && pixel.probabilities;
  const order = ready ? pixel.probabilities.map((_, k) => k).sort((a, b) => pixel.probabilities[b] - pixel.probabilities[a]) : [];
  const colors = ready ? colorsOf(fit) : [];
  const means = order.slice(0, 3).map((k) => ({ values: looks.means[k], color: colors[k], mean: true, name: fit.class_names[k] }));
  $("spectrum").replaceChildren(
    spectrumChart(positions, facts.good, [...means, { values: pixel.spectrum }], `Spectrum of the pixel in row ${pixel.row}, column ${pixel.column}, beside class means`),
    h("ul", { className: "key" }, h("li", { textContent: "▬ this pixel" }), ...means.map((one) => h("li", {}, h("span", { className: "swatch", style: { "--c": one.color } }), `${one.name} (mean)`))));
  $("probabilities").replaceChildren(...order.slice(0, 5).map((k) => h("li", {},
    h("span", { className: "what" }, h("span", { className: "swatch", style: { "--c": colors[k] } }), fit.class_names[k]),
    h("span", { className: "meter" }, h("i", { style: { width: `${100 * pixel.probabilities[k]}%`, "--c": colors[k] } })),
    h("span", { className: "number", textContent: percent(pixel.probabilities[k], 0) }))));
  const whole = looks?.relevance?.length === 1;
  const shares = ready && looks.relevance ? looks.relevance[whole ? 0 : order[0]] : null;
  $("relies").replaceChildren(...(shares ? [
    h("h3", { textContent: whole ? "What the model relies on" : `What ${fit.class_names[order[0]]} relies on` }),
    relevanceChart(positions, shares, "Share of each band")] : []));
  scene.subspace.place(ready ? pixel.planes : null);
}

function suggest() {
  const area = scene.map.leastCertain();
  if (!area) return say("There is no map of the visible part yet. Fit a model first.");
  say(`Least certain: the marked square, ${percent(area.confidence, 0)} on average. Draw there next.`, "info");
  return undefined;
}

function wireScene() {
  scene.map = new MapView($("map"), {
    pixel: askPixel,
    finished: guarded(finished),
    changed: (id, rings) => { const shape = scene.map.shapes.find((one) => one.id === id); send("PUT", `/shapes/${id}`, { class: shape.class, kind: shape.kind, rings }).then((kept) => kept || call("GET", session.base).then(apply)); },
    selected: (id) => { $("shape-panel").hidden = !id; if (id) $("shape-class").value = shapeNow()?.class; },
    removed: (id) => send("DELETE", `/shapes/${id}`),
    hint: (text) => { $("hint").textContent = text; $("hint").hidden = !text; },
    draftColor: () => classOf(chosen)?.color ?? "#0078f9",
    failed: (text) => say(text),
    arrived: (fit) => { $("map").dataset.fit = fit; if (session.drawn) { $("map").dataset.seconds = ((performance.now() - session.drawn) / 1000).toFixed(2); session.drawn = null; } },
    loading: (n) => { $("map").dataset.loading = n; },
  });
  scene.chooseTool = radios($("tools"), "tool", (tool) => scene.map.setTool(tool));
  radios($("layers"), "layer", (layer) => { scene.map.layer = layer; scene.map.repaint(); if (session.state) showLegend(); });
  tabs();
  const next = h("button", { type: "button", id: "suggest", textContent: "Where to draw next?", onclick: suggest });
  scene.accuracy = new Accuracy($("pane-trust"), session, next);
  scene.subspace = new Subspace($("pane-subspace"), session, (place) => {
    const { looks } = session;
    scene.map.mark = place >= 0 && looks?.columns ? [looks.columns[place], looks.rows[place]] : null;
    scene.map.draw();
  });
  scene.takeaway = new TakeAway($("pane-take"), session);
  $("zoom-in").onclick = () => scene.map.zoom(1.5);
  $("zoom-out").onclick = () => scene.map.zoom(1 / 1.5);
  $("zoom-fit").onclick = () => scene.map.whole();
  $("preset").onchange = () => {
    const bands = session.state.scene.presets[$("preset").value];
    if (bands) { ["band-r", "band-g", "band-b"].forEach((id, place) => { $(id).value = bands[place]; }); setLook(); }
  };
  for (const id of ["band-r", "band-g", "band-b"]) $(id).onchange = () => { $("preset").value = ""; setLook(); };
  $("percent").onchange = setLook;
  $("opacity").oninput = () => { scene.map.opacity = $("opacity").value / 100; scene.map.draw(); };
  $("threshold").oninput = () => { scene.map.threshold = $("threshold").value / 100; $("threshold-value").textContent = `${$("threshold").value} %`; scene.map.repaint(); };
  $("threshold").onchange = () => send("PUT", "/settings", { min_confidence: $("threshold").value / 100 });
  $("add-class").onclick = async () => {
    if (!(await send("POST", "/classes", {}))) return;
    choose(session.state.classes.at(-1).id);
    const field = $("classes").lastElementChild.querySelector(".name");
    field.focus(); field.select();
  };
  $("example-labels").onclick = () => send("POST", "/example");
  $("shape-class").onchange = () => { const shape = shapeNow(); if (shape) send("PUT", `/shapes/${shape.id}`, { ...shape, class: +$("shape-class").value }); };
  $("shape-delete").onclick = () => { if (scene.map.selected) send("DELETE", `/shapes/${scene.map.selected}`); };
  $("model").onchange = () => send("PUT", "/settings", { model: $("model").value });
  $("max-per-class").onchange = () => send("PUT", "/settings", { max_per_class: +$("max-per-class").value || 200 });
  $("auto").onchange = () => send("PUT", "/settings", { auto: $("auto").checked });
  $("fit").onclick = guarded(async () => session.job(await call("POST", `${session.base}/fit`)));
  $("import").onchange = guarded(async () => {
    const [file] = $("import").files;
    if (!file) return;
    try {
      const state = await call("PUT", `${session.base}/import/${encodeURIComponent(file.name)}`, file);
      if (state.n_outside) say(`${state.n_outside} shapes lie outside the image and were left out.`, "info");
      apply(state); poll(POLL);
    } finally { $("import").value = ""; }
  });
}

// -- table

function beginTable(state) {
  const { table: facts } = state;
  $("facts").textContent = `${facts.n_rows} rows, ${facts.columns.length} columns`;
  const names = facts.columns.map((one) => [one.name, one.name]);
  options($("role-target"), [["", "Choose"], ...names], state.roles.target ?? "");
  options($("role-groups"), [["", "None"], ...names], state.roles.groups ?? "");
  options($("role-id"), [["", "Number of the row"], ...names], state.roles.id ?? "");
  options($("table-model"), Object.entries(state.models), state.settings.model);
  $("head").replaceChildren(h("table", {},
    h("thead", {}, h("tr", {}, ...facts.columns.slice(0, 30).map((one) => h("th", { scope: "col", textContent: one.name })))),
    h("tbody", {}, ...facts.head.map((row) => h("tr", {}, ...row.slice(0, 30).map((value) => h("td", { textContent: value })))))));
  table.accuracy = new Accuracy($("table-trust"), session);
  table.subspace = new Subspace($("table-subspace"), session, () => {});
  table.takeaway = new TakeAway($("table-take"), session);
  guarded(() => table.takeaway.show())();
}

function applyTable(state) {
  const { fit } = state;
  $("table-fit-facts").textContent = fit ? `${fit.model_name}: ${fit.n_samples} rows of ${fit.classes.length} classes in ${fit.seconds.toFixed(1)} s.` : "";
  if (!fit) $("importance").replaceChildren(h("p", { className: "soft", textContent: "Fit a model first." }));
}

function showImportance(fit, looks) {
  if (!looks.relevance) { $("importance").replaceChildren(h("p", { className: "soft", textContent: "This model does not tell." })); return; }
  const whole = looks.relevance.length === 1;
  const choice = h("select", { id: "importance-class", onchange: () => show() });
  options(choice, whole ? [[0, "All classes"]] : fit.class_names.map((name, k) => [k, name]));
  const list = h("ul", { className: "bars" });
  const show = () => {
    const shares = looks.relevance[+choice.value];
    const order = shares.map((_, k) => k).sort((a, b) => Math.abs(shares[b]) - Math.abs(shares[a])).slice(0, 12);
    const most = Math.abs(shares[order[0]]) || 1;
    list.replaceChildren(...order.map((k) => h("li", {},
      h("span", { className: "what", textContent: looks.features[k], title: looks.features[k] }),
      h("span", { className: "meter" }, h("i", { style: { width: `${(100 * Math.abs(shares[k])) / most}%`, "--c": shares[k] < 0 ? "var(--soft)" : "var(--accent)" } })),
      h("span", { className: "number", textContent: percent(shares[k], 0) }))));
  };
  show();
  $("importance").replaceChildren(h("label", { className: "block", textContent: "Class " }, choice), list, h("p", { className: "soft small", textContent: "Grey bars pull a class towards the others." }));
}

function wireTable() {
  const roles = () => send("PUT", "/roles", { target: $("role-target").value, groups: $("role-groups").value, id: $("role-id").value });
  for (const id of ["role-target", "role-groups", "role-id"]) $(id).onchange = roles;
  $("table-model").onchange = () => send("PUT", "/settings", { model: $("table-model").value });
  $("table-fit").onclick = guarded(async () => session.job(await call("POST", `${session.base}/fit`)));
}

// -- begin

wireScene();
wireTable();
$("open-example").onclick = guarded(() => open({ example: "indian_pines" }));
$("upload").onchange = guarded(async () => { await upload([...$("upload").files]); $("upload").value = ""; });
for (const [event, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
  $("drop").addEventListener(event, (e) => { e.preventDefault(); $("drop").classList.toggle("over", over); if (event === "drop") guarded(upload)([...e.dataTransfer.files]); });
}
document.addEventListener("click", (event) => { const menu = document.querySelector(".menu[open]"); if (menu && !menu.contains(event.target)) menu.open = false; });
document.addEventListener("visibilitychange", () => { if (session.id && !document.hidden) poll(0); });
guarded(start)();
