"use strict";
const byId = id => document.getElementById(id);
const metrics = JSON.parse(byId("metrics").textContent);
const TEXTS = ["disagreement", "question", "answer", "reference", "contexts"];
// The open table: a row is a list of cells, so that a column may have any name.
let table = null;
let rowIndex = 0;
let metricIndex = 0;
let isSaved = true;

const parse = text => {
  const body = text.replace(/^\ufeff/, "");
  const heading = body.split("\n", 1)[0];
  const separator = heading.split(";").length > heading.split(",").length ? ";" : ",";
  const rows = [[]];
  let cell = "";
  let isQuoted = false;
  for (let index = 0; index < body.length; index += 1) {
    const sign = body[index];
    if (isQuoted && sign === '"' && body[index + 1] === '"') { cell += '"'; index += 1; }
    else if (sign === '"' && (isQuoted || cell === "")) isQuoted = !isQuoted;
    else if (isQuoted) cell += sign;
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
const lineOf = row => `${row.map(quote).join(table.separator)}\n`;
const tableText = () => `\ufeff${[table.columns, ...table.rows].map(lineOf).join("")}`;

const columnIndex = name => table.columns.indexOf(name);
const cellOf = (row, name) => row[columnIndex(name)] || "";
// A cell that a spreadsheet would take for a formula has an apostrophe in front.
const unescaped = text => text.replace(/^'(?=[=+\-@\t\r'])/, "");
const escaped = text => text.replace(/^(?=[=+\-@\t\r'])/, "'");
const metricsOfTable = () => metrics.filter(metric => columnIndex(metric.name) >= 0);
const lacksLabel = row => metricsOfTable().some(metric => !cellOf(row, metric.name));

// Labels that aren't saved yet are also in this browser, in case the page is closed.
const storageKey = () => `ragstone labels ${table.name}`;
const setCell = (name, value) => {
  table.rows[rowIndex][columnIndex(name)] = value;
  isSaved = false;
  try { localStorage.setItem(storageKey(), tableText()); } catch { /* the table can still be saved */ }
};
const unsavedText = () => { try { return localStorage.getItem(storageKey()); } catch { return null; } };

const newElement = (tag, text, properties) => {
  const element = Object.assign(document.createElement(tag), properties);
  if (text) element.textContent = text;
  return element;
};
const showStatus = text => {
  const labelled = table.rows.filter(row => !lacksLabel(row)).length;
  byId("bar").max = table.rows.length;
  byId("bar").value = labelled;
  const place = `${rowIndex + 1} of ${table.rows.length}`;
  byId("status").textContent = text || `${table.name}: ${place}, ${labelled} done${isSaved ? "" : ", not saved"}`;
};
const newChoices = (metric, index) => {
  const box = newElement("fieldset");
  box.dataset.current = String(index === metricIndex);
  box.append(newElement("legend", metric.title), newElement("div", metric.hint, { className: "hint" }));
  for (const [value, text] of [["pass", "Pass (p)"], ["fail", "Fail (f)"]]) {
    const button = newElement("button", text, { type: "button" });
    button.setAttribute("aria-pressed", String(cellOf(table.rows[rowIndex], metric.name) === value));
    button.addEventListener("click", () => { metricIndex = index; setLabel(value); });
    box.append(button);
  }
  return box;
};
const showRow = () => {
  const row = table.rows[rowIndex];
  const main = byId("row");
  main.replaceChildren(...metricsOfTable().map(newChoices));
  for (const name of TEXTS.filter(column => cellOf(row, column))) {
    const section = newElement("section");
    const text = newElement("div", unescaped(cellOf(row, name)), { className: "text", dir: "auto" });
    section.append(newElement("h2", name), text);
    main.append(section);
  }
  if (columnIndex("comment") >= 0) {
    const value = unescaped(cellOf(row, "comment"));
    const field = newElement("textarea", "", { id: "comment", rows: 2, value, dir: "auto" });
    field.addEventListener("input", () => { setCell("comment", escaped(field.value)); showStatus(); });
    const label = newElement("label", "Comment (c)");
    label.append(field);
    main.append(label);
  }
  showStatus();
};
const goTo = index => {
  rowIndex = Math.min(Math.max(0, index), table.rows.length - 1);
  metricIndex = Math.max(0, metricsOfTable().findIndex(metric => !cellOf(table.rows[rowIndex], metric.name)));
  showRow();
  scrollTo(0, 0);
};
const goToNextWithoutLabel = () => {
  const indices = [...table.rows.keys()].filter(index => lacksLabel(table.rows[index]));
  goTo(indices.find(index => index > rowIndex) ?? indices[0] ?? rowIndex);
};
const setLabel = value => {
  const row = table.rows[rowIndex];
  const choices = metricsOfTable();
  if (!choices.length) return;
  setCell(choices[metricIndex].name, value);
  if (value && !lacksLabel(row)) return goToNextWithoutLabel();
  if (value) metricIndex = choices.findIndex(metric => !cellOf(row, metric.name));
  showRow();
};

const open = (name, text) => {
  table = { name, ...parse(text) };
  isSaved = true;
  const unsaved = unsavedText();
  const question = `${name} was closed without saving. Continue where you were?`;
  if (unsaved && confirm(question)) table = { name, ...parse(unsaved) };
  if (columnIndex("id") < 0 || !table.rows.length || !metricsOfTable().length) {
    const names = metrics.map(metric => metric.name).join(" or ");
    byId("status").textContent = `${name} has no answers to label: it needs the columns id and ${names}.`;
    byId("row").replaceChildren();
    table = null;
    return;
  }
  for (const row of table.rows) while (row.length < table.columns.length) row.push("");
  goTo(Math.max(0, table.rows.findIndex(lacksLabel)));
};
const save = () => {
  const href = URL.createObjectURL(new Blob([tableText()], { type: "text/csv" }));
  newElement("a", "", { download: table.name, href }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
  isSaved = true;
  try { localStorage.removeItem(storageKey()); } catch { /* there is no storage */ }
  showStatus(`Saved as ${table.name}: put it in place of the one that you opened.`);
};
byId("file").addEventListener("change", async event => {
  const [file] = event.target.files;
  if (file) open(file.name, await file.text());
});
byId("save").addEventListener("click", () => table && save());
document.addEventListener("keydown", event => {
  if (!table || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("textarea")) return event.key === "Escape" ? event.target.blur() : undefined;
  const actions = {
    p: () => setLabel("pass"), f: () => setLabel("fail"), u: () => setLabel(""), n: goToNextWithoutLabel, s: save,
    j: () => goTo(rowIndex + 1), ArrowRight: () => goTo(rowIndex + 1),
    k: () => goTo(rowIndex - 1), ArrowLeft: () => goTo(rowIndex - 1),
    c: () => byId("comment")?.focus(),
    m: () => { metricIndex = (metricIndex + 1) % metricsOfTable().length; showRow(); },
  };
  if (!Object.hasOwn(actions, event.key)) return;
  actions[event.key]();
  event.preventDefault();
});
addEventListener("beforeunload", event => { if (!isSaved) event.preventDefault(); });
