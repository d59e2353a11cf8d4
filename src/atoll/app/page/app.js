"use strict";
// The page holds the next rows itself, so that a key press shows the next row without asking the
// server; answers are sent one after the other in the background. Whatever comes from the data is
// put on the page as text, never as HTML.

const $ = (id) => document.getElementById(id);
const TOKEN = document.querySelector("meta[name=atoll-token]").content;
const TAB = Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16)).join("");
const AHEAD = 6; // pictures and sounds that are loaded ahead

let state = null; // what the server said last
let queue = []; // rows to ask about: {row, audit, seen, at, guess, sure}
let kept = null; // a row shown once more after undo stays in front
const items = new Map(); // row -> what is shown of it
const nodes = new Map(); // row -> its element, made ahead
const outbox = []; // what the server has not taken yet
let isSending = false;
let isLost = false;
let keys = new Map(); // key -> class
let pollTimer = 0;
let shownRow = null;
let seenSnapshot = -1;
let coloursAt = 0;
let coloursTimer = 0;

// --- talking with the server -------------------------------------------------------------------

async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Atoll-Token": TOKEN },
    body: JSON.stringify({ tab: TAB, have: [...items.keys()].slice(-40), ...body }),
  });
  const content = await answer.json().catch(() => ({ error: `the server said ${answer.status}` }));
  if (answer.ok) return content;
  const error = new Error(content.error || `the server said ${answer.status}`);
  error.status = answer.status;
  throw error;
}

function send(job) {
  outbox.push(job);
  showSaved();
  pump();
}

async function pump() {
  if (isSending) return;
  isSending = true;
  let wait = 300;
  while (outbox.length) {
    const job = outbox[0];
    try {
      const found = await post(job.path, job.body());
      outbox.shift();
      wait = 300;
      isLost = false;
      if (job.done) job.done(found);
      else take(found);
    } catch (error) {
      if (error.status === undefined || error.status === 503) {
        // No answer at all: keep it, and try again.
        isLost = true;
        showSaved();
        await new Promise((resolve) => setTimeout(resolve, wait));
        wait = Math.min(5000, 2 * wait);
        continue;
      }
      outbox.shift();
      complain(error);
      if (job.ask && error.status !== 409) bringBack(job.ask);
      await refresh();
    }
  }
  isSending = false;
  showSaved();
}

async function refresh() {
  try {
    take(await post("/state", {}));
    isLost = false;
  } catch (error) {
    if (error.status === undefined) isLost = true;
    else if (error.status !== 503) complain(error);
  }
  showSaved();
}

