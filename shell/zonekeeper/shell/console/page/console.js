// The console's page: it asks for a snapshot every two seconds, and draws what has changed.
// Names come from other processes and may be hostile: they become text nodes, never markup.
"use strict";

const POLL_MS = 2000, HIDDEN_POLL_MS = 15000, TIMEOUT_MS = 10000, ERRAND_MS = 1000, PRICE_MS = 30000;
const $ = (id) => document.getElementById(id);
const page = {
  snapshot: null, tag: "", asOf: {}, commands: {}, ahead: 0, lostSince: null, heard: null,
  prices: {}, reasons: {}, details: null, ledgers: null, first: "0",
};
const now = () => Date.now() + page.ahead;

// ── words for numbers ──

const two = (number) => String(number).padStart(2, "0");
function spelled(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}
const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });
function moment(ms) {
  const date = new Date(ms), today = new Date(now()).toDateString() === date.toDateString();
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} `;
  return (today ? "" : day) + clock(ms);
}
function size(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at += 1; }
  return `${at && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[at]}`;
}
const count = (number) => number.toLocaleString("en").replaceAll(",", "\u202f");
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
const latency = (ms) => ms === null ? "–" : ms === "over" ? "over" : `${Number(ms.toPrecision(3))} ms`;
const rate = (perSecond) => perSecond === null ? "–" : `${count(Math.round(perSecond))}/s`;
const ago = (ms) => ms === undefined || ms === null ? "not yet read" : `${spelled(now() - ms)} ago`;

// ── elements ──

function h(tag, given, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") Object.assign(made.style, value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== "" && one !== false).map((one) => one instanceof Node ? one : document.createTextNode(String(one))));
  return made;
}
const chip = (kind, ...words) => h("span", { class: `chip ${kind}` }, ...words);
const act = (what, of, label, more) => h("button", { type: "button", "data-do": what, "data-of": of, ...more }, label);
const time = (ms) => h("time", { datetime: new Date(ms).toISOString() }, moment(ms));
const ticking = (kind, ms, text) => h("span", { "data-tick": kind, "data-ms": ms }, text);
const age = (ms) => ticking("age", ms, ago(ms));
const since = (ms) => ticking("since", ms, spelled(now() - ms));

// Make an old element like a new one, and keep what is the same: focus and selection stay.
function patch(old, made) {
  if (old.nodeType !== made.nodeType || old.nodeName !== made.nodeName || (old.dataset && old.dataset.key !== made.dataset.key)) {
    old.replaceWith(made);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== made.data) old.data = made.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (name !== "style" && name !== "open" && !made.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of made.attributes) if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.style.cssText !== made.style.cssText) old.style.cssText = made.style.cssText;
  patchChildren(old, [...made.childNodes]);
}
function patchChildren(box, made) {
  const old = [...box.childNodes];
  made.forEach((one, at) => at < old.length ? patch(old[at], one) : box.append(one));
  old.slice(made.length).forEach((one) => one.remove());
}
const draw = (id, ...children) => patchChildren($(id), [...h("div", null, ...children).childNodes]);

// ── commands to copy ──

const UNFIT = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
const quoted = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
function words(command, names) {
  const place = page.snapshot.place, tls = page.snapshot.tls;
  const found = command.words.flatMap((word) => word === "{place}" ? place : word === "{tls}" ? tls
    : word.startsWith("{") ? [names[word.slice(1, -1)] || ""] : [word]);
  return found.some((word) => UNFIT.test(word)) ? null : found.map(quoted).join(" ");
}
// `group` names the reason that is typed once for all commands of a box.
function commands(about, names, group) {
  const some = page.commands[about] || [], reason = page.reasons[group] || "";
  const lines = some.map((command) => {
    const text = words(command, { ...names, reason: reason || "…" }), waits = command.changes && !reason;
    if (text === null) return h("div", { class: "command" }, h("span", null, `${command.label}: a name here has characters that no terminal should get`));
    return h("div", { class: "command", "data-command": command.label }, h("span", null, command.label, command.changes ? " · changes the cluster" : ""),
      h("code", null, text), act("copy", "", waits ? "say why first" : "Copy", { disabled: waits, "aria-label": `Copy: ${command.label}` }));
  });
  const asks = some.some((command) => command.changes);
  return [asks ? h("label", { class: "row small" }, "reason ", h("input", { class: "why", "data-reason": group, maxlength: 400, placeholder: "for the timeline, and the next person on call" })) : null, ...lines];
}
async function copy(button) {
  const code = button.parentElement.querySelector("code"), text = code.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    if (!document.execCommand("copy")) { say("not copied: the text is selected"); return; }
  }
  say("copied");
  button.textContent = "Copied";
  setTimeout(() => { if (button.isConnected && button.textContent === "Copied") button.textContent = "Copy"; }, 1500);
}
function say(text) { $("said").textContent = text; }

// ── states: a sign and a word each, a colour beside ──

const OBSERVED = { up: ["good", "✓"], degraded: ["warn", "▲"], suspect: ["warn", "▲"], down: ["bad", "✕"], returning: ["info", "↻"], unknown: ["info", "?"], calm: ["good", "✓"], frozen: ["bad", "✕"] };
const PERMITTED = { open: ["good", "✓"], held: ["warn", "‖"], released: ["info", "▶"] };
const BOOKIE = { writable: ["good", "●"], "read-only": ["warn", "◐"], absent: ["bad", "✕"], "no answer": ["bad", "✕"], unknown: ["info", "?"] };
function state(table, name, before = "") {
  const [kind, sign] = table[name] || ["info", "?"];
  return chip(kind, `${sign} ${before}${name}`);
}

// ── the parts of the page ──

function drawBanners(all) {
  const found = [], store = all.store;
  if (page.lostSince !== null) {
    found.push(banner("page", "no console", `the console's process does not answer since ${clock(page.lostSince)}; everything here was said before`, null));
  } else if (store.away) {
    const parts = [store.sinceMs ? `store away since ${clock(store.sinceMs)}` : "store away"];
    const old = (name, what) => page.asOf[name] ? [`; ${what} as of `, age(page.asOf[name])] : [`; ${what} not read`];
    const zones = all.zonesOverHttp ? ["; zones and holds as an autorecovery process read them last"] : old("zones", "zones and holds");
    found.push(banner("warning", "store away", [...parts, ...old("figures", "bookies over HTTP"), ...zones, store.trouble ? ` (${store.trouble})` : ""], null));
  } else if (store.trouble) {
    found.push(banner("warning", "not read", store.trouble, null));
  }
  const rank = { page: 0, warning: 1, info: 2 };
  for (const one of [...all.alerts].sort((a, b) => rank[a.severity] - rank[b.severity])) {
    found.push(banner(one.severity, `${one.about}: ${one.alert}`, one.text, one.runbook));
  }
  for (const text of all.warnings) found.push(banner("info", "note", text, null));
  draw("banners", found);
}
function banner(kind, title, text, runbook) {
  return h("div", { class: `banner ${kind}`, "data-key": title }, h("b", null, `${kind}: ${title}`), h("p", null, text), runbook ? act("runbook", runbook, "runbook") : null);
}

