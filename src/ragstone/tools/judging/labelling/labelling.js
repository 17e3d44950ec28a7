"use strict";
const begin = () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const review = data.kind === "review";
  const slot = "ragstone " + data.key;
  const one = id => document.getElementById(id);
  let state = { done: {}, at: 0, who: data.annotator || "" };
  let stored = true;
  let saved = true;
  let metric = 0;

  try {
    const before = JSON.parse(localStorage.getItem(slot) || "null");
    if (before && typeof before === "object" && before.done && typeof before.done === "object") {
      state = { done: before.done, at: Number(before.at) || 0, who: data.annotator || String(before.who || "") };
      saved = !Object.keys(state.done).length;
    }
  } catch { stored = false; }
  state.at = Math.min(Math.max(0, state.at), data.items.length - 1);

  const keep = () => {
    saved = false;
    try { localStorage.setItem(slot, JSON.stringify(state)); stored = true; } catch { stored = false; }
  };
  // Ids and names are foreign: "__proto__" must be a key like any other.
  const own = (object, key) => object && Object.hasOwn(object, key) ? object[key] : undefined;
  const put = (object, key, value) =>
    Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  const mine = item => {
    if (!Object.hasOwn(state.done, item.key)) put(state.done, item.key, {});
    return state.done[item.key];
  };
  const found = item => own(state.done, item.key) || {};
  const label = (item, name) => own(found(item).labels, name);
  const complete = (item, name) => {
    const value = label(item, name);
    if (data.scale !== "statements" || !item.statements.length) return value !== undefined;
    return value !== undefined && item.statements.every(part => Object.hasOwn(value, part.id));
  };
  const isDone = item => review ? Boolean(found(item).decision) : data.metrics.every(each => complete(item, each.name));

  const make = (tag, text, properties) => {
    const element = Object.assign(document.createElement(tag), properties || {});
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const LIMIT = 20000;
  const prose = parts => {
    const box = make("div", undefined, { className: "text", dir: "auto" });
    const fill = most => {
      box.replaceChildren();
      let left = most;
      for (const [text, marked] of parts) {
        if (left <= 0) break;
        box.append(marked ? make("mark", text.slice(0, left)) : text.slice(0, left));
        left -= text.length;
      }
      const total = parts.reduce((sum, [text]) => sum + text.length, 0);
      if (total > most) {
        const more = make("button", `Show all ${total.toLocaleString("en")} characters`, { type: "button" });
        more.addEventListener("click", () => fill(Infinity));
        box.append(" … ", more);
      }
    };
    fill(LIMIT);
    return box;
  };
  const card = (title, parts, source) => {
    const section = make("section");
    section.append(make("h2", title));
    if (source) section.append(make("div", source, { className: "source" }));
    section.append(prose(parts));
    return section;
  };
  const choice = (text, pressed, act, title) => {
    const button = make("button", text, { type: "button", title: title || "" });
    button.setAttribute("aria-pressed", String(pressed));
    button.addEventListener("click", act);
    return button;
  };
  const comment = item => {
    const box = make("label", "Comment (c)");
    const field = make("textarea", undefined, { id: "comment", rows: 2, value: found(item).comment || "", dir: "auto" });
    field.addEventListener("input", () => { mine(item).comment = field.value; keep(); });
    box.append(field);
    return box;
  };

  const give = (item, name, value) => {
    const entry = mine(item);
    entry.labels = entry.labels || {};
    if (value === undefined) delete entry.labels[name]; else put(entry.labels, name, value);
    entry.at = new Date().toISOString();
    keep();
  };
  const options = data.scale === "1-5"
    ? ["1", "2", "3", "4", "5"].map(text => ({ text, value: Number(text), key: text }))
    : [{ text: "Pass (p)", value: "pass", key: "p" }, { text: "Fail (f)", value: "fail", key: "f" }];
  const perStatement = item => data.scale === "statements" && item.statements.length > 0;

  const onward = item => {
    if (!isDone(item)) {
      const open = data.metrics.findIndex(each => !complete(item, each.name));
      if (open >= 0) metric = open;
      return draw();
    }
    const next = data.items.findIndex((each, index) => index > state.at && !isDone(each));
    go(next >= 0 ? next : state.at);
  };
  const rate = (item, index, value) => {
    const { name } = data.metrics[index];
    give(item, name, label(item, name) === value ? undefined : value);
    if (label(item, name) === undefined) return draw();
    onward(item);
  };
  const rateStatement = (item, name, id, value) => {
    give(item, name, { ...(label(item, name) || {}), [id]: value });
    draw();
  };

  const labels = item => data.metrics.map((each, index) => {
    const box = make("fieldset");
    box.dataset.current = String(index === metric);
    box.append(make("legend", each.title));
    if (each.hint) box.append(make("div", each.hint, { className: "source" }));
    if (perStatement(item)) {
      for (const part of item.statements) {
        const row = make("div", undefined, { className: "statement" });
        const value = own(label(item, each.name), part.id);
        for (const [text, wanted] of [["✓", true], ["✗", false]]) {
          const button = choice(text, value === wanted, () => rateStatement(item, each.name, part.id, wanted));
          button.setAttribute("aria-label", wanted ? "supported" : "not supported");
          row.append(button);
        }
        row.append(prose([[part.text, false]]));
        box.append(row);
      }
    } else {
      for (const option of options) {
        const act = () => rate(item, index, option.value);
        box.append(choice(option.text, label(item, each.name) === option.value, act));
      }
    }
    if (item.others && Object.hasOwn(item.others, each.name)) {
      for (const other of item.others[each.name]) box.append(make("div", other, { className: "source" }));
    }
    return box;
  });

  const decide = (item, decision) => {
    const entry = mine(item);
    entry.decision = entry.decision === decision ? undefined : decision;
    entry.at = new Date().toISOString();
    keep();
    if (!entry.decision) return draw();
    onward(item);
  };
  const FIELDS = [["question", "Question", 2], ["reference", "Reference answer", 4], ["tags", "Tags, separated by commas", 1]];
  const edited = (item, name) => {
    const edits = found(item).edits || {};
    return Object.hasOwn(edits, name) ? edits[name] : item.fields[name];
  };
  const editor = item => {
    const box = make("section", undefined, { className: `decided-${found(item).decision || "open"}` });
    box.append(make("h2", "Sample (e to edit)"));
    for (const [name, title, rows] of FIELDS) {
      const row = make("label", title);
      const field = make("textarea", undefined, { id: `edit-${name}`, rows, value: edited(item, name), dir: "auto" });
      field.addEventListener("input", () => {
        const entry = mine(item);
        entry.edits = entry.edits || {};
        if (field.value === item.fields[name]) delete entry.edits[name]; else entry.edits[name] = field.value;
        keep();
        status();
      });
      row.append(field);
      box.append(row);
    }
    const row = make("label");
    const tick = make("input", undefined, { type: "checkbox", id: "edit-answerable", checked: edited(item, "answerable") });
    tick.addEventListener("change", () => {
      const entry = mine(item);
      entry.edits = entry.edits || {};
      if (tick.checked === item.fields.answerable) delete entry.edits.answerable;
      else entry.edits.answerable = tick.checked;
      keep();
    });
    row.append(tick, " The documents answer the question");
    box.append(row);
    const buttons = make("div");
    buttons.append(
      choice("Accept (a)", found(item).decision === "accept", () => decide(item, "accept")), " ",
      choice("Reject (r)", found(item).decision === "reject", () => decide(item, "reject")),
    );
    box.append(buttons);
    return box;
  };

  const status = () => {
    const done = data.items.filter(isDone).length;
    one("progress").textContent = `${state.at + 1} of ${data.items.length}; ${done} done`;
    one("bar").max = data.items.length;
    one("bar").value = done;
    one("state").textContent = !stored ? "This browser stores nothing for this page: save the file before you close it."
      : saved ? "" : "Kept in this browser; save the file when you are done.";
  };
  const draw = () => {
    const item = data.items[state.at];
    const place = one("item");
    place.replaceChildren();
    const head = make("p", undefined, { className: "tags" });
    head.append(make("bdi", [item.id, ...item.tags].join(" · ")));
    place.append(head);
    if (review) place.append(editor(item));
    else {
      place.append(card("Question", [[item.question, false]]));
      place.append(card("Answer", [[item.answer, false]]));
      if (item.reference) place.append(card("Reference answer", [[item.reference, false]]));
      place.append(...labels(item));
    }
    if (review && item.answer) place.append(card("Answer of the system", [[item.answer, false]]));
    item.contexts.forEach((context, index) => {
      place.append(card(`${data.contexts} ${index + 1}`, context.parts, context.id));
    });
    place.append(comment(item));
    status();
  };
  const go = index => {
    state.at = Math.min(Math.max(0, index), data.items.length - 1);
    metric = Math.max(0, data.metrics.findIndex(each => !complete(data.items[state.at], each.name)));
    try { localStorage.setItem(slot, JSON.stringify(state)); } catch { stored = false; }
    draw();
    scrollTo(0, 0);
    one("item").focus({ preventScroll: true });
  };
  const nextOpen = () => {
    const after = data.items.findIndex((item, index) => index > state.at && !isDone(item));
    const any = after >= 0 ? after : data.items.findIndex(item => !isDone(item));
    go(any >= 0 ? any : state.at);
  };

  const save = () => {
    if (!state.who) {
      const name = prompt("Your name, for the file:");
      if (!name || !name.trim()) return;
      state.who = name.trim();
      keep();
    }
    const rows = data.items.filter(item => Object.hasOwn(state.done, item.key)).map(item => ({ key: item.key, ...state.done[item.key] }));
    const body = { ragstone: data.kind, schema_version: 1, batch: data.key, annotator: state.who, saved_at: new Date().toISOString(), rows };
    const link = make("a", undefined, { download: `${data.file || (review ? "review-" : "") + state.who.replace(/[^\p{L}\p{N}_-]+/gu, "-")}.json` });
    link.href = URL.createObjectURL(new Blob([JSON.stringify(body, null, 1)], { type: "application/json" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    saved = true;
    status();
    one("state").textContent = `Saved ${rows.length} of ${data.items.length} as ${link.download}.`;
  };

  const KEYS = [
    ["j →", "next"], ["k ←", "previous"], ["n", "next open"], ["c", "comment"], ["Esc", "leave a field"], ["s", "save the file"],
    ...(review ? [["a", "accept"], ["r", "reject"], ["e", "edit"]]
      : [["m", "next metric"], ["u", "clear the label"], ...options.map(each => [each.key, each.text.replace(/ \(.\)$/, "").toLowerCase()])]),
  ];
  for (const [key, text] of KEYS) one("keys").append(make("dt", key), make("dd", text));
  const help = () => { one("keys").hidden = !one("keys").hidden; };

  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const inField = event.target instanceof HTMLElement && event.target.matches("textarea, input");
    if (event.key === "Escape" && inField) { event.target.blur(); one("item").focus(); event.preventDefault(); return; }
    if (inField) return;
    const item = data.items[state.at];
    const option = review || perStatement(item) ? undefined : options.find(each => each.key === event.key);
    const acts = {
      j: () => go(state.at + 1), ArrowRight: () => go(state.at + 1), k: () => go(state.at - 1), ArrowLeft: () => go(state.at - 1),
      n: nextOpen, s: save, c: () => one("comment").focus(), "?": help,
      ...(review ? { a: () => decide(item, "accept"), r: () => decide(item, "reject"), e: () => one("edit-question").focus() }
        : {
          m: () => { metric = (metric + 1) % data.metrics.length; draw(); },
          u: () => { give(item, data.metrics[metric].name, undefined); draw(); },
        }),
    };
    if (option) rate(item, metric, option.value);
    else if (Object.hasOwn(acts, event.key)) acts[event.key]();
    else return;
    event.preventDefault();
  });
  one("previous").addEventListener("click", () => go(state.at - 1));
  one("next").addEventListener("click", () => go(state.at + 1));
  one("open").addEventListener("click", nextOpen);
  one("save").addEventListener("click", save);
  one("help").addEventListener("click", help);
  addEventListener("beforeunload", event => { if (!saved && !stored) event.preventDefault(); });
  go(state.at);
  document.documentElement.dataset.ready = "yes";
};
// Storage that is first used while a page loads is not always kept by Chromium, which says nothing of it.
addEventListener("load", () => setTimeout(begin, 100));
