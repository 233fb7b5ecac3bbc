// Draws the report from the JSON in #data. Text from models and files only ever becomes text nodes.
"use strict";
(function () {
const data = JSON.parse(document.getElementById("data").textContent);
const results = data.results, trained = data.model ? data.model.context_trained : 0;
const report = document.getElementById("report"), top = document.getElementById("summary");
const whole = d3.format(","), three = d3.format(".3f"), signed = x => (x < 0 ? "−" : "+") + d3.format(".3f")(Math.abs(x));
const settings = []; results.settings.forEach(r => { if (!settings.includes(r.setting)) settings.push(r.setting); });
const base = settings[0], rec = results.recommendation || null;
const lengths = Array.from(new Set(results.settings.map(r => r.length))).sort((a, b) => a - b);
const longest = results.target || lengths[lengths.length - 1];
// The unchanged model is grey and the recommended setting has the first colour; the others follow in order.
const ordered = settings.filter(s => s !== base && !(rec && s === rec.setting));
if (rec && rec.setting !== base) ordered.unshift(rec.setting);
const colour = s => s === base ? "var(--s0)" : "var(--s" + (1 + ordered.indexOf(s) % 9) + ")";

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value); else node.setAttribute(key, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}
function section(title, lead) {
  const node = el("section", {}, el("h2", {}, title), lead ? el("p", {}, lead) : null);
  report.append(node);
  return node;
}
function snippet(text) {
  const button = el("button", {class: "copy", type: "button", onclick: () => {
    const done = () => { button.textContent = "Copied"; setTimeout(() => button.textContent = "Copy", 1500); };
    const old = () => { const range = document.createRange(); range.selectNodeContents(pre); const s = getSelection(); s.removeAllRanges(); s.addRange(range); document.execCommand("copy"); s.removeAllRanges(); done(); };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, old); else old();
  }}, "Copy");
  const pre = el("pre", {}, text);
  return el("div", {class: "snippet"}, pre, button);
}
const range = i => signed(i.mean) + " (" + signed(i.low) + " to " + signed(i.high) + ")";

function answer() {
  if (results.complete === false) top.append(el("p", {class: "warning"}, "This run was interrupted: what follows is what had been measured by then. Running the same command again goes on from there."));
  if (!rec) {
    top.append(el("p", {class: "lead"}, data.lead || ""));
    return;
  }
  const reach = results.settings.find(r => r.setting === base && r.length === longest);
  const mean = (s, past) => {
    const row = results.settings.find(r => r.setting === s && r.length === longest);
    if (!row) return null;
    const parts = row.by_position.filter(b => past ? b.from >= trained : b.to <= trained), n = d3.sum(parts, b => b.tokens);
    return n ? d3.sum(parts, b => b.nll * b.tokens) / n : null;
  };
  const before = mean(base, true), after = mean(rec.setting, true), tiles = el("div", {class: "tiles"});
  const tile = (big, small) => tiles.append(el("div", {class: "tile"}, el("b", {}, big), el("span", {}, small)));
  tile(whole(rec.usable_to), rec.usable_to < longest ? "tokens it was found usable to (measured to " + whole(longest) + ")" : "tokens it was found usable to, all that was measured");
  if (rec.setting !== base) {
    tile(before !== null && after !== null ? three(before) + " → " + three(after) : signed(rec.gain_nll), "nats a token past position " + whole(trained) + " (lower is better)");
    tile(signed(rec.short_cost_nll), "nats a token: the price below position " + whole(trained));
  }
  if (rec.runner_up) tile(rec.runner_up, "runner-up");
  top.append(tiles, el("ul", {class: "reasons"}, rec.reason.map(r => el("li", {}, r))));
  (results.notes || []).forEach(n => top.append(el("p", {class: "note"}, n)));
}

// Means over ranges, smoothed by a kernel that is `width` positions wide on either side; the band follows from the ranges' own errors.
function smooth(points, width) {
  return points.map(p => {
    const x = (p[0] + p[1]) / 2; let w = 0, y = 0, v = 0;
    for (const q of points) {
      const u = Math.abs((q[0] + q[1]) / 2 - x) / width;
      if (u >= 1) continue;
      const k = (1 - u * u) * (q[1] - q[0]);
      w += k; y += k * q[2]; v += k * k * q[3] * q[3];
    }
    return {x, y: y / w, e: 1.96 * Math.sqrt(v) / w};
  });
}
// Not across the trained length, where the loss of an unchanged model jumps.
function smoothed(points, width) {
  return smooth(points.filter(p => p[0] < trained), width).concat(smooth(points.filter(p => p[0] >= trained), width));
}