function complain(error) {
  const gone = error.status === 403 || error.status === 421;
  tell(gone ? "The command was started anew: open the address that it has printed. Answers not yet saved are lost with this page." : sentence(error.message));
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function poll() {
  clearTimeout(pollTimer);
  const waits = !state || state.snapshot === 0 || state.learnt < state.n_events || !queue.length;
  pollTimer = setTimeout(async () => {
    if (!isSending && !document.hidden) await refresh();
    poll();
  }, waits ? 400 : 3000);
}

// --- what the server said ----------------------------------------------------------------------

function take(found) {
  if (state && found.n_events < state.n_events) return; // overtaken by the answer to a later request
  state = found;
  for (const [row, item] of Object.entries(found.items)) items.set(Number(row), item);
  if (found.again) {
    items.set(found.again.row, found.again.item);
    nodes.delete(found.again.row);
    kept = found.again;
  }
  const waiting = new Set(outbox.map((job) => job.row));
  const gone = new Set(found.gone);
  let first = kept || queue[0];
  if (first && (waiting.has(first.row) || (!found.again && gone.has(first.row)))) first = null;
  if (kept && first !== kept) kept = null;
  const rest = found.queue.filter((ask) => !waiting.has(ask.row) && !(first && ask.row === first.row));
  const update = first && !kept && found.queue.find((ask) => ask.row === first.row);
  // Whether a row on show is an audit was settled when it was drawn.
  queue = [...(first ? [update ? { ...update, audit: first.audit } : first] : []), ...rest].filter((ask) => items.has(ask.row));
  for (const row of items.keys()) {
    if (items.size > 60 && !queue.some((ask) => ask.row === row)) { items.delete(row); nodes.delete(row); }
  }
  showClasses();
  showNumbers();
  showHistory();
  Picture.setOrder(state.classes);
  showRow();
  loadAhead();
  showPicture();
}

function bringBack(ask) {
  if (!items.has(ask.row)) return;
  kept = ask;
  queue.unshift(ask);
}

async function showPicture() {
  if (state.snapshot === seenSnapshot && Picture.hasPlaces()) return;
  const since = performance.now() - coloursAt;
  clearTimeout(coloursTimer);
  if (since < 1200) { coloursTimer = setTimeout(showPicture, 1250 - since); return; }
  coloursAt = performance.now();
  try {
    if (!Picture.hasPlaces()) {
      const places = await (await fetch("/picture")).json();
      if (!places.rows) return;
      Picture.setPlaces(places);
    }
    const colours = await (await fetch("/colours")).json();
    if (!colours.codes) return;
    seenSnapshot = colours.snapshot;
    Picture.setColours(colours);
  } catch (error) { /* the next poll tries again */ }
}

// --- the row -----------------------------------------------------------------------------------

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function cellsOf(item, className) {
  const list = make("dl", className);
  for (const [name, value] of item.cells) {
    const pair = make("div");
    pair.append(make("dt", "", name), value === null ? make("dd", "none", "–") : make("dd", "", value));
    list.append(pair);
  }
  if (item.more) list.append(make("p", "note", `and ${item.more} more columns`));
  return list;
}

function faultOf(row, item) {
  const what = item.kind === "image" ? "This picture cannot be shown." : "This sound cannot be played.";
  const fault = make("p", "fault", `${what} Skip it, or answer by its name.`);
  const box = make("div");
  box.append(fault, make("p", "file-name", item.name));
  return box;
}

function nodeOf(row) {
  if (nodes.has(row)) return nodes.get(row);
  const item = items.get(row);
  const node = make("div", "whole");
  if (item.kind === "text") {
    node.append(make("p", "text", item.text));
  } else if (item.kind === "image" || item.kind === "audio") {
    const shown = make("div", item.cells.length ? "shown with-cells" : "shown");
    const media = make(item.kind === "image" ? "img" : "audio");
    media.addEventListener("error", () => shown.replaceChildren(faultOf(row, item)));
    if (item.kind === "image") {
      media.alt = `Picture ${item.name}`;
      media.decoding = "sync";
      media.addEventListener("load", () => media.classList.toggle("tiny", media.naturalWidth <= 64));
    } else {
      media.controls = true;
      media.preload = "auto";
      media.setAttribute("aria-label", `Sound ${item.name}`);
    }
    media.src = `/media/${row}`;
    shown.append(media);
    node.style.height = "100%";
    node.append(shown);
    if (item.kind === "audio" && !item.cells.length) shown.append(make("p", "file-name", item.name));
  }
  if (item.cells.length) node.append(cellsOf(item, item.kind === "table" ? "cells" : "cells below"));
  nodes.set(row, node);
  return node;
}

function loadAhead() {
  for (const ask of queue.slice(0, AHEAD)) nodeOf(ask.row);
}

function showRow() {
  const ask = queue[0];
  if (!ask) {
    shownRow = null;
    Picture.setCurrent(null);
    $("audit").hidden = $("guess").hidden = true;
    const end = state && state.done;
    $("row-name").textContent = end ? "Nothing is left to label" : "Choosing the next rows…";
    if (end) $("item").replaceChildren(make("div", "end", "Every row has an answer. Export the labels, or undo to change the last."));
    else if (!$("item").querySelector(".waiting")) $("item").replaceChildren(make("div", "waiting"));
    return;
  }
  $("audit").hidden = !ask.audit;
  const showsGuess = $("show-guess").checked && ask.guess !== undefined && !ask.audit;
  $("guess").hidden = !showsGuess;
  if (showsGuess) $("guess").textContent = `The model thinks: ${ask.guess} (${percent(ask.sure)})`;
  Picture.setCurrent(ask.at);
  if (shownRow === ask.row) return;
  for (const sound of $("item").querySelectorAll("audio")) sound.pause();
  shownRow = ask.row;
  const item = items.get(ask.row);
  const name = item.name && item.kind !== "text" ? ` · ${item.name}` : "";
  $("row-name").textContent = `Row ${ask.row + 1}${name}`;
  $("card").dataset.row = String(ask.row);
  $("card").dataset.kind = item.kind;
  $("item").replaceChildren(nodeOf(ask.row));
  $("item").scrollTop = 0;
  spoken(`Row ${ask.row + 1}. ${item.text || item.name || item.cells.map((pair) => pair.join(" ")).join(", ")}`.slice(0, 400));
}

// --- answering ---------------------------------------------------------------------------------

function answer(kind, label, event) {
  const ask = queue[0];
  if (!ask) return;
  queue.shift();
  kept = null;
  send({
    path: "/answer", ask, row: ask.row, kind, label,
    body: () => ({ kind, row: ask.row, seen: ask.seen, audit: ask.audit, ...(label === undefined ? {} : { label }) }),
  });
  showRow();
  showHistory();
  if (state) $("n-labels").textContent = String(state.counts.labels + outbox.filter((job) => job.kind === "label").length);
  measured(event);
  loadAhead();
  if (queue.length < 2) poll();
}

// From the key press to the next row painted, for whoever wants to know how quick the page is.
function measured(event) {
  if (!event) return;
  const start = event.timeStamp;
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => performance.measure("atoll-next-row", { start, end: performance.now() });
    channel.port2.postMessage(0);
  });
}