function drawTiles(all) {
  const bookies = {};
  for (const zone of all.zones) for (const unit of zone.units) for (const [name, number] of Object.entries(unit.states)) bookies[name] = (bookies[name] || 0) + number;
  const there = (bookies.writable || 0) + (bookies["read-only"] || 0), down = all.zones.filter((zone) => zone.gate.observation === "down").length;
  const held = all.zones.filter((zone) => zone.gate.permission === "held").length;
  const tile = (name, value, unit, kind) => h("li", null, h("span", null, name), h("strong", { class: kind }, value), unit ? h("small", null, unit) : null);
  const queue = all.queue;
  draw("tiles",
    tile("bookies there", count(there), `of ${count(all.bookies)}`, there < all.bookies ? "bad" : ""),
    tile("zones down", down, `of ${all.zones.length}`, down ? "bad" : ""),
    tile("zones held", held, `of ${all.zones.length}`, held ? "warn" : ""),
    tile("automatic repair", all.replicationEnabled === null ? "?" : all.replicationEnabled ? "on" : "OFF", "", all.replicationEnabled === false ? "bad" : ""),
    tile("ledgers to repair", queue ? count(queue.marked) + (queue.orMore ? "+" : "") : "?", "", queue && queue.marked ? "warn" : ""),
    tile("appends to bookies", rate(all.figures.appendsPerSecond), ""),
    tile("append p99", latency(all.figures.appendP99Ms), ""),
    tile("reads", rate(all.figures.readsPerSecond), ""));
}