function chart(curves, options) {
  const figure = el("figure"), hidden = new Set(), tip = el("div", {class: "tip"});
  const end = d3.max(curves, c => c.points[c.points.length - 1][1]);
  const lines = curves.map(c => ({setting: c.setting, points: smoothed(c.points, Math.max(end * 0.025, 24))}));
  const legend = el("div", {class: "legend"}, lines.map(l => {
    const dot = el("i"); dot.style.background = colour(l.setting);
    const button = el("button", {type: "button", "aria-pressed": "true", onclick: () => {
      if (hidden.has(l.setting)) hidden.delete(l.setting); else hidden.add(l.setting);
      button.setAttribute("aria-pressed", String(!hidden.has(l.setting))); draw();
    }}, dot, l.setting);
    return button;
  }));
  const holder = el("div");
  figure.append(legend, holder, tip, el("figcaption", {}, options.caption));
  function draw() {
    holder.replaceChildren();
    const width = Math.max(300, holder.clientWidth || 940), height = Math.round(Math.min(400, Math.max(250, width * 0.42)));
    const margin = {top: 36, right: 14, bottom: 40, left: 54};
    const shown = lines.filter(l => !hidden.has(l.setting));
    const values = shown.flatMap(l => l.points.flatMap(p => [p.y - p.e, p.y + p.e])).sort(d3.ascending);
    const x = d3.scaleLinear([0, end], [margin.left, width - margin.right]);
    let low = values.length ? values[0] : 0, high = values.length ? values[values.length - 1] : 1;
    if (options.zero) { low = Math.min(low, 0); high = Math.max(high, 0); }
    const y = d3.scaleLinear([low, high], [height - margin.bottom, margin.top]).nice();
    const svg = d3.select(holder).append("svg").attr("viewBox", [0, 0, width, height]).attr("role", "img").attr("aria-label", options.label);
    svg.append("g").attr("class", "grid").attr("transform", `translate(${margin.left},0)`).call(d3.axisLeft(y).ticks(6).tickSize(-(width - margin.left - margin.right)).tickFormat(""));
    if (trained > 0 && trained < end) {
      svg.append("rect").attr("x", x(trained)).attr("y", margin.top).attr("width", x(end) - x(trained)).attr("height", height - margin.top - margin.bottom).style("fill", "var(--shade)");
      svg.append("line").attr("x1", x(trained)).attr("x2", x(trained)).attr("y1", margin.top - 6).attr("y2", height - margin.bottom).style("stroke", "var(--ink)").attr("stroke-dasharray", "4 4");
      svg.append("text").attr("x", x(trained) - 6).attr("y", margin.top - 8).attr("text-anchor", "end").text("trained to " + whole(trained));
    }
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - margin.bottom})`).call(d3.axisBottom(x).ticks(width < 520 ? 4 : 8).tickFormat(whole).tickSizeOuter(0));
    svg.append("g").attr("class", "axis").attr("transform", `translate(${margin.left},0)`).call(d3.axisLeft(y).ticks(6)).call(g => g.select(".domain").remove());
    svg.append("text").attr("x", width - margin.right).attr("y", height - 6).attr("text-anchor", "end").text("position in the text, tokens");
    svg.append("text").attr("x", 4).attr("y", 12).text(options.unit);
    if (options.zero) svg.append("line").attr("x1", x(0)).attr("x2", x(end)).attr("y1", y(0)).attr("y2", y(0)).style("stroke", "var(--quiet)");
    const clip = "clip" + Math.random().toString(36).slice(2);
    svg.append("clipPath").attr("id", clip).append("rect").attr("x", margin.left).attr("y", margin.top).attr("width", width - margin.left - margin.right).attr("height", height - margin.top - margin.bottom);
    const plot = svg.append("g").attr("clip-path", `url(#${clip})`);
    const halves = points => [points.filter(p => p.x < trained), points.filter(p => p.x >= trained)].filter(p => p.length);
    // Bands of curves that lie on each other only darken the picture: past three, those of the model as it is and of the answer.
    const banded = shown.length <= 3 || options.zero ? shown : shown.filter(l => l.setting === base || rec && l.setting === rec.setting);
    for (const l of banded.slice().reverse()) {
      for (const part of halves(l.points)) plot.append("path").datum(part).attr("d", d3.area().x(p => x(p.x)).y0(p => y(p.y - p.e)).y1(p => y(p.y + p.e))).style("fill", colour(l.setting)).style("fill-opacity", 0.12);
    }
    for (const l of shown.slice().reverse()) {
      const strong = rec && l.setting === rec.setting || l.setting === base;
      plot.append("path").datum(l.points).attr("d", d3.line().x(p => x(p.x)).y(p => y(p.y))).style("fill", "none").style("stroke", colour(l.setting)).style("stroke-width", strong ? 2.4 : 1.5);
    }
    const cursor = svg.append("line").attr("y1", margin.top).attr("y2", height - margin.bottom).style("stroke", "var(--quiet)").style("display", "none");
    svg.on("pointermove", function () {
      const at = d3.clientPoint(this, d3.event), position = x.invert(Math.min(Math.max(at[0], margin.left), width - margin.right));
      cursor.attr("x1", x(position)).attr("x2", x(position)).style("display", null);
      tip.replaceChildren(el("div", {}, el("span", {}, "position"), el("b", {}, whole(Math.round(position)))));
      const here = shown.map(l => ({setting: l.setting, p: d3.scan(l.points, (a, b) => Math.abs(a.x - position) - Math.abs(b.x - position)), l})).map(h => ({setting: h.setting, value: h.l.points[h.p].y}));
      here.sort((a, b) => a.value - b.value).forEach(h => {
        const dot = el("i"); dot.style.background = colour(h.setting);
        tip.append(el("div", {}, el("span", {}, dot, h.setting), el("span", {}, options.zero ? signed(h.value) : three(h.value))));
      });
      tip.style.display = "block";
      const box = holder.getBoundingClientRect(), scale = box.width / width, left = at[0] * scale + 26;
      tip.style.left = (left + tip.offsetWidth > box.width ? at[0] * scale - tip.offsetWidth - 6 : left) + "px";
      tip.style.top = "64px";
    }).on("pointerleave", () => { tip.style.display = "none"; cursor.style("display", "none"); });
  }
  addEventListener("resize", draw);
  requestAnimationFrame(draw);
  return figure;
}