function goBack(kind) {
  if (!state) return;
  const number = () => (kind === "undo" ? state.last : state.next_redo);
  send({ path: `/${kind}`, body: () => ({ number: number() }) });
}

function addClass(name) {
  const known = state.classes.find((one) => one === name) || state.classes.find((one) => one.toLowerCase() === name.toLowerCase());
  if (queue.length) answer("label", known || name);
  else if (!known) send({ path: "/class", body: () => ({ name }) });
}

async function exportLabels() {
  $("export").disabled = true;
  try {
    const found = await post("/export", { predictions: false });
    tell(`${found.labels} labels written to ${found.file}`);
  } catch (error) {
    complain(error);
  }
  $("export").disabled = false;
}

// --- what is beside the row --------------------------------------------------------------------

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0).replace(/\.0$/, "")}%`;
const count = (number) => (number < 10 ? number.toFixed(1).replace(/\.0$/, "") : String(Math.round(number)));

function spoken(text) { $("spoken").textContent = text; }

let toastTimer = 0;
function tell(text) {
  $("toast").textContent = text;
  $("toast").hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { $("toast").hidden = true; }, 7000);
}

function showSaved() {
  const n = outbox.length;
  const [kind, text] = isLost ? ["bad", n ? `No connection; ${n} not saved` : "No connection"]
    : state && state.problem ? ["bad", "The model has a problem"]
    : n ? ["busy", "Saving…"] : ["ok", "Saved"];
  $("saved").dataset.state = kind;
  $("saved-text").textContent = text;
  $("saved").title = (state && state.problem) || "";
}

// A class called 7 has the key 7; else the first nine have digits. All have letters, the first of
// their own that is free. Keys follow the order of the classes, so that a new class changes none,
// unless it is called as a key that was another's.
function keysOf(names) {
  const named = names.map((name) => (/^[0-9a-z]$/i.test(name) ? name.toLowerCase() : undefined));
  const taken = new Set(named);
  return names.map((name, place) => {
    if (named[place] !== undefined && named.indexOf(named[place]) === place) return [named[place]];
    const wanted = [...name.toLowerCase().normalize("NFD").replace(/[^a-z]/g, ""), ..."abcdefghijklmnopqrstuvwxyz"];
    const own = [place < 9 ? String(place + 1) : undefined, wanted.find((letter) => !taken.has(letter))]
      .filter((key) => key !== undefined && !taken.has(key));
    own.forEach((key) => taken.add(key));
    return own;
  });
}

function showClasses() {
  const box = $("classes");
  const names = state.classes;
  $("new-name").placeholder = names.length ? "Another class…" : "Type the name of the first class, then Enter";
  const shown = [...box.children].map((button) => button.dataset.name);
  if (names.join("\n") !== shown.join("\n")) {
    keys = new Map();
    box.replaceChildren();
    $("class-names").replaceChildren();
    $("legend").replaceChildren();
    const keysOfAll = keysOf(names);
    names.forEach((name, place) => {
      const own = keysOfAll[place];
      own.forEach((key) => keys.set(key, name));
      const button = make("button", "class");
      button.type = "button";
      button.dataset.name = name;
      button.style.setProperty("--own", Picture.colourOf(place));
      if (own.length) button.setAttribute("aria-keyshortcuts", own.join(" "));
      own.forEach((key) => button.append(make("kbd", "", key)));
      button.append(make("span", "name", name), make("span", "count"));
      button.addEventListener("click", (event) => { answer("label", name, event); $("card").focus({ preventScroll: true }); });
      box.append(button);
      const option = make("option");
      option.value = name;
      $("class-names").append(option);
      const line = make("li", "", name);
      line.style.setProperty("--own", Picture.colourOf(place));
      $("legend").append(line);
    });
  }
  for (const button of box.children) {
    const n = state.counts.by_class[button.dataset.name] || 0;
    button.querySelector(".count").textContent = n;
    button.setAttribute("aria-label", `${button.dataset.name}, ${n} labels`);
  }
}

function showHistory() {
  const list = $("history");
  const waiting = outbox.filter((job) => job.kind).reverse();
  const past = [...waiting.map((job) => ({ ...job, waits: true })), ...(state ? state.history : [])];
  list.replaceChildren(...past.slice(0, 8).map((one) => {
    const line = make("li", one.waits ? "waits" : "");
    const name = one.kind === "label" ? one.label : one.kind === "skip" ? "skipped" : "unsure";
    line.append(make("span", "", `${one.row + 1}: ${name}`));
    if (one.kind === "label") line.style.setProperty("--own", Picture.colourOf(state.classes.indexOf(one.label)));
    if (one.kind === "label" && one.guess && one.guess !== one.label) line.append(make("span", "wrong", `model: ${one.guess}`));
    return line;
  }));
  $("undo").disabled = !(state && (state.last || outbox.length));
  $("redo").disabled = !(state && state.next_redo);
}

function showNumbers() {
  const { numbers, counts } = state;
  $("subject").textContent = `${state.data} · ${state.target}`;
  document.title = `${counts.labels} labels · ${state.data} – atoll`;
  $("n-labels").replaceChildren(String(counts.labels), make("small", "", `of ${state.n_rows}`));
  $("n-skipped").textContent = counts.skipped;
  $("n-unsure").textContent = counts.unsure;
  const audits = numbers.n_audits || 0;
  $("n-audits").replaceChildren(String(audits), make("small", "", audits ? `${numbers.n_wrong} wrong` : ""));
  $("stop").hidden = !numbers.stop;
  const reason = sentence((numbers.reason || "").replace(/^You may stop: /, ""));
  if (numbers.stop && $("stop-reason").textContent !== reason) $("stop-reason").textContent = reason;
  $("advice").textContent = numbers.stop ? "" : state.problem || reason;
  const known = numbers.error !== null && numbers.error !== undefined;
  $("range").hidden = !known;
  $("errors").textContent = known ? `≈ ${count(numbers.errors_left)}` : "–";
  const most = Math.ceil(numbers.upper * numbers.n_unlabelled - 1e-6);
  $("errors-most").textContent = known ? `at most ${most} of ${numbers.n_unlabelled}` : "";
  if (known) {
    const widest = Math.min(1, Math.max(1.15 * numbers.upper, 2 * state.target_error));
    const share = (value) => `${100 * Math.min(1, value / widest)}%`;
    $("range-limit").style.width = share(numbers.upper);
    $("range-point").style.left = share(numbers.error);
    $("range-goal").style.left = share(state.target_error);
    const text = `About ${percent(numbers.error)} of unlabelled rows wrong, at most ${percent(numbers.upper)} (${percent(numbers.confidence)} sure). Target: ${percent(state.target_error)}.`;
    $("error-note").textContent = text;
    $("range").setAttribute("aria-label", text);
  }
  const sure = numbers.probability;
  $("towards").value = sure === null || sure === undefined ? 0 : Math.min(100, (100 * sure) / numbers.confidence);
  $("strip").textContent = `${counts.labels} labels` + (known ? ` · about ${count(numbers.errors_left)} errors left, at most ${most}` : "");
}

// --- keys --------------------------------------------------------------------------------------

function press(button) {
  if (!button) return;
  button.classList.add("pressed");
  setTimeout(() => button.classList.remove("pressed"), 140);
}

document.addEventListener("keydown", (event) => {
  const control = event.ctrlKey || event.metaKey;
  const inField = event.target.matches("input, textarea");
  if (inField && event.target.type !== "checkbox") {
    if (event.key === "Escape") { event.target.value = ""; event.target.blur(); }
    return;
  }
  if (event.altKey || event.isComposing || event.repeat || !state) return;
  const key = event.key.toLowerCase();
  if (control && key !== "z" && key !== "y") return;
  if (key === "backspace" || (control && (key === "z" || key === "y"))) {
    event.preventDefault();
    goBack(event.shiftKey || key === "y" ? "redo" : "undo");
  } else if (event.key === " " && !event.target.matches("button, input")) {
    event.preventDefault();
    answer("skip", undefined, event);
  } else if (event.key === "?") {
    event.preventDefault();
    answer("unsure", undefined, event);
  } else if (event.key === "+") {
    event.preventDefault();
    $("new-name").focus();
  } else if (event.key === "Enter" && !event.target.matches("button, input")) {
    const sound = $("item").querySelector("audio");
    if (sound) (sound.paused ? sound.play() : sound.pause());
  } else if (keys.has(key)) {
    event.preventDefault();
    press([...$("classes").children].find((button) => button.dataset.name === keys.get(key)));
    answer("label", keys.get(key), event);
  }
});

$("skip").addEventListener("click", (event) => { answer("skip", undefined, event); $("card").focus({ preventScroll: true }); });
$("unsure").addEventListener("click", (event) => { answer("unsure", undefined, event); $("card").focus({ preventScroll: true }); });
$("undo").addEventListener("click", () => goBack("undo"));
$("redo").addEventListener("click", () => goBack("redo"));
$("export").addEventListener("click", exportLabels);
$("show-guess").addEventListener("change", () => { showRow(); });
$("new-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("new-name").value.trim();
  $("new-name").value = "";
  $("new-name").blur();
  if (name) addClass(name);
});
addEventListener("beforeunload", (event) => { if (outbox.length) event.preventDefault(); });

refresh().then(poll);