function drawHeld(all) {
  const gates = all.zones.filter((zone) => zone.gate.permission === "held" && zone.zone !== null).map((zone) => [zone.zone, `Zone ${zone.zone}`, zone.gate, zone.held, "zone"]);
  if (all.whole && all.whole.permission === "held") gates.unshift(["", "The cluster", all.whole, { by: "clusterHeld", runbook: "clusterHeld" }, "cluster"]);
  const found = gates.map(([zone, name, gate, held, about]) => h("article", { class: "card held", "data-key": zone },
    h("div", { class: "row spread" }, h("h3", null, `${name}: repair is held `), held ? act("runbook", held.runbook, `runbook ${held.runbook}`) : null),
    h("div", { class: "held-grid" },
      h("div", null,
        h("p", null, ticking("held", gate.heldMs, heldFor(gate.heldMs)), h("span", { class: "quiet" }, " held so far")),
        h("dl", null,
          h("dt", null, "because"), h("dd", null, gate.reason),
          h("dt", null, "evidence"), h("dd", null, gate.counted === null ? "none" : `${gate.available} of ${gate.counted} bookies available`, gate.notCounted ? `; not counted: ${gate.notCounted}` : ""),
          h("dt", null, "observed"), h("dd", null, state(OBSERVED, gate.observation), gate.sinceMs ? [" since ", time(gate.sinceMs)] : ""),
          h("dt", null, "set by"), h("dd", null, gate.setBy || "nobody", gate.permissionSinceMs ? [" at ", time(gate.permissionSinceMs)] : ""),
          h("dt", null, "predicate"), h("dd", null, held ? held.by : "–"),
          h("dt", null, "incident"), h("dd", { class: "mono" }, gate.token || "–"))),
      h("div", null, h("h4", null, "The price of a release"), priceOf(zone))),
    h("details", null, h("summary", { class: "small" }, "Commands to copy"), commands(about, { zone }, `gate ${zone}`))));
  if (all.replicationEnabled === false) found.unshift(h("article", { class: "card held", "data-key": "switch" }, h("div", { class: "row spread" }, h("h3", null, "Automatic repair is switched off"), act("runbook", "replicationDisabled", "runbook replicationDisabled")), commands("switch", {}, "switch")));
  draw("held", found.length ? h("h2", null, "Held") : null, found);
  for (const [zone] of gates) refreshPrice(zone);
}
const heldFor = (ms) => spelled(ms + (page.snapshot.store.away || page.lostSince !== null ? 0 : Math.max(0, now() - (page.asOf.zones || now()))));

