"use strict";
const byId = id => document.getElementById(id);
const metrics = JSON.parse(byId("metrics").textContent);
const TEXTS = ["disagreement", "question", "answer", "reference", "contexts"];
// The open table: a row is a list of cells, so that a column may have any name.
let table = null;
let [at, metric, saved] = [0, 0, true];

const parse = text => {
  const body = text.replace(/^\ufeff/, "");
  const head = body.split("\n", 1)[0];
  const separator = head.split(";").length > head.split(",").length ? ";" : ",";
  const rows = [[]];
  let [cell, quoted] = ["", false];
  for (let place = 0; place < body.length; place += 1) {
    const sign = body[place];
    if (quoted && sign === '"' && body[place + 1] === '"') { cell += '"'; place += 1; }
    else if (sign === '"' && (quoted || cell === "")) quoted = !quoted;
    else if (quoted) cell += sign;
    else if (sign === separator || sign === "\n") {
      rows.at(-1).push(cell.replace(/\r$/, ""));
      cell = "";
      if (sign === "\n") rows.push([]);
    } else cell += sign;
  }
  rows.at(-1).push(cell);
  const filled = rows.filter(row => row.some(Boolean));
  return { separator, columns: filled[0] || [], rows: filled.slice(1) };
};
const quote = cell => `"${cell.replaceAll('"', '""')}"`;
const line = row => `${row.map(quote).join(table.separator)}\n`;
const written = () => `\ufeff${[table.columns, ...table.rows].map(line).join("")}`;

const column = name => table.columns.indexOf(name);
const cell = (row, name) => row[column(name)] || "";
// A cell that a spreadsheet would take for a formula has an apostrophe in front.
const shown = text => text.replace(/^'(?=[=+\-@\t\r'])/, "");
const labelled = () => metrics.filter(each => column(each.name) >= 0);
const isOpen = row => labelled().some(each => !cell(row, each.name));

// What isn't saved yet is kept in this browser, in case the page is closed.
const slot = () => `ragstone labels ${table.name}`;
const set = (name, value) => {
  table.rows[at][column(name)] = value;
  saved = false;
  try { localStorage.setItem(slot(), written()); } catch { /* the table can still be saved */ }
};
const unsaved = () => { try { return localStorage.getItem(slot()); } catch { return null; } };

const make = (tag, text, properties) => {
  const element = Object.assign(document.createElement(tag), properties);
  if (text) element.textContent = text;
  return element;
};
const status = text => {
  const done = table.rows.filter(row => !isOpen(row)).length;
  byId("bar").max = table.rows.length;
  byId("bar").value = done;
  byId("status").textContent = text || `${table.name}: ${at + 1} of ${table.rows.length}, ${done} done${saved ? "" : ", not saved"}`;
};
const choices = (each, index) => {
  const box = make("fieldset");
  box.dataset.current = String(index === metric);
  box.append(make("legend", each.title), make("div", each.hint, { className: "hint" }));
  for (const [value, text] of [["pass", "Pass (p)"], ["fail", "Fail (f)"]]) {
    const button = make("button", text, { type: "button" });
    button.setAttribute("aria-pressed", String(cell(table.rows[at], each.name) === value));
    button.addEventListener("click", () => { metric = index; label(value); });
    box.append(button);
  }
  return box;
};
const draw = () => {
  const row = table.rows[at];
  const place = byId("row");
  place.replaceChildren(...labelled().map(choices));
  for (const name of TEXTS.filter(each => cell(row, each))) {
    const section = make("section");
    section.append(make("h2", name), make("div", shown(cell(row, name)), { className: "text", dir: "auto" }));
    place.append(section);
  }
  if (column("comment") >= 0) {
    const field = make("textarea", "", { id: "comment", rows: 2, value: shown(cell(row, "comment")), dir: "auto" });
    field.addEventListener("input", () => { set("comment", field.value.replace(/^(?=[=+\-@\t\r'])/, "'")); status(); });
    const name = make("label", "Comment (c)");
    name.append(field);
    place.append(name);
  }
  status();
};
const go = place => {
  at = Math.min(Math.max(0, place), table.rows.length - 1);
  metric = Math.max(0, labelled().findIndex(each => !cell(table.rows[at], each.name)));
  draw();
  scrollTo(0, 0);
};
const nextOpen = () => {
  const places = [...table.rows.keys()].filter(place => isOpen(table.rows[place]));
  go(places.find(place => place > at) ?? places[0] ?? at);
};
const label = value => {
  const names = labelled();
  if (!names.length) return;
  set(names[metric].name, value);
  if (value && !isOpen(table.rows[at])) return nextOpen();
  if (value) metric = names.findIndex(each => !cell(table.rows[at], each.name));
  draw();
};

const open = (name, text) => {
  table = { name, ...parse(text) };
  saved = true;
  const kept = unsaved();
  if (kept && confirm(`${name} was closed without saving. Continue where you were?`)) table = { name, ...parse(kept) };
  if (column("id") < 0 || !table.rows.length || !labelled().length) {
    byId("status").textContent = `${name} has no answers to label: it needs the columns id and ${metrics.map(each => each.name).join(" or ")}.`;
    byId("row").replaceChildren();
    table = null;
    return;
  }
  for (const row of table.rows) while (row.length < table.columns.length) row.push("");
  go(Math.max(0, table.rows.findIndex(isOpen)));
};
const save = () => {
  const href = URL.createObjectURL(new Blob([written()], { type: "text/csv" }));
  make("a", "", { download: table.name, href }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
  saved = true;
  try { localStorage.removeItem(slot()); } catch { /* nothing is kept */ }
  status(`Saved as ${table.name}: put it in place of the one that you opened.`);
};
byId("file").addEventListener("change", async event => {
  const [file] = event.target.files;
  if (file) open(file.name, await file.text());
});
byId("save").addEventListener("click", () => table && save());
document.addEventListener("keydown", event => {
  if (!table || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("textarea")) return event.key === "Escape" ? event.target.blur() : undefined;
  const acts = {
    p: () => label("pass"), f: () => label("fail"), u: () => label(""), n: nextOpen, s: save,
    j: () => go(at + 1), ArrowRight: () => go(at + 1), k: () => go(at - 1), ArrowLeft: () => go(at - 1),
    c: () => byId("comment")?.focus(), m: () => { metric = (metric + 1) % labelled().length; draw(); },
  };
  if (!Object.hasOwn(acts, event.key)) return;
  acts[event.key]();
  event.preventDefault();
});
addEventListener("beforeunload", event => { if (!saved) event.preventDefault(); });
