// Elements, requests and messages. Names from files are only ever set as text.

export const $ = (id) => document.getElementById(id);

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function fill(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else if (name in element && name !== "role") element[name] = value;
    else element.setAttribute(name, value);
  }
}

export function options(select, entries, chosen) {
  select.replaceChildren(...entries.map(([value, text]) => h("option", { value, textContent: text })));
  if (chosen !== undefined && chosen !== null) select.value = chosen;
}

export async function call(method, path, body) {
  const request = { method, headers: { "X-JPlay": "1" } };
  if (body instanceof Blob) request.body = body;
  else if (body !== undefined) request.body = JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(path, request);
  } catch (error) {
    throw new Error("The app does not answer. Is jplay app still running? Your labels are saved.");
  }
  const kind = answer.headers.get("content-type") || "";
  const content = kind.includes("json") ? await answer.json() : kind.includes("octet") ? answer : await answer.text();
  if (!answer.ok) {
    const error = new Error(content.error || String(content));
    error.status = answer.status;
    throw error;
  }
  return content;
}

export function say(text, kind = "") {
  const known = [...document.querySelectorAll("#messages .message p")].find((p) => p.textContent === text);
  if (known) return;
  const box = h("div", { className: `message ${kind}` },
    h("p", { textContent: text }),
    h("button", { className: "plain", type: "button", textContent: "×", ariaLabel: "Close the message", onclick: () => box.remove() }));
  $("messages").append(box);
  setTimeout(() => box.remove(), kind === "info" ? 6000 : 20000);
}

export const guarded = (work) => async (...values) => {
  try {
    return await work(...values);
  } catch (error) {
    say(error.message);
    return undefined;
  }
};

export const percent = (value, digits = 1) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)} %`);

export function bytes(n) {
  if (n === null || n === undefined) return "";
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (n >= 1000 && place < units.length - 1) { n /= 1000; place += 1; }
  return `${place ? n.toFixed(1) : n} ${units[place]}`;
}

export const rgb = (hex) => [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