function bars(rows) {
  return h("div", { class: "bars" }, rows.map(([name, share, kind, text]) => [h("span", null, name), h("span", { class: "number" }, text),
    h("span", { class: "bar", "aria-hidden": "true" }, h("i", { class: kind, style: { width: `${Math.min(100, Math.max(share > 0 ? 1 : 0, share * 100))}%` } }))]));
}
function errandNote(answer, what) {
  if (!answer) return h("p", { class: "quiet" }, `${what} …`);
  const parts = [];
  if (answer.underWay && !answer.result) parts.push(`${what}: ${plural(answer.lookedAt, "ledger")} looked at so far …`);
  if (!answer.underWay && !answer.result && !answer.trouble) parts.push("not to be asked while the store is away");
  if (answer.asOfMs) parts.push("as of ", age(answer.asOfMs));
  if (answer.trouble) parts.push(h("span", { class: "bad" }, ` ${answer.trouble}`));
  return h("p", { class: "quiet small" }, parts);
}
function priceOf(zone) {
  const answer = page.prices[zone], price = answer && answer.result;
  if (!price) return errandNote(answer, "counting the price");
  const most = Math.max(price.bytes, price.crossingBytes, 1), rows = [
    ["to be copied", price.bytes / most, "", size(price.bytes)],
    ["of it across zones", price.crossingBytes / most, "warn", size(price.crossingBytes)]];
  const kinds = { fits: "good", tight: "warn", no: "bad", unknown: "warn" };
  for (const [of, room] of Object.entries(price.rooms)) {
    const free = Object.values(room.freeBytes).reduce((sum, one) => sum + one, 0);
    rows.push([`room for zone ${of}`, free ? room.neededBytes / free : 1, kinds[room.room] || "warn", `${room.room}: ${size(room.neededBytes)} of ${free ? size(free) : "unknown"} free`]);
  }
  return h("div", null, bars(rows), h("dl", null,
    h("dt", null, "bookies lost"), h("dd", null, `${price.bookies.length}: ${price.bookies.slice(0, 12).join(", ")}${price.bookies.length > 12 ? ", …" : ""}`),
    h("dt", null, "ledgers"), h("dd", null, `${count(price.ledgers)}, of which ${count(price.openLedgers)} open (bytes not known)`),
    price.beyondRepair ? [h("dt", { class: "bad" }, "beyond repair"), h("dd", { class: "bad" }, plural(price.beyondRepair, "ledger"))] : null,
    price.unreadable ? [h("dt", { class: "bad" }, "unreadable"), h("dd", { class: "bad" }, plural(price.unreadable, "ledger"))] : null,
    h("dt", null, "time"), h("dd", null, `${price.durationMs === null ? "unknown" : spelled(price.durationMs)}, by ${plural(price.processes, "process").replace("processs", "processes")}${price.bytesPerSecond ? ` at ${size(price.bytesPerSecond)}/s` : ""}`),
    price.refusal ? [h("dt", { class: "bad" }, "refused"), h("dd", { class: "bad" }, price.refusal)] : null), errandNote(answer, "counting again"));
}

function drawZones(all) {
  draw("zones", all.zones.map((zone) => {
    const gate = zone.gate, name = zone.zone === null ? "location not known" : zone.zone;
    return h("article", { class: `card zone ${gate.permission === "held" ? "held-zone" : ""}`, "data-key": name, "aria-label": `Zone ${name}` },
      h("div", { class: "zone-head" }, h("h3", null, name), state(OBSERVED, gate.observation), state(PERMITTED, gate.permission, "repair "),
        zone.isNamed ? null : chip("warn", "▲ not in the policy"), zone.zone === null ? null : act("zone", zone.zone, "what if?", { "aria-label": `What if zone ${name} is lost?` })),
      h("p", { class: "meta" }, gate.counted === null ? `${plural(zone.size, "bookie")}` : `${gate.available} of ${plural(gate.counted, "bookie")} available`,
        gate.notCounted ? ` (not counted: ${gate.notCounted})` : "", gate.sinceMs ? [`, ${gate.observation} for `, since(gate.sinceMs)] : "",
        ` · append p99 ${latency(zone.figures.appendP99Ms)}, ${rate(zone.figures.appendsPerSecond)}`, zone.freeBytes === null ? " · room unknown" : ` · ${size(zone.freeBytes)} free of ${size(zone.totalBytes)}`),
      zone.held && gate.permission !== "held" ? h("p", { class: "meta warn" }, `a loss would be held: ${zone.held.text} `, act("runbook", zone.held.runbook, `runbook ${zone.held.runbook}`, { class: "plain" })) : null,
      h("table", null, h("caption", { class: "unseen" }, `Bookies of zone ${name}`),
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "domain"), h("th", { scope: "col" }, "bookie"), h("th", { scope: "col" }, "state"), h("th", { scope: "col", class: "number" }, "append p99"), h("th", { scope: "col", class: "number" }, "free"))),
        zone.units.map((unit) => unitRows(zone, unit))));
  }));
}
function unitRows(zone, unit) {
  const label = [unit.upgradeDomain || "?", unit.maintenance ? [" ", chip("plan", "◷ planned work")] : null];
  const rows = unit.bookies.flatMap((bookie, at) => bookieRows(bookie, at ? "" : label));
  if (unit.notShown) {
    const told = Object.entries(unit.states).map(([name, number]) => `${count(number)} ${name}`).join(", ");
    rows.unshift(h("tr", null, h("td", { class: "unit" }, label), h("td", { colspan: 2 }, act("unit", JSON.stringify([zone.zone, unit.upgradeDomain]), `${plural(unit.size, "bookie")}: ${told}`, { class: "plain" })), h("td", { class: "number" }, latency(unit.figures.appendP99Ms)), h("td", { class: "number" }, rate(unit.figures.appendsPerSecond))));
    for (const row of rows.slice(1, 2)) row.firstChild.textContent = "";
  }
  if (unit.maintenance) rows.push(h("tr", null, h("td", null), h("td", { colspan: 4, class: "remark" }, `planned work ${unit.maintenance}`)));
  return h("tbody", null, rows);
}
function bookieRows(bookie, label) {
  const free = bookie.freeBytes === null ? "–" : size(bookie.freeBytes);
  const row = h("tr", null, h("td", { class: "unit" }, label), h("td", null, act("bookie", bookie.id, bookie.id, { class: "plain" })),
    h("td", null, state(BOOKIE, bookie.state), bookie.draining ? [" ", chip("plan", "▽ draining")] : null, bookie.answers === false && bookie.state !== "absent" && bookie.state !== "no answer" ? [" ", chip("warn", "▲ page silent")] : null),
    h("td", { class: "number" }, latency(bookie.figures.appendP99Ms)), h("td", { class: "number" }, free));
  return bookie.remarks.length ? [row, h("tr", null, h("td", null), h("td", { colspan: 4, class: "remark" }, bookie.remarks.join("; ")))] : [row];
}

