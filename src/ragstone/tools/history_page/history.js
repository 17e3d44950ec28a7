(() => {
  const SCALE = 100000, STEPS = 2520, PAGE = 100, MOST = 5, MAX_UNPACKED = 64 * 1024 * 1024;
  const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", SAMPLE = 8;
  const KINDS = [["judge", "judge"], ["golden", "golden set"], ["metric", "metric"], ["part", "half"], ["system", "system"], ["release", "release"], ["accepted", "accepted"], ["alert", "alert"]];
  const EVENTS = { push: "runs of a push", schedule: "scheduled runs (nightly)", workflow_dispatch: "runs started by hand", __proto__: null };
  const get = id => document.getElementById(id);
  const packed = kind => [...document.querySelectorAll(`script[data-packed="${kind}"]`)];
  if (!get("charts")) { return; }
  let head, runs, metrics, count = 0;
  const parts = packed("part"), unpacked = new Map(), charts = [];

  // Elements. Text is only ever set as text.
  function filled(made, properties, children) {
    for (const [key, value] of Object.entries(properties || {})) {
      if (value !== null && value !== undefined) { made.setAttribute(key, value); }
    }
    made.append(...children.flat().filter(child => child !== null && child !== undefined && child !== ""));
    return made;
  }
  const make = (name, properties, ...children) => filled(document.createElement(name), properties, children);
  const draw = (name, properties, ...children) => filled(document.createElementNS("http://www.w3.org/2000/svg", name), properties, children);
  const button = (text, action, properties) => {
    const made = make("button", { type: "button", ...properties }, text);
    made.addEventListener("click", action);
    return made;
  };

  // Numbers, as formatting.py writes them.
  const number = value => value.toLocaleString("en-US");
  const counted = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
  const fixed = (value, digits) => Number(value.toFixed(digits)) === 0 ? (0).toFixed(digits) : value.toFixed(digits).replace("-", "−");
  const score = value => value === null ? "–" : fixed(value, 3);
  const change = value => value === 0 ? "0" : `${value > 0 && Number(value.toFixed(3)) > 0 ? "+" : ""}${fixed(value, 3)}`;
  const span = (low, high, form) => `[${form(low)}, ${form(high)}]`;
  const percent = value => value === null ? "–" : `${(100 * value).toFixed(1).replace(/\.0$/, "")} %`;
  const seconds = value => value === null ? "–" : value < 1 ? `${Math.round(1000 * value)} ms` : value < 60 ? `${value.toFixed(2)} s` : `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  const secondsTick = (value, step) => step < 0.1 ? `${Number((1000 * value).toFixed(step < 0.001 ? 1 : 0))} ms` : `${Number(value.toFixed(1))} s`;
  const dollars = value => value === null ? "unknown" : value === 0 ? "$0" : value < 0.01 ? "under $0.01" : `$${value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  const moment = at => new Date(1000 * at).toISOString().replace("T", " ").slice(0, 16);
  const day = at => moment(at).slice(0, 10);

  async function unpack(element) {
    const bytes = Uint8Array.from(atob(element.textContent), char => char.charCodeAt(0));
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
    const read = [];
    let size = 0;
    for (let one = await reader.read(); !one.done; one = await reader.read()) {
      size += one.value.length;
      if (size > MAX_UNPACKED) { await reader.cancel(); throw new Error("too large"); }
      read.push(one.value);
    }
    return JSON.parse(await new Blob(read).text());
  }

  function part(at) {
    if (!unpacked.has(at)) { unpacked.set(at, unpack(parts[at])); }
    return unpacked.get(at);
  }

  // Runs and what they are called.
  const table = (name, at) => at < 0 ? null : head.tables[name][at];
  const short = text => /^[0-9a-f]{12,}$/i.test(text) ? text.slice(0, 7) : text;
  const commitOf = run => runs.commit[run] < 0 ? null : short(table("commit", runs.commit[run]));
  const halfOf = run => { const half = table("part", runs.part[run]); return half === null ? "the whole system" : `${half} alone`; };
  function nameOf(run, by) {
    if (by && by !== "run" && runs[by][run] >= 0) { return short(table(by, runs[by][run])); }
    const commit = commitOf(run);
    return commit === null ? moment(runs.time[run]) : `${moment(runs.time[run])}, ${commit}`;
  }

  // An address in the repository, if it is known; only for what is what it should be.
  const linked = (text, path) => head.repository && path ? make("a", { href: `${head.repository}/${path}`, rel: "noreferrer noopener" }, text) : text;
  function linksOf(run) {
    const commit = table("commit", runs.commit[run]), job = runs.id[run].split("-")[1], pull = runs.pull[run];
    return { Commit: commit !== null && /^[0-9a-f]{7,64}$/i.test(commit) ? `commit/${commit}` : null, "Pull request": pull === null ? null : `pull/${pull}`, Started: job ? `actions/runs/${job}` : null };
  }

  function factsOf(run) {
    const pairs = [["Started", `${moment(runs.time[run])} UTC`], ["Verdict", worded(runs.verdict[run]) + (runs.eligible[run] ? "" : " (not a baseline)")]];
    const add = (title, text) => { if (text !== null && text !== "") { pairs.push([title, text]); } };
    add("Release", table("release", runs.release[run]));
    add("Commit", table("commit", runs.commit[run]));
    add("Pull request", runs.pull[run] === null ? null : String(runs.pull[run]));
    add("System", table("system", runs.system[run]));
    if (runs.part[run] >= 0) { add("Evaluated", halfOf(run)); }
    add("Judge", table("judge", runs.judge[run]));
    add("Golden set", table("golden", runs.golden[run]).slice(0, 12));
    add("Coverage", percent(runs.coverage[run]));
    if (runs.p50[run] !== null) { add("Latency", `${seconds(runs.p50[run])} (median), ${seconds(runs.p95[run])} (95th percentile)`); }
    add("Cost", `${dollars(runs.cost[run])}, ${counted(runs.calls[run], "judge call")}`);
    add("Started by", table("event", runs.event[run]));
    if (again[run]) { add("Again", "this commit was evaluated before"); }
    return pairs;
  }
  const listed = (pairs, links) => make("dl", {}, ...pairs.flatMap(([title, text]) => [make("dt", {}, title), make("dd", {}, linked(text, links[title]))]));
  const worded = verdict => verdict === "none" ? "no verdict" : verdict;
  const pill = word => make("span", { class: `pill ${word}` }, worded(word));

  // Which runs are shown, for all charts of runs.
  const axis = { places: [], date: run => day(runs.time[run]), hour: run => moment(runs.time[run]).slice(11), verdict: run => runs.verdict[run] };
  let again = [];

  function chooseRuns() {
    const which = get("which").value, most = Number(get("range").value);
    const event = which.startsWith("event ") ? Number(which.slice(6)) : -1;
    const fits = { all: () => true, release: run => runs.release[run] >= 0, first: run => !again[run], again: run => again[run] }[which] || (run => runs.event[run] === event);
    const found = [];
    for (let run = count - 1; run >= 0 && found.length < most; run--) { if (fits(run)) { found.push(run); } }
    axis.places = found.reverse();
    charts.forEach(chart => { if (chart.spec.axis === axis) { stale(chart); } });
  }

  // Charts. Each is drawn when it is first seen, and again when its size or its runs change.
  const seen = new IntersectionObserver(entries => entries.forEach(entry => {
    const chart = entry.target.chart;
    chart.visible = entry.isIntersecting;
    if (chart.visible && chart.stale) { show(chart); }
  }), { rootMargin: "200px" });
  const sized = new ResizeObserver(entries => entries.forEach(entry => {
    const chart = entry.target.chart;
    if (chart.drawn && chart.width !== chart.plot.clientWidth) { stale(chart); }
  }));

  function stale(chart) {
    chart.stale = true;
    if (chart.visible) { show(chart); }
    if (chart.table.open) { fillTable(chart); }
  }

  async function show(chart) {
    chart.stale = false;
    if (!chart.lines) {
      try { chart.lines = await chart.spec.load(); } catch (error) { chart.plot.textContent = "This part of the page can't be unpacked."; return; }
    }
    picture(chart);
  }

  function makeChart(spec) {
    const plot = make("div", { class: "plot", tabindex: "0", role: "slider", "aria-orientation": "horizontal", "aria-label": `${spec.title}: chart of ${spec.axis.noun || "runs"}. Arrow keys move, Enter shows details.` });
    const details = make("div", { class: "details", "aria-live": "polite" });
    const table = make("details", { class: "as-table" }, make("summary", {}, "Table"), make("div", { class: "scroll" }));
    const title = make("h3", {}, spec.title), now = make("span", { class: "now" }), range = make("span", { class: "soft small" });
    const box = make("article", { class: spec.small ? "chart" : "chart card", "aria-label": spec.title },
      make("header", {}, title, now, range, spec.note ? make("span", { class: "soft small" }, spec.note) : null), plot, details, table);
    const chart = { spec, box, plot, details, table, now, range, at: null, lines: null, visible: false, stale: true, limit: PAGE };
    box.chart = plot.chart = chart;
    charts.push(chart);
    seen.observe(box);
    sized.observe(plot);
    plot.addEventListener("pointermove", event => { if (chart.drawn) { point(chart, nearest(chart, event)); } });
    plot.addEventListener("pointerleave", () => { if (document.activeElement !== plot) { point(chart, null); } });
    plot.addEventListener("click", event => { if (chart.drawn) { point(chart, nearest(chart, event)); detail(chart); } });
    plot.addEventListener("focus", () => { if (chart.drawn && chart.at === null) { point(chart, spec.axis.places.length - 1); } });
    plot.addEventListener("blur", () => point(chart, null));
    plot.addEventListener("keydown", event => key(chart, event));
    table.addEventListener("toggle", () => { chart.limit = PAGE; if (table.open) { fillTable(chart); } });
    return chart;
  }

  function key(chart, event) {
    const last = chart.spec.axis.places.length - 1, at = chart.at === null ? last : chart.at;
    const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, PageUp: at + 10, PageDown: at - 10, Home: 0, End: last }[event.key];
    if (to !== undefined) { point(chart, Math.min(last, Math.max(0, to))); }
    else if (event.key === "Enter" || event.key === " ") { detail(chart); }
    else if (event.key === "Escape") { point(chart, null); chart.details.replaceChildren(); }
    else { return; }
    event.preventDefault();
  }

  const nearest = (chart, event) => {
    const { left, wide } = chart.drawn, last = chart.spec.axis.places.length - 1;
    const share = (event.clientX - chart.plot.getBoundingClientRect().left - left) / wide;
    return Math.min(last, Math.max(0, Math.round(share * last)));
  };

  // Round steps for an axis: 1, 2 or 5 times a power of ten.
  function stepOf(range, most) {
    const power = 10 ** Math.floor(Math.log10(range / most));
    return [1, 2, 5, 10].map(one => one * power).find(one => range / one <= most) || 10 * power;
  }

  function domainOf(chart, places) {
    const { lines, spec } = chart;
    let low = Infinity, high = -Infinity;
    const take = value => { if (value !== null && value !== undefined) { low = Math.min(low, value); high = Math.max(high, value); } };
    lines.forEach(line => places.forEach(place => { take(line.values[place]); if (line.low) { take(line.low[place]); take(line.high[place]); } }));
    take(spec.limit);
    if (low > high) { return null; }
    if (spec.share) {
      const room = Math.max(0.01, (0.1 - (high - low)) / 2);
      return [Math.max(0, low - room), Math.min(1, high + room)];
    }
    return [0, high > 0 ? 1.08 * high : 1];
  }

  const SYMBOLS = {
    pass: (x, y) => `M${x - 2.6} ${y}a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0 -5.2 0Z`,
    fail: (x, y) => `M${x - 4} ${y - 4}l8 8M${x + 4} ${y - 4}l-8 8`,
    inconclusive: (x, y) => `M${x} ${y - 4.6}l4.4 8h-8.8Z`,
    error: (x, y) => `M${x - 3.6} ${y - 3.6}h7.2v7.2h-7.2Z`,
    none: (x, y) => `M${x - 4} ${y}h8M${x} ${y - 4}v8`,
  };

  function picture(chart) {
    const { spec, plot, lines } = chart, places = spec.axis.places, width = plot.clientWidth;
    if (!width) { chart.stale = true; return; }
    chart.width = width;
    const domain = domainOf(chart, places), shown = new Map(places.map((place, at) => [place, at]));
    const newest = places.findLast(place => lines[0].values[place] !== null && lines[0].values[place] !== undefined);
    chart.now.textContent = newest === undefined ? "" : spec.form(lines[0].values[newest]);
    chart.range.textContent = newest === undefined || !lines[0].low ? "" : span(lines[0].low[newest], lines[0].high[newest], spec.form);
    if (!domain) {
      chart.drawn = null;
      plot.replaceChildren(make("p", { class: "soft" }, "None of these runs has it."));
      return;
    }
    const left = 66, wide = Math.max(40, width - left - 14), high = spec.small ? 96 : 150, top = 10;
    const x = at => places.length === 1 ? left + wide / 2 : left + wide * at / (places.length - 1);
    const y = value => top + high * (domain[1] - value) / (domain[1] - domain[0]);
    const marks = spec.marks().filter(mark => shown.has(mark.place));
    const lanes = KINDS.filter(([kind]) => marks.some(mark => mark.kind === kind));
    const height = top + high + 20 + 12 * lanes.length;
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, "aria-hidden": "true" });

    const step = stepOf(domain[1] - domain[0], spec.small ? 4 : 5);
    for (let at = Math.ceil(domain[0] / step - 1e-9); at * step <= domain[1] + 1e-9; at++) {
      const tick = at ? at * step : 0;
      svg.append(draw("line", { class: "gridline", x1: left, x2: left + wide, y1: y(tick), y2: y(tick) }), draw("text", { class: "left", x: left - 6, y: y(tick) + 4 }, spec.tick(tick, step)));
    }
    const labels = Math.max(2, Math.min(places.length, Math.floor(wide / 110)));
    const dated = new Set(places.length === 1 ? [0] : Array.from({ length: labels }, (_, at) => Math.round(at * (places.length - 1) / (labels - 1))));
    const oneDay = spec.axis.hour && spec.axis.date(places[0]) === spec.axis.date(places[places.length - 1]);
    const labelled = place => oneDay ? spec.axis.hour(place) : spec.axis.date(place);
    let last = "";
    dated.forEach(at => {
      const date = labelled(places[at]);
      if (date === last) { return; }
      last = date;
      const edge = at === 0 && places.length > 1 ? "right" : at === places.length - 1 && at ? "left" : "";
      svg.append(draw("text", { class: edge, x: edge === "right" ? x(at) - 6 : edge === "left" ? x(at) + 8 : x(at), y: top + high + 15 }, date));
    });

    // Marks: those after which means can't be compared are lines through the plot; all are ticks in lanes below.
    const through = marks.filter(mark => ["judge", "golden", "metric", "part", "alert"].includes(mark.kind));
    const unseen = new Map();
    (through.length <= 60 ? through : []).forEach(mark => {
      const at = shown.get(mark.place), middle = at ? (x(at - 1) + x(at)) / 2 : x(at);
      if (!unseen.has(`${mark.kind} ${middle}`)) { svg.append(draw("line", { class: `break ${mark.kind}`, x1: middle, x2: middle, y1: top, y2: top + high })); }
      unseen.set(`${mark.kind} ${middle}`, true);
    });
    lanes.forEach(([kind, title], lane) => {
      const middle = top + high + 27 + 12 * lane, ticks = [...new Set(marks.filter(mark => mark.kind === kind).map(mark => shown.get(mark.place)))];
      svg.append(draw("text", { class: "left", x: left - 6, y: middle + 4 }, title),
        draw("path", { class: `lane ${kind}`, d: ticks.map(at => `M${x(at).toFixed(1)} ${middle - 4}v8`).join("") }));
    });

    lines.forEach((line, index) => {
      const kind = index ? "line second" : "line", drawn = [];
      let segment = [];
      places.forEach((place, at) => {
        const value = line.values[place];
        const gap = value === null || value === undefined;
        if (gap || (at && spec.breaks && spec.breaks(places[at - 1], place))) { if (segment.length) { drawn.push(segment); } segment = []; }
        if (!gap) { segment.push(at); }
      });
      if (segment.length) { drawn.push(segment); }
      const point = (at, value) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      if (line.low) {
        const area = drawn.map(ats => {
          const reach = ats.length === 1 ? 3 : 0, close = (values, order, by) => order.map(at => `${(x(at) + by).toFixed(1)} ${y(values[places[at]]).toFixed(1)}`);
          return reach ? `M${[...close(line.high, ats, -reach), ...close(line.high, ats, reach), ...close(line.low, ats, reach), ...close(line.low, ats, -reach)].join("L")}Z`
            : `M${[...close(line.high, ats, 0), ...close(line.low, [...ats].reverse(), 0)].join("L")}Z`;
        });
        svg.append(draw("path", { class: "band", d: area.join("") }));
      }
      svg.append(draw("path", { class: kind, d: drawn.map(ats => `M${ats.map(at => point(at, line.values[places[at]])).join("L")}`).join("") }));
    });
    if (spec.limit !== undefined) {
      svg.append(draw("line", { class: "limit-line", x1: left, x2: left + wide, y1: y(spec.limit), y2: y(spec.limit) }));
    }
    if (spec.axis.verdict) {
      const groups = {};
      places.forEach((place, at) => {
        const value = lines[0].values[place], verdict = spec.axis.verdict(place);
        if (value === null || value === undefined || (verdict === "pass" && places.length > wide / 4)) { return; }
        (groups[verdict] = groups[verdict] || []).push(SYMBOLS[verdict](Number(x(at).toFixed(1)), Number(y(value).toFixed(1))));
      });
      Object.entries(groups).forEach(([verdict, paths]) => svg.append(draw("path", { class: `verdicts ${verdict}`, d: paths.join("") })));
    }
    if (spec.limit !== undefined) { // above the runs, which it may cross
      svg.append(draw("text", { class: "limit", x: left + 4, y: y(spec.limit) + (spec.lower ? 13 : -4) }, `${spec.lower ? "max" : "min"} ${Number(spec.limit.toFixed(4))}`));
    }
    const cursor = draw("g", { class: "cursor", visibility: "hidden" }, draw("line", { y1: top, y2: top + high }), ...lines.map((_, index) => draw("circle", { r: 4.5, class: index ? "second" : "" })));
    svg.append(cursor);
    const tip = make("div", { class: "tip", hidden: "", "aria-hidden": "true" });
    plot.replaceChildren(svg, tip);
    plot.setAttribute("aria-valuemin", "1");
    plot.setAttribute("aria-valuemax", String(places.length));
    chart.drawn = { left, wide, x, y, cursor, tip, top };
    chart.at = null;
    const kept = shown.has(chart.place) ? shown.get(chart.place) : places.length - 1;
    announce(chart, kept);
    plot.dataset.ready = "yes";
    if (document.activeElement === plot) { point(chart, kept); }
  }

  function valuesOf(chart, place) {
    return chart.lines.map(line => {
      const value = line.values[place];
      if (value === null || value === undefined) { return [line.name, "no value", ""]; }
      const range = line.low ? span(line.low[place], line.high[place], chart.spec.form) : "";
      const n = line.n && line.n[place] ? `n = ${number(line.n[place])}` : "";
      return [line.name, chart.spec.form(value), [range, n].filter(Boolean).join(", ")];
    });
  }

  function announce(chart, at) {
    const place = chart.spec.axis.places[at];
    const said = [chart.spec.axis.title(place), ...valuesOf(chart, place).map(([name, value, rest]) => [name, value, rest].filter(Boolean).join(" ")),
      chart.spec.axis.verdict ? worded(chart.spec.axis.verdict(place)) : "", ...chart.spec.marks().filter(mark => mark.place === place).map(mark => mark.text)];
    chart.plot.setAttribute("aria-valuenow", String(at + 1));
    chart.plot.setAttribute("aria-valuetext", said.filter(Boolean).join(", "));
  }

  function point(chart, at) {
    if (!chart.drawn || at === chart.at) { return; }
    const { cursor, tip, x, y, top } = chart.drawn, { spec } = chart;
    chart.at = at;
    cursor.setAttribute("visibility", at === null ? "hidden" : "visible");
    tip.hidden = at === null;
    if (at === null) { return; }
    const place = chart.place = spec.axis.places[at], here = x(at), [line, ...circles] = cursor.children;
    line.setAttribute("x1", here);
    line.setAttribute("x2", here);
    circles.forEach((circle, index) => {
      const value = chart.lines[index].values[place], missing = value === null || value === undefined;
      circle.setAttribute("visibility", missing ? "hidden" : "inherit");
      if (!missing) { circle.setAttribute("cx", here); circle.setAttribute("cy", y(value)); }
    });
    const marks = spec.marks().filter(mark => mark.place === place).slice(0, 6);
    tip.replaceChildren(make("div", {}, spec.axis.title(place), " ", spec.axis.verdict ? pill(spec.axis.verdict(place)) : ""),
      ...valuesOf(chart, place).map(([name, value, rest]) => make("div", {}, name ? `${name} ` : "", make("b", {}, value), rest ? make("span", { class: "soft" }, ` ${rest}`) : "")),
      ...marks.map(mark => make("div", { class: "small" }, mark.text)));
    const room = chart.plot.clientWidth - tip.offsetWidth;
    tip.style.transform = `translate(${Math.max(0, Math.min(room, here > chart.plot.clientWidth / 2 ? here - tip.offsetWidth - 12 : here + 12))}px, ${top}px)`;
    announce(chart, at);
  }

  function detail(chart) {
    const at = chart.at === null ? chart.spec.axis.places.length - 1 : chart.at, place = chart.spec.axis.places[at];
    const marks = chart.spec.marks().filter(mark => mark.place === place);
    chart.details.replaceChildren(...[make("h4", {}, chart.spec.axis.title(place)),
      listed([...valuesOf(chart, place).map(([name, value, rest]) => [name || chart.spec.title, [value, rest].filter(Boolean).join(" ")]), ...chart.spec.axis.facts(place)], chart.spec.axis === axis ? linksOf(place) : {}),
      marks.length ? make("ul", {}, ...marks.map(mark => make("li", {}, mark.text))) : null,
      make("div", { class: "tools" }, ...(chart.spec.axis === axis ? [button("Add to comparison", () => { choose(place, "run"); get("compare").scrollIntoView(); })] : []),
        button("Close", () => { chart.details.replaceChildren(); chart.plot.focus(); }))].filter(Boolean));
  }

  async function fillTable(chart) {
    if (!chart.lines) { chart.lines = await chart.spec.load(); }
    const { spec, lines } = chart, places = [...spec.axis.places].reverse(), marks = new Map();
    spec.marks().forEach(mark => marks.set(mark.place, [...(marks.get(mark.place) || []), mark.text]));
    const heads = [spec.axis.noun === "windows" ? "Window" : "Run", ...lines.flatMap(line => [line.name || spec.title, ...(line.low ? ["95 % interval"] : []), ...(line.n ? ["n"] : [])]), ...(spec.axis.verdict ? ["Verdict"] : []), "Changes"];
    const cells = place => [make("th", { scope: "row" }, spec.axis.title(place)),
      ...lines.flatMap(line => {
        const value = line.values[place], missing = value === null || value === undefined, cell = text => make("td", { class: "number" }, text);
        return [cell(missing ? "–" : spec.form(value)), ...(line.low ? [cell(missing ? "–" : span(line.low[place], line.high[place], spec.form))] : []), ...(line.n ? [cell(missing ? "–" : number(Math.round(line.n[place])))] : [])];
      }), ...(spec.axis.verdict ? [make("td", {}, pill(spec.axis.verdict(place)))] : []), make("td", {}, (marks.get(place) || []).join("; "))];
    const rows = places.slice(0, chart.limit).map(place => make("tr", {}, ...cells(place)));
    const found = make("table", {}, make("caption", { class: "soft small" }, `${spec.title}, the newest first: ${number(rows.length)} of ${number(places.length)} shown`),
      make("thead", {}, make("tr", {}, ...heads.map(text => make("th", { scope: "col" }, text)))), make("tbody", {}, ...rows));
    const left = places.length - rows.length;
    chart.table.lastElementChild.replaceChildren(found, ...(left > 0 ? [button(`Show ${number(Math.min(PAGE, left))} more`, () => { chart.limit += PAGE; fillTable(chart); })] : []));
  }

  // The charts of this history.
  const scaled = columns => ({ name: "", values: columns.mean.map(un), low: columns.low.map(un), high: columns.high.map(un), n: columns.n });
  const un = value => value === null ? null : value / SCALE;
  const shares = { form: score, share: true, tick: (value, step) => fixed(value, step < 0.0999 ? 2 : 1) };

  function metricSpec(metric, index, slice) {
    const of = slice || metric.all, tag = slice ? slice.tag : null;
    const marks = head.marks.filter(([, kind, , which, where]) => kind === "accepted" ? which === index && where === tag : which === null || which === index)
      .map(([place, kind, text]) => ({ place, kind, text }));
    return {
      ...shares, axis, title: slice ? `${metric.title} on ‘${slice.tag}’` : metric.title, small: Boolean(slice), lower: metric.lower,
      note: metric.lower ? "less is better" : "", limit: of.limit, marks: () => marks, load: async () => [scaled(await part(of.part))],
      breaks: (before, after) => incomparable(index, before, after) !== null,
    };
  }

  function metricCard(metric, index) {
    const chart = makeChart(metricSpec(metric, index, null));
    if (metric.slices.length) {
      const box = make("details", { class: "slices" }, make("summary", {}, counted(metric.slices.length, "slice")), make("div", { class: "grid small" }));
      box.addEventListener("toggle", () => {
        if (box.open && !box.lastElementChild.children.length) { box.lastElementChild.append(...metric.slices.map(slice => makeChart(metricSpec(metric, index, slice)).box)); }
      });
      chart.table.before(box);
    }
    return chart.box;
  }

  const group = (title, ...boxes) => [make("h2", { class: "group" }, title), make("div", { class: "grid" }, ...boxes)];

  function systemCharts() {
    const marks = head.marks.filter(([, kind]) => ["judge", "golden", "part", "system", "release"].includes(kind)).map(([place, kind, text]) => ({ place, kind, text }));
    const of = (title, form, tick, lines, more) => makeChart({ axis, title, form, tick, marks: () => marks, load: async () => lines, ...more }).box;
    const has = values => values.some(value => value !== null);
    const found = [];
    if (has(runs.p50)) {
      found.push(of("Latency of the system", seconds, secondsTick, [{ name: "median", values: runs.p50 }, { name: "95th percentile", values: runs.p95 }], { note: "solid: median, dashed: 95th percentile" }));
    }
    if (runs.cost.some(value => value)) { found.push(of("Cost of judging", dollars, (value, step) => `$${value.toFixed(step < 0.0999 ? 3 : 2)}`, [{ name: "", values: runs.cost }])); }
    if (runs.calls.some(value => value)) { found.push(of("Judge calls", number, number, [{ name: "", values: runs.calls }])); }
    found.push(of("Coverage", percent, value => percent(value), [{ name: "", values: runs.coverage }], { share: true, note: "samples with a score" }));
    return found;
  }

  const FORMS = { score: shares, share: { form: percent, share: true, tick: percent }, seconds: { form: seconds, tick: secondsTick }, number: { form: value => number(Math.round(value)), tick: number } };

  // What a monitor found, by day or week.
  function productionCharts({ windows, length, timezone, figures }) {
    const named = window => `${length === "week" ? "week of " : ""}${windows[window]}`;
    const windowAxis = { places: windows.map((_, at) => at), noun: "windows", date: window => windows[window], title: named, facts: () => [["Time zone", timezone]] };
    return figures.map(figure => {
      const marks = figure.marks.map(([place, kind, text]) => ({ place, kind, text }));
      const load = async () => {
        const { value, low, high, n, versions } = await part(figure.part), known = low.some(one => one !== null);
        const several = versions.length > 1 ? versions : [];
        return [{ name: several.length ? "all" : "", values: value, ...(known ? { low: low.map((one, at) => one === null ? value[at] : one), high: high.map((one, at) => one === null ? value[at] : one), n } : {}) }, ...several.map(([name, values]) => ({ name, values }))];
      };
      return makeChart({ ...FORMS[figure.form], axis: windowAxis, title: figure.title, note: [figure.rising ? "less is better" : "", figure.over.length > 1 ? "dashed: each version" : ""].filter(Boolean).join("; "), marks: () => marks, load,
        breaks: (before, after) => marks.some(mark => mark.kind === "judge" && mark.place > before && mark.place <= after) }).box;
    });
  }

  // Whether the means of a metric in two runs can be compared: null, or why not.
  function incomparable(metric, one, other) {
    const versions = [one, other].map(run => runs.versions[run][metric]);
    if (runs.part[one] !== runs.part[other]) { return `${halfOf(one)} was evaluated, and ${halfOf(other)}`; }
    if (versions[0] !== versions[1]) { return versions.includes(-1) ? "not measured in both" : `version ${table("versions", versions[0])} of the metric, and version ${table("versions", versions[1])}`; }
    if (runs.judge[one] !== runs.judge[other] && metrics[metric].judged.includes(versions[0])) {
      const judges = [one, other].map(run => table("judge", runs.judge[run]));
      return judges[0] === judges[1] ? `other prompts or parameters of the judge (${judges[0]})` : `the judges differ (${judges[0]}, and ${judges[1]})`;
    }
    return null;
  }

  // Versions to choose from. One with several runs is shown by its newest.
  const BY = [["system", "system version"], ["release", "release"], ["commit", "commit"], ["run", "run"]];
  const versions = {};
  let chosen = [], ordered = true, limit = PAGE, drawing = 0;

  function versionsBy(by) {
    if (!versions[by]) {
      const found = new Map();
      for (let run = count - 1; run >= 0; run--) {
        const key = by === "run" ? run : runs[by][run];
        if (key < 0) { continue; }
        if (found.has(key)) { found.get(key).runs += 1; } else { found.set(key, { run, by, runs: 1, name: nameOf(run, by), text: [nameOf(run, by), ...factsOf(run).map(([, text]) => text)].join("\n").toLowerCase() }); }
      }
      versions[by] = [...found.values()];
    }
    return versions[by];
  }

  const same = (one, run, by) => one.run === run && one.by === by;

  function choose(run, by) {
    if (!chosen.some(one => same(one, run, by))) {
      if (chosen.length >= MOST) { tellChosen("At most five: remove one first."); return; }
      chosen.push(versionsBy(by).find(one => one.run === run) || { run, by, runs: 1, name: nameOf(run, by) });
    }
    // The oldest is the reference, until another one is made it.
    if (ordered) { chosen.sort((one, other) => one.run - other.run); }
    changed();
  }

  function changed() {
    ordered = ordered || chosen.length < 2;
    const known = chosen.map(one => `${one.by}.${runs.id[one.run]}`).join(",");
    try { history.replaceState(null, "", known ? `#compare=${known}` : "#"); } catch (error) { /* not from every place */ }
    tellChosen("");
    listVersions();
    compare();
  }

  function tellChosen(remark) {
    const items = chosen.map((one, place) => make("li", {}, make("span", {}, place ? "" : "reference: ", make("b", {}, one.name), one.runs > 1 ? make("span", { class: "soft small" }, ` newest of ${counted(one.runs, "run")}, ${day(runs.time[one.run])}`) : ""),
      place ? button("Make reference", () => { ordered = false; chosen = [one, ...chosen.filter(other => other !== one)]; changed(); }, { "aria-label": `Make ${one.name} the reference` }) : null,
      button("Remove", () => { chosen = chosen.filter(other => other !== one); changed(); }, { "aria-label": `Remove ${one.name}` })));
    get("chosen").replaceChildren(...(items.length ? [make("ol", {}, ...items)] : []), ...(chosen.length < 2 ? [make("p", { class: "soft" }, items.length ? "Choose one more below." : "No version is chosen yet.")] : []), ...(remark ? [make("p", { class: "note" }, remark)] : []));
  }

  function listVersions() {
    const by = get("by").value, wanted = get("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = versionsBy(by).filter(one => wanted.every(word => one.text.includes(word))), columns = metrics.slice(0, 6).map((_, at) => at);
    get("versions").tHead.rows[0].replaceChildren(...["Choose", "Version", "Verdict", ...columns.map(at => metrics[at].title)].map((text, at) => make("th", { scope: "col", class: at > 2 ? "number" : null }, text)));
    Promise.all(columns.map(at => part(metrics[at].all.part))).then(series => {
      const rows = found.slice(0, limit).map(one => {
        const box = make("input", { type: "checkbox", id: `version-${by}-${one.run}` });
        box.checked = chosen.some(other => same(other, one.run, by));
        box.disabled = !box.checked && chosen.length >= MOST;
        box.addEventListener("change", () => { if (box.checked) { choose(one.run, by); } else { chosen = chosen.filter(other => !same(other, one.run, by)); changed(); } });
        const also = [moment(runs.time[one.run]), ...BY.filter(([other]) => other !== by && other !== "run" && !(by === "run" && other === "commit") && runs[other][one.run] >= 0).map(([other]) => short(table(other, runs[other][one.run]))), one.runs > 1 ? `newest of ${counted(one.runs, "run")}` : ""];
        return make("tr", {}, make("td", {}, box), make("td", {}, make("label", { for: box.id }, make("b", {}, one.name), make("div", { class: "soft small" }, (by === "run" ? also.slice(1) : also).filter(Boolean).join(" · ")))), make("td", {}, pill(runs.verdict[one.run])),
          ...series.map(columns_ => make("td", { class: "number" }, score(un(columns_.mean[one.run])))));
      });
      if (get("by").value !== by) { return; }
      const focused = document.activeElement.id;
      get("versions").tBodies[0].replaceChildren(...rows);
      if (focused.startsWith("version-") && get(focused)) { get(focused).focus({ preventScroll: true }); }
    });
    get("found").textContent = `${number(Math.min(limit, found.length))} of ${number(found.length)} shown`;
    get("more").hidden = found.length <= limit;
    get("more").textContent = `Show ${number(Math.min(PAGE, found.length - limit))} more`;
  }

  // Scores of single samples.
  const DIGITS = new Map([...ALPHABET].map((char, at) => [char, at]));
  function decoded(codes) {
    const found = [];
    for (let at = 0; at < codes.length; at += 2) {
      const step = 64 * DIGITS.get(codes[at]) + DIGITS.get(codes[at + 1]);
      found.push(step <= STEPS ? step / STEPS : null);
    }
    return found;
  }

  const cut = (text, size) => text.match(new RegExp(`.{${size}}`, "g")) || [];
  async function samplesOf(run) {
    const where = head.scores.runs[run];
    if (!where) { return null; }
    const [set, at, place] = where, [names, codes] = await Promise.all([part(head.scores.sets[set]), part(at)]);
    const ids = cut(names.ids, SAMPLE), scores = new Map(Object.entries(codes[place]).map(([metric, text]) => [Number(metric), decoded(text)]));
    return { ids, index: new Map(ids.map((id, here) => [id, here])), scores };
  }

  // The paired difference of a metric between the reference and another run, or why there is none. It has an interval if
  // Python computed one for these two runs.
  function difference(metric, one, other, samples, computed) {
    const why = incomparable(metric, one.run, other.run);
    if (why !== null) { return { why: `not compared: ${why}` }; }
    const [before, after] = samples;
    if (!before || !after) { return { why: `no test: the scores of single samples are not kept${before ? "" : ` of ${one.name}`}${!before && !after ? " and" : ""}${after ? "" : ` of ${other.name}`}` }; }
    const then = before.scores.get(metric), now = after.scores.get(metric), values = [];
    if (!then || !now) { return { why: "no test: no scores of single samples" }; }
    after.ids.forEach((id, here) => {
      const there = before.index.get(id);
      if (there !== undefined && then[there] !== null && now[here] !== null) { values.push(now[here] - then[there]); }
    });
    if (!values.length) { return { why: "no test: no sample in common" }; }
    const turned = one.run > other.run, known = (computed.get(`${Math.min(one.run, other.run)} ${Math.max(one.run, other.run)}`) || {})[metric];
    if (known === undefined) { return { estimate: values.reduce((sum, value) => sum + value, 0) / values.length, n: values.length, word: null }; }
    const [estimate, low, high, n, groups] = known, up = metrics[metric].lower ? -1 : 1;
    const found = turned ? { estimate: -un(estimate), low: -un(high), high: -un(low), n, groups } : { estimate: un(estimate), low: un(low), high: un(high), n, groups };
    found.word = found.low * up > 0 && found.high * up > 0 ? "better" : found.low * up < 0 && found.high * up < 0 ? "worse" : "no difference shown";
    return found;
  }

  async function compare() {
    const turn = ++drawing, result = get("result");
    if (chosen.length < 2) { result.replaceChildren(); delete result.dataset.ready; return; }
    const those = [...chosen], [reference, ...others] = those;
    delete result.dataset.ready;
    result.setAttribute("aria-busy", "true");
    const samples = await Promise.all(those.map(one => samplesOf(one.run)));
    const series = await Promise.all(metrics.map(metric => part(metric.all.part)));
    const computed = new Map((await part(head.pairs)).map(([before, after, found]) => [`${before} ${after}`, found]));
    if (turn !== drawing) { return; }
    const rows = [];
    let tests = 0, bare = false;
    for (let metric = 0; metric < metrics.length; metric++) {
      if (those.every(one => series[metric].mean[one.run] === null)) { continue; }
      const found = [];
      for (let at = 1; at < those.length; at++) {
        const one = difference(metric, reference, those[at], [samples[0], samples[at]], computed);
        tests += one.why || one.word === null ? 0 : 1;
        bare = bare || one.word === null;
        found.push(one);
      }
      rows.push(metricRow(metric, those, series[metric], found));
    }
    const heads = those.map((one, at) => make("th", { scope: "col", class: "number" }, one.name, make("div", { class: "soft small" }, at ? "against the reference" : "reference")));
    const means = make("section", { class: "card" }, make("h3", {}, "Metrics"), make("div", { class: "scroll" }, make("table", { id: "means" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Metric"), ...heads)), make("tbody", {}, ...rows))),
      make("p", { class: "soft small" }, `Mean with its 95 % interval; below it the mean difference to the reference over the samples that both scored and whose scores the history keeps, with its 95 % interval (Gaffke’s bound for paired differences, by group where samples have groups) if the page has one. ${tests > 1 ? `These are ${number(tests)} comparisons: of equal versions, one in twenty shows a difference by chance.` : ""}`),
      bare ? make("p", { class: "soft small", id: "bare" }, "The page has intervals for each version against the one before it, against the newest, and against the newest release (without releases, against the oldest run with scores). For other pairs, compare their run directories: ", make("code", {}, "ragstone compare BASELINE RUN")) : null);
    result.replaceChildren(means, ...productionTable(those), factsTable(those), ...(await sliceTables(those)), ...(samples.some(Boolean) ? [await sampleTable(those, samples)] : [make("p", { class: "soft" }, "The scores of single samples are not kept for these versions.")]));
    result.removeAttribute("aria-busy");
    result.dataset.ready = "yes";
    if (turn !== drawing) { delete result.dataset.ready; }
  }

  function metricRow(metric, those, series, found) {
    const cells = those.map((one, at) => {
      const mean = un(series.mean[one.run]), test = at ? found[at - 1] : null;
      const lines = [mean === null ? "–" : make("div", {}, make("b", {}, score(mean)), make("span", { class: "soft" }, ` ${span(un(series.low[one.run]), un(series.high[one.run]), score)}`))];
      if (test && test.why && mean !== null) { lines.push(make("div", { class: "why" }, test.why)); }
      if (test && test.word === null) {
        lines.push(make("div", {}, change(test.estimate)), make("div", { class: "small soft" }, `no interval, ${counted(test.n, "pair")}`));
      } else if (test && !test.why) {
        lines.push(make("div", {}, `${change(test.estimate)} `, make("span", { class: "soft" }, span(test.low, test.high, change))),
          make("div", { class: "small" }, make("span", { class: `pill ${test.word === "no difference shown" ? "" : test.word}` }, test.word), make("span", { class: "soft" }, ` ${counted(test.n, "pair")}${test.groups === null ? "" : `, ${counted(test.groups, "group")}`}`)));
      }
      return make("td", { class: "number" }, ...lines);
    });
    const { all, lower, title } = metrics[metric], terms = [all.limit === undefined ? "" : `${lower ? "max" : "min"} ${all.limit}`, all.drop === undefined ? "" : `${lower ? "max rise" : "max drop"} ${all.drop}`].filter(Boolean);
    return make("tr", { "data-metric": metrics[metric].name }, make("th", { scope: "row" }, title, make("div", { class: "soft small" }, [lower ? "less is better" : "", ...terms].filter(Boolean).join(", "))), ...cells);
  }

  // What the monitor found of the versions that are named as in its logs.
  function productionTable(those) {
    const names = those.map(one => table("system", runs.system[one.run])), { figures = [], length } = head.production || {};
    const rows = figures.map(figure => [figure, new Map(figure.over)]).filter(([, over]) => names.some(name => over.has(name)))
      .map(([figure, over]) => make("tr", {}, make("th", { scope: "row" }, figure.title), ...names.map(name => make("td", { class: "number" }, over.has(name) ? FORMS[figure.form].form(over.get(name)) : "–"))));
    if (!rows.length) { return []; }
    return [make("section", { class: "card" }, make("h3", {}, "Production"), make("div", { class: "scroll" }, make("table", { id: "in-production" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Figure"), ...those.map(one => make("th", { scope: "col", class: "number" }, one.name)))), make("tbody", {}, ...rows))),
      make("p", { class: "soft small" }, `Means by ${length}, as the monitor found them for the versions that its logs name. Users ask other questions of each.`))];
  }

  function factsTable(those) {
    const facts = those.map(one => new Map(factsOf(one.run))), titles = [...new Set(facts.flatMap(one => [...one.keys()]))];
    const rows = titles.map(title => {
      const values = facts.map(one => one.get(title) || "–"), links = those.map(one => linksOf(one.run)[title]), differ = new Set(values).size > 1 && !["Started"].includes(title);
      return make("tr", {}, make("th", { scope: "row" }, title), ...values.map((value, at) => make("td", {}, at && differ && value !== values[0] && ["Judge", "Golden set"].includes(title) ? make("span", {}, value, " ", make("span", { class: "pill warn" }, "differs")) : linked(value, links[at]))));
    });
    return make("section", { class: "card" }, make("details", {}, make("summary", {}, "What was evaluated, when and at what cost"), make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, make("th", {}), ...those.map(one => make("th", { scope: "col" }, one.name)))), make("tbody", {}, ...rows)))));
  }

  async function sliceTables(those) {
    const rows = [];
    for (const metric of metrics) {
      for (const slice of metric.slices) {
        const columns = await part(slice.part);
        if (those.some(one => columns.mean[one.run] !== null)) {
          rows.push(make("tr", {}, make("th", { scope: "row" }, `${metric.title} on ‘${slice.tag}’`), ...those.map(one => make("td", { class: "number" }, columns.mean[one.run] === null ? "–" : make("span", {}, make("b", {}, score(un(columns.mean[one.run]))), make("span", { class: "soft" }, ` ${span(un(columns.low[one.run]), un(columns.high[one.run]), score)}, n = ${number(columns.n[one.run])}`))))));
        }
      }
    }
    if (!rows.length) { return []; }
    return [make("section", { class: "card" }, make("details", {}, make("summary", {}, "Slices"), make("p", { class: "soft small" }, "Means with their 95 % intervals. The history doesn’t keep which samples are in a slice, so there are no paired tests."), make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Slice"), ...those.map(one => make("th", { scope: "col", class: "number" }, one.name)))), make("tbody", {}, ...rows)))))];
  }

  async function sampleTable(those, samples) {
    const named = new Map(Object.entries(head.names === undefined ? {} : await part(head.names)));
    const measured = metrics.map((_, at) => at).filter(at => samples.some(one => one && one.scores.has(at)));
    const which = make("select", { "aria-label": "Metric" }, ...measured.map(at => make("option", { value: at }, metrics[at].title)));
    const order = make("select", { "aria-label": "Order" }, make("option", { value: "worse" }, "worse first"), make("option", { value: "better" }, "better first"), make("option", { value: "change" }, "largest differences first"));
    const only = make("input", { type: "checkbox" }), words = make("input", { type: "search", placeholder: "Find a sample", "aria-label": "Find a sample" });
    const shown = make("span", { class: "soft small", role: "status" }), body = make("tbody"), note = make("p", { class: "soft small" });
    let most = PAGE;
    const more = button("", () => { most += PAGE; fill(); });
    const all = [...new Set(samples.flatMap(one => one ? one.ids : []))];
    function fill() {
      const metric = Number(which.value), up = metrics[metric].lower ? -1 : 1, wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      const barred = those.map((one, at) => at ? incomparable(metric, those[0].run, one.run) : null);
      const values = samples.map(one => one && one.scores.get(metric));
      let rows = all.map(id => {
        const row = values.map((scores, at) => scores && samples[at].index.has(id) ? scores[samples[at].index.get(id)] : null);
        const moved = row.map((value, at) => at && value !== null && row[0] !== null && barred[at] === null ? value - row[0] : null), known = moved.filter(value => value !== null);
        const [name, question] = named.get(id) || [id, ""];
        return { row, moved, name, question, worst: Math.min(0, ...known.map(value => up * value)), best: Math.max(0, ...known.map(value => up * value)), text: `${name}\n${question}`.toLowerCase() };
      }).filter(one => one.row.some(value => value !== null));
      const total = rows.length;
      rows = rows.filter(one => (!only.checked || one.worst < 0 || one.best > 0) && wanted.every(word => one.text.includes(word)));
      const keys = { worse: one => one.worst, better: one => -one.best, change: one => -Math.max(one.best, -one.worst) };
      rows.sort((one, other) => keys[order.value](one) - keys[order.value](other) || (one.name < other.name ? -1 : 1));
      body.replaceChildren(...rows.slice(0, most).map(one => make("tr", {}, make("td", {}, make("code", {}, one.name), one.question ? make("div", { class: "small" }, one.question) : null),
        ...one.row.map((value, at) => make("td", { class: `number ${one.moved[at] ? (up * one.moved[at] < 0 ? "t-fail" : "t-pass") : ""}` }, score(value), one.moved[at] ? make("div", { class: "small" }, `${up * one.moved[at] < 0 ? "▼" : "▲"} ${change(one.moved[at])}`) : null)))));
      shown.textContent = `${number(Math.min(most, rows.length))} of ${number(rows.length)} shown${rows.length < total ? ` (${number(total)} in all)` : ""}`;
      more.hidden = rows.length <= most;
      more.textContent = `Show ${number(Math.min(PAGE, rows.length - most))} more`;
      note.textContent = barred.map((why, at) => why === null ? "" : `${those[at].name} is not compared: ${why}.`).filter(Boolean).join(" ");
    }
    [which, order, only].forEach(one => one.addEventListener("change", () => { most = PAGE; fill(); }));
    words.addEventListener("input", () => { most = PAGE; fill(); });
    const unnamed = all.filter(id => !named.has(id)).length, missing = those.filter((_, at) => !samples[at]).map(one => one.name);
    fill();
    return make("section", { class: "card" }, make("h3", {}, "Samples"), make("div", { class: "tools" }, which, order, make("label", {}, only, " changed only"), words, shown),
      missing.length ? make("p", { class: "soft small" }, `The scores of single samples are not kept of ${missing.join(" and ")}.`) : null, note,
      unnamed ? make("p", { class: "soft small" }, `${unnamed === all.length ? "Samples are" : `${counted(unnamed, "sample")} that the golden set no longer has ${unnamed === 1 ? "is" : "are"}`} shown by the hash that the history keeps.`) : null,
      make("div", { class: "scroll" }, make("table", { id: "sample-table" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Sample"), ...those.map(one => make("th", { scope: "col", class: "number" }, one.name)))), body)), more);
  }

  function legend() {
    const sign = (kind, path) => draw("svg", { width: 22, height: 16, viewBox: "0 0 22 16", "aria-hidden": "true" }, draw("path", { class: kind, d: path }));
    const item = (kind, path, text) => make("li", {}, sign(kind, path), text);
    return [make("ul", {},
      ...Object.keys(SYMBOLS).map(verdict => item(`verdicts ${verdict}`, SYMBOLS[verdict](11, 8), verdict === "none" ? "run without a verdict" : `run with the verdict ${verdict}`)),
      item("band", "M0 2H22V14H0Z", "95 % interval of the mean"), item("limit-line", "M0 8H22", "threshold of the policy as it is now"),
      item("break", "M11 0V16", "another judge, version of the metric, or half of the system"), item("break golden", "M11 0V16", "another golden set"),
      head.production ? item("break alert", "M11 0V16", "since when an alert of the monitor lasts") : null,
      item("lane", "M11 4V12", "below a chart: what changed, releases, accepted drops")),
    make("p", { class: "small" }, "The line has a gap where means before and after can’t be compared."),
    make("p", { class: "small" }, "In a chart: ← → one run, Page Up and Page Down ten, Home and End, Enter for details, Escape to close.")];
  }

  function restore() {
    const match = /^#compare=(.*)$/.exec(location.hash);
    if (!match) { return; }
    const places = new Map(runs.id.map((id, at) => [id, at])), wanted = match[1].split(",").slice(0, MOST);
    const found = wanted.map(one => one.split(".")).filter(([by, id]) => BY.some(([name]) => name === by) && places.has(id));
    chosen = found.map(([by, id]) => ({ run: places.get(id), by }))
      .map(({ run, by }) => versionsBy(by).find(one => one.run === run) || { run, by, runs: 1, name: nameOf(run, by) });
    ordered = chosen.every((one, at) => !at || chosen[at - 1].run <= one.run);
    changed();
    if (found.length < wanted.length) { tellChosen(`${counted(wanted.length - found.length, "version")} of this link ${wanted.length - found.length === 1 ? "is" : "are"} not in this history.`); }
    get("compare").scrollIntoView();
  }

  async function start() {
    head = await unpack(packed("head")[0]);
    ({ runs, metrics } = head);
    count = runs.time.length;
    if (count) { startRuns(); }
    get("legend").lastElementChild.append(...legend());
    if (head.production) { get("charts").append(...group(`Production, by ${head.production.length}`, ...productionCharts(head.production))); }
    get("tools").hidden = false;
    addEventListener("keydown", event => { if (event.key === "Escape") { get("legend").open = false; } });
    document.documentElement.dataset.ready = "yes";
    if (count) {
      addEventListener("hashchange", restore);
      restore();
    } else { get("jump").hidden = get("range").closest("label").hidden = get("which").closest("label").hidden = true; }
  }

  function startRuns() {
    const commits = new Set();
    again = runs.commit.map(commit => { const known = commit >= 0 && commits.has(commit); commits.add(commit); return known; });
    axis.title = run => [moment(runs.time[run]), table("release", runs.release[run]), commitOf(run), runs.pull[run] === null ? null : `pull request ${runs.pull[run]}`].filter(Boolean).join(", ");
    axis.facts = factsOf;
    const options = (select, found) => select.append(...found.map(([value, text]) => make("option", { value }, text)));
    const sizes = [30, 100, 300, 1000].filter(size => size < count);
    options(get("range"), [...sizes.map(size => [size, `the newest ${number(size)}`]), [count, "from the first one"]]);
    get("range").value = String(count > 300 ? 300 : count);
    options(get("which"), [["all", "all runs"], ...(runs.release.some(one => one >= 0) ? [["release", "the releases"]] : []), ...head.tables.event.map((event, at) => [`event ${at}`, EVENTS[event] || `runs by ${event}`]), ...(again.some(Boolean) ? [["first", "the first run of each commit"], ["again", "later runs of a commit"]] : [])]);
    ["which", "range"].forEach(name => { get(name).closest("label").hidden = get(name).options.length < 2; });
    [get("range"), get("which")].forEach(one => one.addEventListener("change", chooseRuns));
    const last = count - 1;
    get("summary").replaceChildren(`${counted(count, "run")}, ${day(runs.time[0])} to ${day(runs.time[last])}. Newest: `, pill(runs.verdict[last]), ` ${nameOf(last)}, judge ${table("judge", runs.judge[last])}.`);
    get("charts").append(...group("Metrics", ...metrics.map(metricCard)), ...group("Cost and latency", ...systemCharts()));
    chooseRuns();
    options(get("by"), BY.filter(([by]) => by === "run" || runs[by].some(one => one >= 0)).map(([by, text]) => [by, `${text} (${number(versionsBy(by).length)})`]));
    get("by").addEventListener("change", () => { limit = PAGE; listVersions(); });
    get("find").addEventListener("input", () => { limit = PAGE; listVersions(); });
    get("more").addEventListener("click", () => { limit += PAGE; listVersions(); });
    tellChosen("");
    listVersions();
    get("compare").hidden = false;
    // The address keeps what is chosen, so the link doesn't change it.
    get("jump").addEventListener("click", event => { event.preventDefault(); get("compare").scrollIntoView(); get("find").focus({ preventScroll: true }); });
  }

  start().catch(() => { get("broken").hidden = false; });
})();