function curves() {
  const loss = (results.curves || []).filter(c => !c.against && c.points.length > 1), delta = (results.curves || []).filter(c => c.against && c.points.length > 1);
  if (!loss.length) return;
  const s = section("Loss by position", "How surprised the model is by each next token, by how far into the text the token stands. Lower is better. " +
    (trained ? "Past the dashed line lie positions that it never saw in training." : ""));
  s.append(chart(loss, {unit: "nats a token", zero: false, label: "Loss by position for each setting",
    caption: "Smoothed. Bands: about 95%. Ups and downs that all settings share belong to the text, not to the settings. Click a name to hide it."}));
  if (!delta.length) return;
  s.append(el("h3", {}, "The same, as differences"), el("p", {}, "On the same tokens against " + base + ", so that what the text itself does drops out. Below zero is better."));
  s.append(chart(delta, {unit: "nats a token against " + base, zero: true, label: "Difference of loss by position", caption: "Paired token by token. Bands: about 95%."}));
}

function dots(rows, name) {
  const figure = el("figure"), holder = el("div");
  figure.append(holder);
  function draw() {
    holder.replaceChildren();
    const width = Math.max(300, holder.clientWidth || 940), left = Math.min(250, 24 + 7.4 * d3.max(rows, r => name(r).length)), step = 30, height = rows.length * step + 44;
    const x = d3.scaleLinear([Math.min(0, d3.min(rows, r => r.low)), Math.max(0, d3.max(rows, r => r.high))], [left, width - 96]).nice();
    const svg = d3.select(holder).append("svg").attr("viewBox", [0, 0, width, height]).attr("role", "img").attr("aria-label", "Differences with intervals");
    svg.append("g").attr("class", "grid").attr("transform", `translate(0,${height - 30})`).call(d3.axisBottom(x).ticks(5).tickSize(-(height - 36)).tickFormat(""));
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - 30})`).call(d3.axisBottom(x).ticks(width < 520 ? 3 : 6).tickSizeOuter(0));
    svg.append("line").attr("x1", x(0)).attr("x2", x(0)).attr("y1", 4).attr("y2", height - 30).style("stroke", "var(--quiet)");
    rows.forEach((r, i) => {
      const y = 20 + i * step, c = r.verdict === "better" ? "var(--good)" : r.verdict === "worse" ? "var(--bad)" : "var(--quiet)";
      svg.append("text").attr("x", 0).attr("y", y + 4).style("fill", "var(--ink)").text(name(r));
      svg.append("line").attr("x1", x(r.low)).attr("x2", x(r.high)).attr("y1", y).attr("y2", y).style("stroke", c).style("stroke-width", 2);
      svg.append("circle").attr("cx", x(r.delta_nll)).attr("cy", y).attr("r", 4.5).style("fill", c);
      svg.append("text").attr("x", width).attr("y", y + 4).attr("text-anchor", "end").style("fill", c).text(signed(r.delta_nll) + " " + r.verdict);
    });
  }
  addEventListener("resize", draw);
  requestAnimationFrame(draw);
  return figure;
}

function price() {
  if (!results.price || !results.price.length) return;
  const s = section("The price at short lengths", "What each setting costs where the model needs no help: below position " + whole(trained) + ", against " + base + ", same tokens. Dots are means, lines 95% intervals; a line that crosses zero is a tie.");
  s.append(dots(results.price.slice().sort((a, b) => a.delta_nll - b.delta_nll), r => r.b));
}

function restart() {
  if (!results.restart || !results.restart.length || !rec) return;
  const s = section("Does it use what lies far back?", "The same tokens read twice: by " + rec.setting + " with everything before them in view, and by the unchanged model in a fresh window that holds the last " +
    whole(Math.floor(trained / 2)) + " to " + whole(trained) + " tokens only. Below zero, reading everything is worth it.");
  s.append(dots(results.restart, r => whole(r.from) + " to " + whole(r.to)));
}

function tables() {
  const s = section("The numbers", "Mean loss in nats a token, by range of positions. The best of each range is marked; below each number the difference from " + base + " on the same tokens, with its 95% interval. Green is better, red worse, grey a tie.");
  const tabs = el("div", {class: "tabs", role: "tablist"}), holder = el("div", {class: "scroll"});
  const show = length => {
    tabs.childNodes.forEach(b => b.setAttribute("aria-selected", String(b.dataset.length === String(length))));
    const rows = results.settings.filter(r => r.length === length), columns = rows.length ? rows[0].by_position : [];
    const best = (pick) => d3.min(rows, r => pick(r));
    const pair = (setting, from, to) => results.paired.find(p => p.a === base && p.b === setting && p.length === length && p.from === from && p.to === to);
    const cell = (value, isBest, p, past) => el("td", {class: (isBest ? "best " : "") + (past ? "past" : "")}, el("b", {}, three(value)),
      p ? el("small", {class: p.verdict, title: p.verdict + " than " + base + ": " + signed(p.low) + " to " + signed(p.high)}, signed(p.delta_nll) + " ± " + three((p.high - p.low) / 2)) : null);
    holder.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "setting"), el("th", {}, "all"), columns.map(b => el("th", {class: trained && b.from >= trained ? "past" : ""}, whole(b.from) + "–" + whole(b.to))), el("th", {}, "perplexity"), el("th", {}, "tokens/s"))),
      el("tbody", {}, rows.map(r => el("tr", {}, el("td", {}, el("code", {}, r.setting)), cell(r.nll, r.nll === best(q => q.nll), pair(r.setting, 0, length), false),
        r.by_position.map((b, i) => cell(b.nll, b.nll === best(q => q.by_position[i].nll), pair(r.setting, b.from, b.to), trained && b.from >= trained)),
        el("td", {}, d3.format(".2f")(r.ppl)), el("td", {}, d3.format(".0f")(r.tokens_per_second)))))));
  };
  if (lengths.length > 1) lengths.slice().reverse().forEach(l => tabs.append(el("button", {type: "button", role: "tab", "data-length": l, onclick: () => show(l)}, whole(l) + " tokens")));
  s.append(tabs, holder);
  show(longest);
}

function candidates() {
  if (!results.candidates) return;
  const s = section("What was tried, and what became of it", "Candidates race: first a short look, which ends what is dear at once; then the target length. A tie means that this text does not tell the setting from the recommended one.");
  s.append(el("div", {class: "scroll"}, el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "setting"), el("th", {class: "words"}, "state"), el("th", {class: "words"}, "why"))),
    el("tbody", {}, results.candidates.map(c => el("tr", {}, el("td", {}, el("code", {}, c.setting)), el("td", {class: "words", style: "min-width:110px"}, c.setting === base && c.state !== "kept" ? el("span", {class: "state dropped"}, "baseline") : el("span", {class: "state " + c.state}, c.state !== "dropped" ? c.state : c.dropped_at ? "dropped at " + whole(c.dropped_at) : "not measured")),
      el("td", {class: "words"}, c.why, c.loadable === false ? el("small", {}, "No server can load this one.") : null)))))));
}

function retrieval() {
  const rows = results.retrieval || [];
  if (!rows.length) return;
  const s = section("Finding a number that stands far back", "A five-digit key is hidden at a depth of the text (0 = the beginning) and asked for at the end.");
  s.append(el("div", {class: "scroll"}, el("table", {}, el("thead", {}, el("tr", {}, ["setting", "length", "depth", "found"].map(h => el("th", {}, h)))),
    el("tbody", {}, rows.map(r => el("tr", {}, el("td", {}, el("code", {}, r.setting)), el("td", {}, whole(r.length)), el("td", {}, String(r.depth)), el("td", {}, r.correct + " of " + r.trials)))))));
}

function exportsOf() {
  const list = data.exports || [];
  if (!list.length) return;
  const s = section("For your server", "The setting " + (data.exported || "") + " as programs load it. Each form was read back and its frequencies compared with the measured ones.");
  const title = {"llama.cpp": "llama.cpp", gguf: "GGUF metadata", hf: "Hugging Face transformers", vllm: "vLLM"};
  for (const t of list) {
    s.append(el("h3", {}, title[t.as] || t.as));
    if (t.expressible) s.append(snippet(t.snippet)); else s.append(el("p", {class: "warning"}, "Cannot be expressed in this form."));
    if (t.losses.length) s.append(el("ul", {class: "losses"}, t.losses.map(l => el("li", {}, l))));
    if (t.files.length) s.append(el("p", {class: "note"}, "File: ", el("code", {}, t.files.join(", "))));
  }
}

function facts() {
  const again = (rec && rec.reproduce) || data.reproduce;
  if (again) section("Measure it again").append(snippet(again));
  const s = section("What this was measured with"), list = el("dl");
  for (const [name, value] of data.facts || []) list.append(el("dt", {}, name), el("dd", {}, value));
  s.append(list);
  const g = section("Words");
  const words = [
    ["nats a token, loss, nll", "How surprised the model is by the true next token: minus the natural logarithm of the probability that it gave it. 0.1 nats less means a probability 1.1 times as high, for every token."],
    ["perplexity", "The exponential of the mean loss: as if the model chose among so many equally likely tokens."],
    ["position, trained length", "How many tokens stand before a token. Models are trained on texts up to some length; past it, rotary position encodings turn by angles that the model has never met."],
    ["setting", "A rule that changes those angles: linear squeezes positions by a factor, ntk raises the rotary base, yarn squeezes slow planes and leaves fast ones, dynamic changes with the length of the text, none leaves the model alone."],
    ["95% interval, tie", "Found by resampling runs of neighbouring tokens (a block bootstrap). It speaks about this text; other texts vary more. Where the interval of a difference holds zero, the two are called a tie."],
    ["paired", "Two settings compared token by token on the same text. The text's own difficulty cancels, so that much smaller differences show."],
    ["price", "What a setting costs on short texts, which the model reads well without it."]];
  words.forEach(w => g.append(el("details", {}, el("summary", {}, w[0]), el("p", {}, w[1]))));
  document.getElementById("footer").append(el("p", {}, "Written by ropewalk " + data.ropewalk + ". The page is self-contained and uses no network. Charts by D3 (BSD licence, in the page's source)."));
}

answer(); curves(); price(); restart(); tables(); candidates(); retrieval(); exportsOf(); facts();
})();