function drawQueue(all) {
  const queue = all.queue;
  if (!queue) { draw("queue", h("p", { class: "quiet" }, "not read yet")); return; }
  const claims = queue.underRepair.slice(0, 12).map(([ledger, by]) => `${ledger} by ${by}`).join(", ");
  const eta = queue.marked === 0 ? "nothing waits" : queue.etaMs === null ? "unknown: the queue does not become shorter" : `about ${spelled(queue.etaMs)}`;
  const fact = (name, ...said) => h("div", null, h("dt", null, name), h("dd", null, said));
  const nobody = (name, then) => name || h("span", { class: "bad" }, `none, so ${then}`);
  draw("queue", h("dl", { class: "facts" },
    fact("ledgers that wait", count(queue.marked), queue.orMore ? " or more" : ""),
    fact("empty in", eta),
    fact("rate", queue.ledgersPerSecond === null ? "–" : `${queue.ledgersPerSecond} ledgers/s`, queue.bytesPerSecond === null ? "" : `, ${size(queue.bytesPerSecond)}/s copied`, queue.bytesPerSecondMax ? ` (at most ${size(queue.bytesPerSecondMax)}/s)` : ""),
    fact("under repair", queue.underRepair.length ? `${plural(queue.underRepair.length, "ledger")}: ${claims}` : "none"),
    fact("auditor", nobody(queue.auditor, "no new loss is found")),
    fact("zone watch", nobody(queue.zoneWatch, "everything is held")),
    fact("processes", count(queue.processes)),
    fact("as of", age(page.asOf.queue))),
    h("details", null, h("summary", { class: "small" }, "Commands to copy"), commands("queue", {}, "queue"), commands("cluster", {}, "cluster")));
}

function drawTimeline(all) {
  const zones = Object.keys(all.bands).sort();
  const stretches = zones.flatMap((zone) => all.bands[zone]), from = Math.min(...stretches.map((one) => one.fromMs)), to = Math.max(...stretches.map((one) => one.toMs));
  const share = (ms) => (ms - from) / Math.max(1, to - from);
  draw("bands", zones.length ? h("div", { class: "bands" }, zones.map((zone) => [h("span", null, zone), h("div", { class: "band" }, all.bands[zone].map((one) => {
    const [kind, sign] = one.observation === null ? ["none", ""] : OBSERVED[one.observation] || ["info", "?"], gate = one.permission && one.permission !== "open" ? `, repair ${one.permission}` : "";
    const text = `${one.observation || "not known"}${gate}`, width = share(one.toMs) - share(one.fromMs);
    return h("i", { class: `${kind} ${gate ? `is-${one.permission}` : ""}`, title: `zone ${zone}: ${text}, ${moment(one.fromMs)} to ${moment(one.toMs)} (${spelled(one.toMs - one.fromMs)})`, style: { left: `${share(one.fromMs) * 100}%`, width: `${width * 100}%` } }, width > 0.05 ? `${sign} ${text}` : width > 0.012 ? sign : "");
  }))]), h("div", { class: "axis" }, h("span", null, moment(from)), h("span", null, moment((from + to) / 2)), h("span", null, moment(to)))) : h("p", { class: "quiet" }, page.asOf.timeline ? "the timeline has no events" : "not read yet"));
  $("events").hidden = all.events.length === 0;
  draw("events", h("table", null, h("caption", { class: "unseen" }, "The newest events"), h("thead", null, h("tr", null, ["when", "what", "to", "why", "by"].map((name) => h("th", { scope: "col", class: name }, name)))),
    h("tbody", null, all.events.map((one) => h("tr", null, h("td", { class: "when" }, time(one.atMs)), h("td", { class: "what" }, one.kind), h("td", null, one.subject), h("td", { class: "why" }, one.reason), h("td", { class: "by quiet" }, one.by))))));
}

