"use strict";
(() => {
  const PAGE = 100, COLUMNS = 8, MAX_UNPACKED = 64 * 1024 * 1024, MAX_TOKENS = 8000, MAX_EDITS = 1000;
  const table = document.getElementById("samples");
  if (!table) { return; }
  const get = id => document.getElementById(id);
  const [tools, words, which, metric, cause, tag, clear, shown, more, note] =
    ["tools", "filter", "which", "metric", "cause", "tag", "clear", "shown", "more", "note"].map(get);
  const body = table.tBodies[0];
  const packed = kind => [...document.querySelectorAll(`script[data-packed="${kind}"]`)];
  const textChunks = packed("texts"), unpacked = new Map();
  const titles = [...metric.options].slice(1).map(option => option.textContent);
  let rows = [], matchingRows = [], limit = PAGE, sorted = null, columns = [];

  // Elements. Text is only ever set as text.
  function make(name, properties, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(properties || {})) {
      if (key === "class") { made.className = value; } else if (value !== null) { made.setAttribute(key, value); }
    }
    made.append(...children.filter(child => child !== null && child !== ""));
    return made;
  }
  const number = count => count.toLocaleString("en-US");
  const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

  async function unpack(element) {
    const bytes = Uint8Array.from(atob(element.textContent), char => char.charCodeAt(0));
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
    const parts = [];
    let size = 0;
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      size += part.value.length;
      if (size > MAX_UNPACKED) { await reader.cancel(); throw new Error("too large"); }
      parts.push(part.value);
    }
    return JSON.parse(await new Blob(parts).text());
  }

  function textsOf(row) {
    if (row.place === null) { return Promise.resolve(null); }
    const [chunk, at] = row.place;
    if (!unpacked.has(chunk)) {
      if (unpacked.size >= 16) { unpacked.delete(unpacked.keys().next().value); }
      unpacked.set(chunk, unpack(textChunks[chunk]));
    }
    return unpacked.get(chunk).then(found => found[at]);
  }

  function rowOf(values) {
    const [id, question, tags, file, line, address, cells, latency, failure, cause, place] = values;
    const row = { id, question, tags, file, line, address, latency, failure, cause };
    row.cells = cells.map(([text, sort, kind, change, reason]) => ({ text, sort, kind, change, reason }));
    row.place = place.length && textChunks[place[0]] ? place : null;
    row.kinds = new Set(row.cells.map(cell => cell.kind));
    if (failure !== null) { row.kinds.add("failed"); }
    row.state = ["failed", "worse", "better"].find(kind => row.kinds.has(kind)) || "";
    row.text = [id, question, ...tags, file || "", failure || ""].join("\n").toLowerCase();
    return row;
  }

  // The word diff: Myers' shortest edit script over words, within bounds.
  const segmenter = typeof Intl.Segmenter === "function" ? new Intl.Segmenter(undefined, { granularity: "word" }) : null;
  const tokensOf = text => segmenter ? Array.from(segmenter.segment(text), one => one.segment)
    : text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) || [];

  function diff(before, after) {
    const a = tokensOf(before), b = tokensOf(after);
    let start = 0, end = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) { start++; }
    while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) { end++; }
    const edits = [["", a.slice(0, start)], ...editsBetween(a.slice(start, a.length - end), b.slice(start, b.length - end)),
      ["", end ? a.slice(a.length - end) : []]];
    const joined = [];
    for (const [kind, tokens] of edits) {
      const last = joined[joined.length - 1];
      if (!tokens.length) { continue; }
      if (last && last[0] === kind) { last[1] += tokens.join(""); } else { joined.push([kind, tokens.join("")]); }
    }
    return mergeAcrossSpaces(joined);
  }

  function editsBetween(a, b) {
    const whole = [["-", a], ["+", b]];
    if (!a.length || !b.length || a.length + b.length > MAX_TOKENS) { return whole; }
    const size = a.length + b.length, most = Math.min(size, MAX_EDITS), trace = [];
    let reach = new Int32Array(2 * most + 3);
    const at = most + 1;
    for (let edits = 0; edits <= most; edits++) {
      trace.push(reach.slice(at - edits - 1, at + edits + 2));
      for (let k = -edits; k <= edits; k += 2) {
        let x = k === -edits || (k !== edits && reach[at + k - 1] < reach[at + k + 1]) ? reach[at + k + 1] : reach[at + k - 1] + 1;
        while (x < a.length && x - k < b.length && a[x] === b[x - k]) { x++; }
        reach[at + k] = x;
        if (x >= a.length && x - k >= b.length) { return traceEdits(a, b, trace); }
      }
    }
    return whole;
  }

  function traceEdits(a, b, trace) {
    const found = [];
    let x = a.length, y = b.length;
    for (let edits = trace.length - 1; edits >= 0; edits--) {
      const reach = trace[edits], at = edits + 1, k = x - y;
      const down = k === -edits || (k !== edits && reach[at + k - 1] < reach[at + k + 1]);
      const fromK = down ? k + 1 : k - 1;
      const fromX = edits === 0 ? 0 : reach[at + fromK], fromY = edits === 0 ? 0 : fromX - fromK;
      while (x > fromX && y > fromY) { found.push(["", [a[--x]]]); y--; }
      if (edits > 0) { found.push(down ? ["+", [b[--y]]] : ["-", [a[--x]]]); }
    }
    return found.reverse();
  }

  // A space alone between two changes is part of them; what was removed comes before what was added.
  function mergeAcrossSpaces(parts) {
    const found = [];
    let removed = "", added = "";
    const flush = () => {
      if (removed) { found.push(["-", removed]); }
      if (added) { found.push(["+", added]); }
      removed = added = "";
    };
    parts.forEach(([kind, text], place) => {
      const between = kind === "" && (removed || added) && place + 1 < parts.length && /^\s+$/.test(text);
      if (kind === "-" || between) { removed += text; }
      if (kind === "+" || between) { added += text; }
      if (kind === "" && !between) { flush(); found.push(["", text]); }
    });
    flush();
    return found;
  }

  // The texts of a sample.
  const textBlock = text => [make("pre", { tabindex: "0" }, text || "(empty)")];
  const heading = text => make("h4", {}, text);

  const soft = text => make("p", { class: "soft small" }, text);
  const pieces = edits => edits.map(([kind, text]) => kind === "-" ? make("del", {}, text) : kind === "+" ? make("ins", {}, text) : text);

  function answerBlock(pair, compared) {
    const { current, baseline } = pair;
    if (current.failure) {
      return [heading("Answer"), make("p", { class: "failed" }, current.failure), current.trace.length ? make("pre", {}, current.trace.join("\n")) : null,
        ...(baseline && baseline.text ? [heading("Answer of the baseline"), ...textBlock(baseline.text)] : [])];
    }
    if (!baseline) { return [heading("Answer"), ...textBlock(current.text), compared ? soft("The baseline has no answer to compare with.") : null]; }
    if (baseline.failure) { return [heading("Answer"), ...textBlock(current.text), soft(`In the baseline: ${baseline.failure}`)]; }
    if (baseline.text === current.text) { return [heading("Answer"), ...textBlock(current.text), soft("The answer is the baseline's, word for word.")]; }
    return [heading("Answer, before and after"), make("p", { class: "soft small" }, make("del", {}, "only in the baseline"), " · ", make("ins", {}, "new")),
      make("pre", { class: "diff", tabindex: "0" }, ...pieces(diff(baseline.text, current.text))),
      make("details", {}, make("summary", {}, "Both answers as they are"), soft("Now"), ...textBlock(current.text), soft("Baseline"), ...textBlock(baseline.text))];
  }

  const VERDICTS = { supported: ["pass", "supported"], unsupported: ["fail", "not in the contexts"], contradicted: ["fail", "contradicted"] };

  function statementsBlock(title, statements) {
    if (!statements.length) { return []; }
    const items = statements.map(one => {
      const [kind, word] = VERDICTS[one.verdict] || ["", "not judged"];
      const named = names => `context${names.length === 1 ? "" : "s"} ${names.map(name => /^c\d+$/.test(name) ? name.slice(1) : name).join(", ")}`;
      return make("li", {}, make("span", { class: `pill ${kind}` }, word), " ", one.text,
        one.supportedBy.length ? make("span", { class: "soft" }, ` (${named(one.supportedBy)})`) : null,
        one.contradictedBy.length ? make("span", { class: "pill warn" }, `contradicted by ${named(one.contradictedBy)}`) : null,
        one.quote ? make("q", {}, one.quote) : null);
    });
    return [heading(title), make("ul", { class: "statements" }, ...items)];
  }

  function contextBlock(one, compared) {
    const { rank, baselineRank } = one;
    const marks = [];
    if (compared && rank && !baselineRank) { marks.push(["pass", "added"]); }
    if (compared && !rank) { marks.push(["fail", "lost"]); }
    if (rank && baselineRank && rank !== baselineRank) { marks.push(["warn", `${rank < baselineRank ? "up" : "down"} from ${baselineRank}`]); }
    if (one.baselineText !== null) { marks.push(["warn", "text changed"]); }
    if (one.lostEvidence) { marks.push(["fail", "evidence lost"]); }
    if (one.hasEvidence) { marks.push(["error", "evidence"]); }
    if (one.useful !== null) { marks.push(["", one.useful ? "useful" : "not useful"]); }
    const text = one.baselineText === null ? [one.text] : pieces(diff(one.baselineText, one.text));
    return make("li", { class: rank ? "" : "lost" },
      make("p", {}, make("b", {}, rank ? `${rank}` : `was ${baselineRank}`), one.id ? make("code", {}, one.id) : null, ...marks.map(([kind, word]) => make("span", { class: `pill ${kind}` }, word))),
      make("pre", { tabindex: "0" }, ...text));
  }

  function contextsBlock(pair, compared) {
    const contexts = pair.contexts;
    const both = compared && Boolean(pair.baseline) && !pair.baseline.failure;
    const count = test => contexts.filter(test).length;
    let changes = "";
    if (both) {
      const parts = [[count(one => one.rank && !one.baselineRank), "added"], [count(one => !one.rank), "lost"], [count(one => one.rank && one.baselineRank && one.rank !== one.baselineRank), "moved"], [count(one => one.baselineText !== null), "with another text"]];
      changes = `: ${parts.filter(([found]) => found).map(([found, word]) => `${found} ${word}`).join(", ") || "the same as in the baseline, in the same order"}`;
    }
    return [heading(`Contexts${changes}`),
      contexts.length ? make("ol", { class: "contexts" }, ...contexts.map(one => contextBlock(one, both))) : make("p", { class: "soft" }, "None were returned.")];
  }

  // A model's tokens and time differ each time.
  const withoutUsage = step => step.startsWith("model ") ? step.split(" → ")[0] : step;

  function stepList(steps, others, mark) {
    const known = (others || steps).map(withoutUsage);
    const items = steps.map(step => make("li", {}, known.includes(withoutUsage(step)) ? step : make(mark, {}, step)));
    return make("ol", { class: "steps" }, ...items);
  }

  function stepsBlock(steps, before) {
    if (!steps.length && !before.length) { return []; }
    if (!before.length) { return [heading("Steps"), stepList(steps)]; }
    if (steps.map(withoutUsage).join("\n") === before.map(withoutUsage).join("\n")) { return [heading("Steps: the same as in the baseline"), stepList(steps)]; }
    return [heading("Steps, and those of the baseline"),
      make("div", { class: "beside" }, make("div", {}, stepList(steps, before, "ins")), make("div", {}, stepList(before, steps, "del")))];
  }

  function pairBlock(pair, compared) {
    const { current, baseline } = pair;
    const baselineStatements = baseline && baseline.text !== current.text ? baseline.statements : [];
    return make("div", {},
      ...answerBlock(pair, compared),
      current.standaloneQuestion ? make("p", { class: "soft" }, `Judged as an answer to: ${current.standaloneQuestion}`) : null,
      current.abstains ? make("p", { class: "soft" }, "The answer abstains.") : null,
      ...statementsBlock("Statements of the answer", current.statements),
      ...statementsBlock("Statements of the reference, in the contexts", current.referenceStatements),
      ...stepsBlock(current.steps, baseline ? baseline.steps : []),
      ...contextsBlock(pair, compared),
      baselineStatements.length ? make("details", {}, make("summary", {}, "Statements of the baseline's answer"), ...statementsBlock("Statements", baselineStatements)) : null);
  }

  function sampleBlock(row, texts) {
    const block = make("div", { class: "sample" });
    const add = (...children) => block.append(...children.filter(child => child !== null));
    if (texts === null) {
      add(make("p", {}, "This page has no texts of this sample. They are in samples.jsonl in the run directory."));
      return block;
    }
    if (row.cause) { add(make("p", {}, "Cause: ", make("b", {}, row.cause))); }
    if (texts.history.length || texts.question !== row.question) {
      add(heading("Question"),
        ...texts.history.map(([role, text], place) => {
          const was = texts.baselineHistory[place];
          return make("p", { class: "soft" }, `${role}: `, ...(was && was[0] === role && was[1] !== text ? pieces(diff(was[1], text)) : [text]));
        }), ...textBlock(texts.question));
    }
    texts.references.forEach((text, place) => add(heading(place ? `Reference ${place + 1}` : "Reference"), ...textBlock(text)));
    if (texts.unanswerable) { add(make("p", { class: "soft" }, "The right answer is to abstain.")); }
    texts.pairs.forEach((pair, place) => {
      const made = pairBlock(pair, texts.compared);
      add(texts.pairs.length === 1 ? made
        : make("details", place ? {} : { open: "" }, make("summary", {}, `Answer ${place + 1} of ${texts.pairs.length}`), made));
    });
    if (texts.scores.length) {
      add(heading("Scores"), make("ul", { class: "scores" }, ...texts.scores.map(([title, before, now, remark]) =>
        make("li", {}, `${title} `, before && before !== now ? `${before} → ` : "", make("b", {}, now), remark ? make("span", { class: "soft" }, ` (${remark})`) : null))));
    }
    if (texts.cut) { add(soft("Long texts and lists are cut here; all of them are in samples.jsonl.")); }
    return block;
  }

  // The table.
  const idOf = row => `texts-${rows.indexOf(row)}`;

  function makeRow(row) {
    const button = make("button", { type: "button", class: "open", "aria-expanded": "false" }, make("code", {}, row.id));
    const place = row.file === null ? null : row.line === null ? row.file : `${row.file}:${row.line}`;
    const first = make("td", { class: "q" }, button, row.state ? make("span", { class: `pill ${row.state}` }, row.state) : null, make("div", {}, row.question),
      row.tags.length ? make("div", {}, ...row.tags.map(one => make("span", { class: "tag" }, one))) : null,
      row.failure === null ? null : make("div", { class: "failed small" }, row.failure),
      row.cause === null ? null : make("div", { class: "soft small" }, `Cause: ${row.cause}`),
      place === null ? null : make("div", { class: "small" }, /^https?:\/\//.test(row.address || "")
        ? make("a", { href: row.address, rel: "noreferrer noopener" }, make("code", {}, place)) : make("code", {}, place)));
    const cells = columns.map(at => {
      const cell = row.cells[at] || { text: "–", kind: "absent" };
      return make("td", { class: `number ${cell.kind}`, title: cell.reason || null }, cell.text, cell.change ? make("div", { class: "small" }, cell.change) : null);
    });
    const line = make("tr", { class: "row" }, first, ...cells, make("td", { class: "number" }, row.latency[0]));
    button.addEventListener("click", () => toggle(row, line, button));
    line.addEventListener("click", event => {
      if (!event.target.closest("button, a") && !String(getSelection())) { toggle(row, line, button); }
    });
    return line;
  }

  async function toggle(row, line, button) {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) { line.nextElementSibling.remove(); return; }
    const cell = make("td", { colspan: String(columns.length + 2), "aria-live": "polite" }, "Loading…");
    const below = make("tr", { class: "texts", id: idOf(row) }, cell);
    button.setAttribute("aria-controls", below.id);
    line.after(below);
    let made;
    try {
      made = sampleBlock(row, await textsOf(row));
    } catch (error) {
      made = make("p", { class: "failed" }, "The texts of this sample can't be unpacked. They are in samples.jsonl in the run directory.");
    }
    cell.replaceChildren(made);
    try { history.replaceState(null, "", `#sample=${encodeURIComponent(row.id)}`); } catch (error) { /* not from every place */ }
  }

  function drawHead() {
    const chosen = metric.value === "" ? titles.map((_, at) => at).slice(0, COLUMNS) : [Number(metric.value)];
    if (chosen.join() === columns.join() && table.dataset.ready) { return; }
    columns = chosen;
    const cells = [["Sample", row => row.id], ...columns.map(at => [titles[at], row => row.cells[at] ? row.cells[at].sort : 3]), ["Latency", row => row.latency[1]]];
    table.tHead.rows[0].replaceChildren(...cells.map(([title, key], place) => {
      const button = make("button", { type: "button" }, title);
      const cell = make("th", { scope: "col", class: place ? "number" : "" }, button);
      button.addEventListener("click", () => {
        const down = cell.getAttribute("aria-sort") === "ascending";
        [...cell.parentNode.cells].forEach(one => one.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        sorted = { key, sign: down ? -1 : 1 };
        limit = PAGE;
        draw();
      });
      return cell;
    }));
    sorted = null;
  }

  function matchesFilters(row, wanted) {
    const kinds = metric.value === "" ? row.kinds : new Set([(row.cells[Number(metric.value)] || {}).kind]);
    return (which.value === "all" || kinds.has(which.value) || (which.value === "failed" && row.failure !== null)) &&
      (cause.value === "" || row.cause === cause.value) && (tag.value === "" || row.tags.includes(tag.value)) &&
      wanted.every(word => row.text.includes(word));
  }

  function draw() {
    drawHead();
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    matchingRows = rows.filter(row => matchesFilters(row, wanted));
    if (sorted) {
      const keyed = matchingRows.map(row => [sorted.key(row), row]);
      keyed.sort(([x], [y]) => sorted.sign * (typeof x === "number" ? x - y : x.localeCompare(y, "en", { numeric: true })));
      matchingRows = keyed.map(pair => pair[1]);
    }
    body.replaceChildren(...matchingRows.slice(0, limit).map(makeRow));
    showCounts();
  }

  function showCounts() {
    shown.textContent = `${number(matchingRows.length)} of ${number(rows.length)} ${matchingRows.length > limit ? `found, ${number(limit)} ` : ""}shown`;
    more.hidden = matchingRows.length <= limit;
    more.textContent = `Show ${number(Math.min(PAGE, matchingRows.length - limit))} more`;
  }

  function fillOptions(select, counts, all) {
    const found = [...counts].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)).slice(0, 500);
    select.replaceChildren(make("option", { value: "" }, all), ...found.map(([value, count]) => make("option", { value }, `${value} (${number(count)})`)));
    select.hidden = !found.length;
  }

  function countValues(values) {
    const found = new Map();
    values.forEach(value => found.set(value, (found.get(value) || 0) + 1));
    return found;
  }

  function applyFilters() { limit = PAGE; draw(); }

  function openLinkedSample() {
    const match = /^#sample=(.*)$/.exec(location.hash);
    if (!match) { return; }
    let id;
    try { id = decodeURIComponent(match[1]); } catch (error) { return; }
    const row = rows.find(one => one.id === id);
    if (!row) { return; }
    let at = matchingRows.indexOf(row);
    if (at < 0) { reset(); at = matchingRows.indexOf(row); }
    if (at >= limit) { limit = at + 1; draw(); }
    const line = body.querySelectorAll("tr.row")[at], button = line.querySelector("button.open");
    if (button.getAttribute("aria-expanded") !== "true") { button.click(); }
    line.scrollIntoView({ block: "start" });
    button.focus({ preventScroll: true });
  }

  function reset() {
    words.value = which.value = "";
    which.value = "all";
    metric.value = cause.value = tag.value = "";
    sorted = null;
    applyFilters();
  }

  async function start() {
    const parts = [];
    for (const element of packed("rows")) { parts.push(...await unpack(element)); }
    rows = parts.map(rowOf);
    fillOptions(cause, countValues(rows.filter(row => row.cause !== null).map(row => row.cause)), "All causes");
    fillOptions(tag, countValues(rows.flatMap(row => row.tags)), "All tags");
    draw();
    words.addEventListener("input", applyFilters);
    [which, metric, cause, tag].forEach(one => one.addEventListener("change", applyFilters));
    clear.addEventListener("click", reset);
    more.addEventListener("click", () => {
      const next = matchingRows.slice(limit, limit + PAGE).map(makeRow);
      limit += PAGE;
      body.append(...next);
      showCounts();
      next[0].querySelector("button.open").focus();
    });
    tools.hidden = false;
    if (note) { note.hidden = true; }
    document.documentElement.classList.add("scripted");
    table.dataset.ready = "yes";
    addEventListener("hashchange", openLinkedSample);
    openLinkedSample();
  }

  start().catch(() => { if (note) { note.textContent = "This browser can't unpack all samples (it has no DecompressionStream): the worst are shown."; note.hidden = false; } });
})();