function drawLedgers() {
  const answer = page.ledgers, list = answer && answer.result;
  $("following").disabled = !(list && list.next);
  patchChildren($("ledgers-age"), list ? [errandNote(answer, "reading")] : []);
  if (!list) { draw("ledgers", h("p", { class: "quiet" }, answer && !answer.underWay ? answer.trouble || "not to be read while the store is away" : "reading …")); return; }
  draw("ledgers", list.ledgers.length ? h("table", null, h("caption", { class: "unseen" }, "Ledgers"), h("thead", null, h("tr", null, h("th", { scope: "col" }, "ledger"), h("th", { scope: "col" }, "state"), h("th", { scope: "col", class: "number" }, "entries"), h("th", { scope: "col", class: "number" }, "bytes"), h("th", { scope: "col", class: "wide" }, "E/Qw/Qa"), h("th", { scope: "col", class: "number wide" }, "fragments"), h("th", { scope: "col" }, "bookies"))),
    h("tbody", null, list.ledgers.map((one) => h("tr", null, h("td", null, act("ledger", one.id, one.id, { class: "plain" })), one.trouble ? h("td", { colspan: 6, class: "bad" }, one.trouble) : [
      h("td", null, one.state), h("td", { class: "number" }, one.entries === null ? "open" : count(BigInt(one.entries))), h("td", { class: "number" }, one.bytes === null ? "open" : size(one.bytes)),
      h("td", { class: "wide" }, one.quorums), h("td", { class: "number wide" }, one.fragments), h("td", { class: "small" }, one.bookies.join(", "), one.bookieCount > one.bookies.length ? ` and ${one.bookieCount - one.bookies.length} more` : "")])))) : h("p", { class: "quiet" }, `no ledger from id ${list.first} on`));
}

function drawLive() {
  const all = page.snapshot, box = $("live");
  if (page.lostSince !== null) { box.className = "live lost"; box.textContent = "the console does not answer"; return; }
  if (!all) return;
  box.className = all.store.away || all.store.trouble ? "live old" : "live";
  const text = `zones ${all.zonesOverHttp ? "over HTTP" : ago(page.asOf.zones)}, bookies ${ago(page.asOf.figures)}`;
  if (box.textContent !== text) box.textContent = text;
}
function drawAll() {
  const all = page.snapshot;
  if (!all) return;
  draw("cluster", all.cluster);
  for (const part of [drawBanners, drawTiles, drawHeld, drawZones, drawQueue, drawTimeline]) part(all);
  drawDetails();
  drawLive();
}

// ── the dialog: a zone, a bookie, a unit, a ledger, a runbook ──

function whatIf(what) {
  const answer = page.details.answer, found = answer && answer.result;
  if (!found) return errandNote(answer, `counting what would become of the ledgers if ${what} were lost`);
  const kinds = { "unreadable": "bad", "perhaps unreadable": "bad", "at its last copy": "warn", "unwritable without another ensemble": "warn", "safe": "good" };
  const names = Object.keys(kinds).filter((name) => name in found.counts);
  return h("div", null, bars(names.map((name) => [name, found.ledgers ? found.counts[name] / found.ledgers : 0, kinds[name], `${count(found.counts[name])} of ${plural(found.ledgers, "ledger")}`])),
    names.filter((name) => found.named[name]).map((name) => h("p", { class: "small" }, `${name}: ${found.named[name].join(", ")}${found.counts[name] > found.named[name].length ? ", …" : ""}`)),
    found.unreadableCount ? h("p", { class: "bad" }, `${plural(found.unreadableCount, "ledger")} cannot be read`) : null, errandNote(answer, "counting again"));
}
function drawDetails() {
  const shown = page.details;
  if (!shown || !$("details").open) return;
  $("details-title").textContent = shown.title;
  const all = page.snapshot;
  if (shown.kind === "zone") {
    draw("details-body", h("h4", null, "What if it is lost, beside what is lost now"), whatIf(`zone ${shown.of}`), h("h4", null, "Commands to copy"), commands("zone", { zone: shown.of }, `zone ${shown.of}`));
  } else if (shown.kind === "bookie") {
    const one = all.zones.flatMap((zone) => zone.units.flatMap((unit) => unit.bookies)).find((bookie) => bookie.id === shown.of) || shown.bookie;
    draw("details-body", one ? h("dl", null, h("dt", null, "state"), h("dd", null, state(BOOKIE, one.state)), h("dt", null, "said of it"), h("dd", null, one.remarks.join("; ") || "nothing"),
      h("dt", null, "appends"), h("dd", null, `${rate(one.figures.appendsPerSecond)}, p99 ${latency(one.figures.appendP99Ms)}`), h("dt", null, "reads"), h("dd", null, `${rate(one.figures.readsPerSecond)}, p99 ${latency(one.figures.readP99Ms)}`),
      h("dt", null, "room"), h("dd", null, `${size(one.freeBytes)} free of ${size(one.totalBytes)}`), one.held ? [h("dt", null, "repair"), h("dd", null, `held by ${one.held.by}: ${one.held.text} `, act("runbook", one.held.runbook, "runbook", { class: "plain" }))] : null) : null,
      h("h4", null, "What if it is lost, beside what is lost now"), whatIf(`bookie ${shown.of}`), h("h4", null, "Commands to copy"), commands("bookie", { bookie: shown.of }, `bookie ${shown.of}`));
  } else if (shown.kind === "unit") {
    const [zone, upgradeDomain] = JSON.parse(shown.of);
    draw("details-body", shown.answer ? [h("table", null, h("tbody", null, shown.answer.bookies.flatMap((bookie) => bookieRows(bookie, "")))), shown.answer.notShown ? h("p", null, `and ${plural(shown.answer.notShown, "bookie")} more: zonekeeper bookies list`) : null] : "…", h("h4", null, "Commands to copy"), commands("unit", { zone, upgradeDomain }, `unit ${shown.of}`));
  } else if (shown.kind === "ledger") {
    draw("details-body", commands("ledger", { ledger: shown.of }, "ledger"));
  } else {
    draw("details-body", h("pre", null, shown.answer ? shown.answer.text : "…"), commands("runbook", { runbook: shown.of }, "runbook"));
  }
}
const TITLES = { zone: (of) => `If zone ${of} were lost`, bookie: (of) => `Bookie ${of}`, unit: (of) => `Bookies of ${JSON.parse(of).join(", ")}`, ledger: (of) => `Ledger ${of}`, runbook: (of) => `Runbook ${of}` };
const ASKED = { zone: (of) => ["lose", { zone: of }], bookie: (of) => ["lose", { bookie: of }], unit: (of) => ["unit", { zone: JSON.parse(of)[0] || "", upgradeDomain: JSON.parse(of)[1] }], runbook: (of) => ["runbook", { name: of }] };
function show(kind, of) {
  const shown = { kind, of, title: TITLES[kind](of), answer: null };
  page.details = shown;
  patchChildren($("details-body"), []);
  if (!$("details").open) $("details").showModal();
  drawDetails();
  if (ASKED[kind]) follow(...ASKED[kind](of), (answer) => { shown.answer = answer; drawDetails(); }, () => page.details === shown && $("details").open);
}

// ── asking ──

async function ask(path, query) {
  const reply = await fetch(`/api/${path}?${new URLSearchParams(query)}`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!reply.ok) throw new Error((await reply.text()).trim() || `the console says ${reply.status}`);
  return reply.json();
}
// Ask until the answer is whole, as long as somebody wants it.
async function follow(path, query, take, wanted) {
  while (wanted()) {
    let answer;
    try { answer = await ask(path, query); } catch (error) { answer = { underWay: false, lookedAt: 0, result: null, asOfMs: null, trouble: String(error.message || error) }; }
    if (!wanted()) return;
    take(answer);
    if (!answer.underWay) return;
    await new Promise((done) => setTimeout(done, ERRAND_MS));
  }
}
const priced = {};
function refreshPrice(zone) {
  if (priced[zone] && now() - priced[zone] < PRICE_MS) return;
  priced[zone] = now();
  follow("price", { zone }, (answer) => { if (answer.result || !page.prices[zone] || !page.prices[zone].result) page.prices[zone] = answer; drawHeld(page.snapshot); }, () => true);
}
function showLedgers(first) {
  page.first = first;
  follow("ledgers", { first }, (answer) => { page.ledgers = answer; drawLedgers(); }, () => page.first === first);
}

let polling = false, timer = 0;
async function poll() {
  if (polling) return;
  polling = true;
  clearTimeout(timer);
  try {
    const headers = page.tag ? { "If-None-Match": page.tag } : {};
    const reply = await fetch("/api/snapshot", { headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!reply.ok && reply.status !== 304) throw new Error(`the console says ${reply.status}`);
    if (!page.commands.zone) page.commands = await ask("commands", {});
    if (reply.status !== 304) { page.snapshot = await reply.json(); page.tag = reply.headers.get("ETag") || ""; }
    page.asOf = JSON.parse(reply.headers.get("Zonekeeper-As-Of") || "{}");
    page.ahead = Number(reply.headers.get("Zonekeeper-Now")) - Date.now() || 0;
    page.lostSince = null;
  } catch {
    if (page.lostSince === null) page.lostSince = now();
  } finally {
    polling = false;
    timer = setTimeout(poll, document.hidden ? HIDDEN_POLL_MS : POLL_MS);
  }
  drawAll();
  drawLive();
}
function tick() {
  for (const one of document.querySelectorAll("[data-tick]")) {
    const ms = Number(one.dataset.ms), text = one.dataset.tick === "held" ? heldFor(ms) : one.dataset.tick === "age" ? ago(one.dataset.ms === "undefined" ? null : ms) : spelled(now() - ms);
    if (one.textContent !== text) one.textContent = text;
  }
  drawLive();
}

// ── light and dark ──

function theme() {
  const chosen = document.documentElement.dataset.theme, dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  $("theme").textContent = dark ? "light" : "dark";
  $("theme").setAttribute("aria-label", `Show the page ${dark ? "light" : "dark"}`);
  $("theme").setAttribute("aria-pressed", String(chosen !== undefined));
  return dark;
}
try { const kept = localStorage.getItem("theme"); if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept; } catch { /* a browser that keeps nothing */ }

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-do]") : null;
  if (!button || button.disabled) return;
  if (button.dataset.do === "copy") copy(button); else show(button.dataset.do, button.dataset.of);
});
document.addEventListener("input", (event) => {
  if (event.target.dataset && event.target.dataset.reason !== undefined) { page.reasons[event.target.dataset.reason] = event.target.value.trim(); drawAll(); }
});
$("theme").addEventListener("click", () => {
  const becomes = theme() ? "light" : "dark";
  document.documentElement.dataset.theme = becomes;
  try { localStorage.setItem("theme", becomes); } catch { /* it lasts as long as the page */ }
  theme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
$("close").addEventListener("click", () => $("details").close());
// The browser tells of a close later: by then the dialog may show something else, which is kept.
$("details").addEventListener("close", () => { if (!$("details").open) page.details = null; });
$("search").addEventListener("submit", (event) => { event.preventDefault(); showLedgers($("from").value.replace(/\D/g, "") || "0"); });
$("following").addEventListener("click", () => { if (page.ledgers && page.ledgers.result && page.ledgers.result.next) showLedgers(page.ledgers.result.next); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
$("zone-of-time").textContent = `Times are of ${Intl.DateTimeFormat().resolvedOptions().timeZone || "this machine"}.`;
theme();
poll().then(() => showLedgers("0"));
setInterval(tick, 1000);
