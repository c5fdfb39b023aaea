'use strict';
// The page of a recording. What is looked at is unpacked and built; the rest stays as it came.
// Everything from the recording is put in as text, never as markup.
(() => {
const $ = (id) => document.getElementById(id);
const index = JSON.parse($('index').textContent);
const STAGES = ['source', 'output_code', 'ttir', 'ttgir', 'llir', 'ptx', 'sass'];
const ROW = 20, ITEM = 46, SPARE = 30, DASH = '\u2013';
const MARKS = { warn: '\u26a0', hint: '\u25c6', info: '\u00b7' };
const PLAIN = 600;         // rows up to which a list is built whole, so that the browser finds text
const PRINTED = 6000;      // rows of a pane that are printed
const FARTHEST = 1500;     // edits after which two texts are said to have little in common

// -- elements and values -------------------------------------------------------------------------
function make(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith('aria-')) { element.setAttribute(name, String(value)); continue; }
    if (value === false) continue;
    if (name === 'on') for (const [event, run] of Object.entries(value)) element.addEventListener(event, run);
    else if (name === 'style') for (const [key, to] of Object.entries(value)) element.style.setProperty(key, to);
    else element.setAttribute(name === 'cls' ? 'class' : name, value === true ? '' : value);
  }
  element.append(...children.filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}
const known = (value) => (value === null || value === undefined ? DASH : value.toLocaleString('en'));
const plural = (n, word) => `${n.toLocaleString('en')} ${word}${n === 1 ? '' : 's'}`;
const store = {
  get(key) { try { return localStorage.getItem(`ptxview-${key}`); } catch { return null; } },
  set(key, value) { try { localStorage.setItem(`ptxview-${key}`, value); } catch { /* a frame may have none */ } },
};
const ready = new Promise((done) => {
  if (document.readyState !== 'loading') done();
  else document.addEventListener('DOMContentLoaded', () => done(), { once: true });
});
const unpacked = new Map();
/** The value of a block of the page, by its number: deflated JSON in base64. */
function block(number) {
  if (!unpacked.has(number)) unpacked.set(number, unpack(number));
  return unpacked.get(number);
}
async function unpack(number) {
  if (!$(`b${number}`)) await ready;
  const packed = atob($(`b${number}`).textContent);
  const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return JSON.parse(await new Response(stream).text());
}
/** A text as its lines and their tokens. */
async function textOf(number) {
  const held = await block(number);
  if (!held.lines) held.lines = held.text.split('\n');
  return held;
}
/** 3-5,9 as numbers. */
function* numbers(ranges) {
  for (const part of ranges.split(',')) {
    const [first, last] = part.split('-').map(Number);
    for (let n = first; n <= (last ?? first); n++) yield n;
  }
}
/** Links of two stages, both ways: a map from each line to the lines of the other. */
function bothWays(text) {
  const down = new Map(), up = new Map();
  for (const group of text ? text.split(';') : []) {
    const [uppers, lowers] = group.split('>').map((side) => [...numbers(side)]);
    for (const n of uppers) down.set(n, lowers);
    for (const n of lowers) up.set(n, up.has(n) ? up.get(n).concat(uppers) : uppers);
  }
  return { down, up };
}
/** The lines of stage b that belong to line n of stage a of a variant. */
function linked(variant, a, b, n) {
  if (a === b) return [];
  const [upper, lower] = STAGES.indexOf(a) < STAGES.indexOf(b) ? [a, b] : [b, a];
  variant.ways ??= new Map();
  const key = `${upper}|${lower}`;
  if (!variant.ways.has(key)) variant.ways.set(key, bothWays(variant.links[key]));
  const ways = variant.ways.get(key);
  return [...new Set((upper === a ? ways.down : ways.up).get(n) ?? [])].sort((x, y) => x - y);
}

// -- text with colours ----------------------------------------------------------------------------
const TOKEN = /(\d+)([a-z-])/g;
/** A line's text with its tokens, and ranges of it marked by an element: [start, end, tag]. */
function painted(text, tokens, marks = [], squeeze = false) {
  const out = document.createDocumentFragment();
  const edges = marks.flatMap(([from, to]) => [from, to]);
  let at = 0;
  const put = (end, kind) => {
    while (at < end) {
      const next = Math.min(end, ...edges.filter((e) => e > at && e < end));
      let piece = text.slice(at, next);
      // Wide gaps push what stands behind them out of sight: an address's, a comment's.
      if (squeeze && at === 0 && /^ {3,}$/.test(piece)) piece = '';
      else if (at > 0 && kind === '-') piece = piece.replace(/ {8,}/g, '  ');
      const mark = marks.find(([from, to]) => from <= at && at < to);
      const node = kind === '-' ? document.createTextNode(piece) : make('span', { cls: `x${kind}` }, piece);
      out.append(mark ? make(mark[2], {}, node) : node);
      at = next;
    }
  };
  for (const [, size, kind] of (tokens ?? '').matchAll(TOKEN)) put(Math.min(at + Number(size), text.length), kind);
  put(text.length, '-');
  return out;
}

// -- a list of which only what is seen is built ----------------------------------------------------
class Rows {
  static made = new Set();
  constructor(box, { height, label, role = 'listbox', build, move, open }) {
    Object.assign(this, { box, height, build, move, open, count: 0, at: -1, whole: false });
    box.classList.add('rows');
    box.tabIndex = 0;
    box.setAttribute('role', role);
    box.setAttribute('aria-label', label);
    this.part = make('div', { cls: 'part', role: 'presentation' });
    this.all = make('div', { cls: 'all', role: 'presentation' }, this.part);
    box.replaceChildren(this.all);
    box.addEventListener('scroll', () => this.draw(), { passive: true });
    box.addEventListener('keydown', (event) => this.key(event));
    box.addEventListener('click', (event) => {
      const row = event.target.closest('[data-row]');
      if (row) { this.box.focus({ preventScroll: true }); this.go(Number(row.dataset.row), false); }
    });
    new ResizeObserver(() => this.draw()).observe(box);
    Rows.made.add(this);
  }
  fill(count, wide = 0) {
    this.count = count;
    this.at = Math.min(this.at, count - 1);
    this.all.style.height = `${count * this.height}px`;
    this.all.style.minWidth = wide ? `${wide}ch` : '';
    this.draw(true);
  }
  range() {
    if (this.whole) return [0, Math.min(this.count, PRINTED)];
    if (this.count <= PLAIN) return [0, this.count];
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - SPARE);
    return [first, Math.min(this.count, Math.ceil((this.box.scrollTop + this.box.clientHeight) / this.height) + SPARE)];
  }
  draw(anew = false) {
    const [first, last] = this.range();
    if (!anew && first === this.first && last === this.last) return;
    Object.assign(this, { first, last });
    const rows = [];
    for (let n = first; n < last; n++) {
      const row = this.build(n);
      row.dataset.row = n;
      row.id ||= `${this.box.id}-${n}`;
      if (!row.hasAttribute('role')) row.setAttribute('role', 'option');
      row.setAttribute('aria-setsize', this.count);
      row.setAttribute('aria-posinset', n + 1);
      row.setAttribute('aria-selected', n === this.at);
      rows.push(row);
    }
    if (this.whole && this.count > PRINTED) rows.push(make('div', { cls: 'nothing' }, `${plural(this.count - PRINTED, 'more line')}, not printed`));
    this.part.replaceChildren(...rows);
    this.part.style.transform = `translateY(${first * this.height}px)`;
    if (this.at >= first && this.at < last) this.box.setAttribute('aria-activedescendant', `${this.box.id}-${this.at}`);
    else this.box.removeAttribute('aria-activedescendant');
  }
  /** Make a row the one where one is; it is brought into view, in the middle if it was far. */
  go(n, far = true) {
    if (!this.count) return;
    this.at = Math.max(0, Math.min(n, this.count - 1));
    this.show(this.at, far);
    this.draw(true);
    this.move?.(this.at);
  }
  show(n, middle = true) {
    const top = n * this.height, seen = this.box.clientHeight;
    if (top >= this.box.scrollTop && top + this.height <= this.box.scrollTop + seen) return;
    this.box.scrollTop = middle ? top - seen / 3 : top < this.box.scrollTop ? top : top + this.height - seen;
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.height) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      event.preventDefault();
      const to = this.at < 0 ? 0 : this.at + steps[event.key];
      this.go(Math.max(0, Math.min(to, this.count - 1)), false);
    } else if (event.key === 'Enter' && this.open) {
      event.preventDefault();
      this.open(this.at);
    }
  }
}

// -- where one is ---------------------------------------------------------------------------------
const state = {
  kind: 'none', at: -1, variant: null, view: 'code', panes: [], here: 0, words: store.get('words') === '1',
  query: '', hits: null, stages: null,
};
const row = () => index.variants[state.at];
const nameOf = (n) => index.kernels[index.variants[n].kernel].name;
const counts = new Map();
for (const one of index.variants) counts.set(one.id, (counts.get(one.id) ?? 0) + 1);
/** A variant in an address: its id, with the kernel where several share a file. */
const keyOf = (n) => (counts.get(index.variants[n].id) > 1 ? `${index.variants[n].id}:${nameOf(n)}` : index.variants[n].id);
const placeOf = (key) => {
  const [id, name] = key.split(':');
  const of = index.variants.findIndex((v, n) => (v.id === id || (id.length >= 8 && v.id.startsWith(id))) && (!name || nameOf(n) === name));
  return of >= 0 ? of : index.variants.findIndex((_, n) => nameOf(n) === key);
};
function say(text) { $('spoken').textContent = text; }
/** The address of what is shown, which can be sent to somebody. */
function address() {
  const part = encodeURIComponent;
  let to = '';
  if (state.kind === 'graph') to = `graph/${part(index.graphs[state.at].id)}`;
  else if (state.view === 'compare' && comparison.b !== null) to = `compare/${part(keyOf(comparison.a))}/${part(keyOf(comparison.b))}/${comparison.stage}`;
  else if (state.kind === 'variant') {
    const pane = state.panes[state.here];
    const line = pane && pane.line ? `/${pane.line}` : '';
    to = state.view === 'facts' ? `${part(keyOf(state.at))}/facts`
      : `${part(keyOf(state.at))}${pane ? `/${pane.stage}${line || '/1'}/${state.panes.map((p) => p.stage).join('+')}` : ''}`;
  }
  try { history.replaceState(null, '', `#${to}`); } catch { /* a frame without an address */ }
}
let opened = 0;
async function follow() {
  let parts = [];
  try { parts = location.hash.slice(1).split('/').map(decodeURIComponent); } catch { /* not one of ours */ }
  if (parts[0] === 'graph') {
    const n = index.graphs.findIndex((g) => g.id === parts[1]);
    if (n >= 0) return showGraph(n);
  } else if (parts[0] === 'compare' && parts.length > 2) {
    const [a, b] = [placeOf(parts[1]), placeOf(parts[2])];
    if (a >= 0 && b >= 0) {
      await showVariant(a, { view: 'compare', quiet: true });
      Object.assign(comparison, { a, b, stage: parts[3] || 'ptx' });
      return showView('compare');
    }
  }
  const n = parts[0] ? placeOf(parts[0]) : -1;
  if (n < 0) return index.variants.length ? showVariant(0) : index.graphs.length ? showGraph(0) : showNothing();
  if (parts[1] === 'facts') return showVariant(n, { view: 'facts' });
  const stage = STAGES.includes(parts[1]) ? parts[1] : null;
  const stages = (parts[3] ?? '').split('+').filter((s) => STAGES.includes(s));
  return showVariant(n, { view: 'code', stage, line: Number(parts[2]) || 0, stages: stages.length ? stages : null });
}

// -- the list of kernels --------------------------------------------------------------------------
const entries = [
  ...index.graphs.map((g, n) => ({ kind: 'graph', at: n, text: `graph ${g.id} ${g.kernels.map((k) => k.name).join(' ')}` })),
  ...index.variants.map((v, n) => {
    const k = index.kernels[v.kernel];
    return { kind: 'variant', at: n, text: [k.name, k.demangled, k.origin, ...k.ops, v.id, v.config, v.target].join(' ') };
  }),
].map((e) => ({ ...e, text: e.text.toLowerCase() }));
let listed = entries;
function item(n) {
  const { kind, at } = listed[n];
  if (kind === 'graph') {
    const graph = index.graphs[at];
    return make('div', { cls: 'item', title: graph.id },
      make('span', { cls: 'what' }, `graph ${graph.id}`), make('span', { cls: 'origin' }, 'graph'),
      make('span', { cls: 'how' }, plural(graph.kernels.length, 'kernel')));
  }
  const v = index.variants[at], k = index.kernels[v.kernel];
  const before = n > 0 && listed[n - 1].kind === 'variant' && index.variants[listed[n - 1].at].kernel === v.kernel;
  const figures = [v.id, before ? '' : v.config, `${known(v.registers)} regs`, v.spills !== '0' && v.spills !== DASH ? `spills ${v.spills}` : '', v.time ? v.time.text : ''];
  const many = state.hits?.get(at);
  return make('div', { cls: before ? 'item more' : 'item', title: `${k.demangled}\n${v.id} ${v.config}` },
    make('span', { cls: 'what' }, before ? v.config || v.id : k.name),
    many ? make('span', { cls: 'mark' }, `${many.toLocaleString('en')}\u00d7`)
      : v.hints ? make('span', { cls: `mark ${v.worst}`, title: plural(v.hints, 'hint') }, `${MARKS[v.worst]} ${v.hints}`) : null,
    make('span', { cls: 'how' }, figures.filter(Boolean).join(' \u00b7 ')),
    make('span', { cls: 'origin' }, k.origin));
}
const list = new Rows($('list'), { height: ITEM, label: 'Kernels', build: item, move: (n) => pick(listed[n]), open: () => state.panes[0]?.rows.box.focus() });
function pick(entry) {
  document.body.classList.remove('listing');
  $('menu').setAttribute('aria-expanded', 'false');
  if (entry.kind === state.kind && entry.at === state.at) return;
  if (entry.kind === 'graph') showGraph(entry.at); else showVariant(entry.at, { view: state.kind === 'variant' ? state.view : 'code' });
}
function relist() {
  const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
  listed = entries.filter((e) => words.every((w) => e.text.includes(w)) && (!state.hits || (e.kind === 'variant' && state.hits.has(e.at))));
  const kernels = listed.filter((e) => e.kind === 'variant').length;
  const all = entries.filter((e) => e.kind === 'variant').length;
  $('shown').textContent = kernels === all ? plural(all, 'variant') : `${kernels.toLocaleString('en')} of ${plural(all, 'variant')}`;
  list.at = listed.findIndex((e) => e.kind === state.kind && e.at === state.at);
  list.fill(listed.length);
}
/** The variant before or after, as the list has them now. */
function step(by) {
  const now = listed.findIndex((e) => e.kind === state.kind && e.at === state.at);
  if (listed.length) list.go(Math.max(0, Math.min(now + by, listed.length - 1)), false);
}

// -- a variant ------------------------------------------------------------------------------------
async function showVariant(n, { view = 'code', stage = null, line = 0, stages = null, quiet = false } = {}) {
  const turn = ++opened;
  const variant = await block(index.variants[n].block);
  if (turn !== opened) return;
  Object.assign(state, { kind: 'variant', at: n, variant });
  document.title = `${nameOf(n)} \u00b7 ${index.name}`;
  list.at = listed.findIndex((e) => e.kind === 'variant' && e.at === n);
  if (list.at >= 0) list.show(list.at);
  list.draw(true);
  subject();
  hints();
  $('graph').hidden = true;
  $('tabs').hidden = false;
  arrange(view);  // before the panes: what is hidden has no height to scroll in
  await showPanes(stages ?? state.stages, stage, line);
  if (turn === opened && !quiet) await showView(view);
}
function showNothing() {
  $('subject').replaceChildren(make('h2', {}, 'No kernel stands in this recording.'));
  $('tabs').hidden = true;
}
function subject() {
  const v = row(), k = index.kernels[v.kernel];
  const tile = (label, value, note, bad) => make('li', { cls: bad ? 'bad' : null },
    make('span', { cls: 'label' }, label), make('span', { cls: 'value' }, value), note ? make('span', { cls: 'note' }, note) : null);
  const spilled = v.spills !== '0' && v.spills !== DASH;
  const tiles = [
    tile('registers', known(v.registers), 'a thread'),
    tile('spills', v.spills, spilled ? 'bytes stored/loaded' : '', spilled),
    tile('shared memory', v.shared, 'bytes'),
    tile('occupancy', v.occupancy === null ? DASH : `${v.occupancy} %`, v.limiters.length ? `limited by ${v.limiters.join(' and ')}` : v.unknown),
    tile('instructions', known(v.instructions), v.counted),
    v.time && tile('time', v.time.text, 'measured'),
    v.tuned && tile('tuned', v.tuned, 'the tuner\u2019s'),
    v.launches !== null && tile('launches', known(v.launches), ''),
  ];
  $('subject').replaceChildren(
    make('h2', {}, k.name),
    make('p', { cls: 'sub' }, make('b', {}, v.id), ` ${[v.target, v.config, k.origin].filter(Boolean).join(' \u00b7 ')}`,
      k.ops.length ? ` \u00b7 ${k.ops.join(', ')}` : '', v.failed ? make('span', { cls: 'warn' }, ` \u00b7 never ran: ${v.failed}`) : ''),
    make('ul', { cls: 'tiles' }, ...tiles));
}
function chip(stage, line) {
  return make('button', { cls: 'chip', type: 'button', title: `Go to line ${line} of ${stage}`, on: { click: () => goTo(stage, line) } }, `${stage} ${line}`);
}
function hints() {
  $('hints').replaceChildren(...(state.variant.hints ?? []).map((hint) => {
    const chips = Object.entries(hint.lines).flatMap(([stage, lines]) => [
      ...lines.slice(0, 3).map((n) => chip(stage, n)), lines.length > 3 ? make('span', { cls: 'quiet' }, ` and ${lines.length - 3} more`) : null]);
    const how = hint.blocks ? `, counted in ${hint.blocks[0]} of ${plural(hint.blocks[1], 'block')}` : hint.estimated ? ', a guess from the code' : '';
    return make('p', {}, make('span', { cls: `rule ${hint.severity}` }, `${MARKS[hint.severity] ?? '\u00b7'} ${hint.rule}`), how, ...chips, ` ${hint.text}`);
  }));
}
const VIEWS = [['code', 'Code'], ['facts', 'Facts'], ['compare', 'Compare']];
function arrange(view) {
  state.view = view;
  for (const [name] of VIEWS) {
    $(name).hidden = name !== view;
    $(`tab-${name}`).setAttribute('aria-selected', name === view);
    $(`tab-${name}`).tabIndex = name === view ? 0 : -1;
  }
  $('widths').hidden = view !== 'code';
}
async function showView(view) {
  arrange(view);
  if (view === 'facts') facts();
  if (view === 'compare') await compare();
  if (view === 'code') state.panes.forEach((pane) => pane.rows.draw(true));
  address();
}
function tabs() {
  const tab = ([name, label]) => make('button', {
    type: 'button', role: 'tab', id: `tab-${name}`, 'aria-controls': name,
    on: { click: () => showView(name), keydown: (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const to = VIEWS[(VIEWS.findIndex(([v]) => v === name) + by + VIEWS.length) % VIEWS.length][0];
      showView(to).then(() => $(`tab-${to}`).focus());
    } },
  }, label);
  const widths = [1, 2, 3].map((n) => make('button', { type: 'button', 'data-panes': n, title: `${plural(n, 'pane')} (${n})`, on: { click: () => setPanes(n) } }, String(n)));
  $('tabs').replaceChildren(...VIEWS.map(tab), make('span', { cls: 'room' }),
    make('span', { id: 'widths', role: 'group', 'aria-label': 'Panes' },
      make('button', { type: 'button', id: 'words', 'aria-pressed': state.words, title: 'What each line does, beneath it (w)', on: { click: words } }, 'sentences'), ' ', ...widths));
}

// -- panes ----------------------------------------------------------------------------------------
let paneIds = 0;
class Pane {
  constructor(stage) {
    this.id = ++paneIds;
    this.stage = stage;
    this.line = 0;
    this.marked = new Set();
    this.select = make('select', { 'aria-label': 'Stage', on: { change: () => this.turn(this.select.value) } },
      ...STAGES.filter((s) => s in state.variant.stages).map((s) => make('option', { value: s }, s)));
    this.path = make('span', { cls: 'path' });
    this.reading = make('footer', {});
    this.box = make('div', { id: `pane${this.id}`, cls: 'lines' });
    this.element = make('article', { cls: 'pane' },
      make('header', {}, this.select, this.path,
        make('button', { type: 'button', cls: 'copy', title: 'Copy this stage', on: { click: (event) => this.copy(event.target) } }, 'copy')),
      this.box, this.reading);
    this.rows = new Rows(this.box, { height: ROW, label: 'Lines', build: (n) => this.build(n), move: (n) => this.moved(n), open: () => this.cross() });
    this.box.addEventListener('focus', () => state.panes.includes(this) && here(this));
  }
  /** Show another stage here. */
  async turn(stage) {
    this.stage = stage;
    this.line = 0;
    this.marked = new Set();
    await this.load();
    state.stages = state.panes.map((p) => p.stage);
    here(this);
    relight();
    address();
  }
  async load() {
    const of = state.variant.stages[this.stage], variant = state.variant;
    const [held, told] = await Promise.all([textOf(of.text), block(of.told)]);
    if (variant !== state.variant) return;
    Object.assign(this, { of, held, told });
    this.notes = new Map();
    for (const [n, rule, severity, text] of told.notes) this.notes.set(n, [...(this.notes.get(n) ?? []), { rule, severity, text }]);
    this.peaks = new Set(told.peaks);
    this.digits = Math.max(3, String(held.lines.length).length);
    this.wide = held.lines.reduce((most, line) => Math.max(most, line.length), 0) + 24;
    this.select.value = this.stage;
    this.path.textContent = [of.path?.split('/').pop(), of.from].filter(Boolean).join(' \u00b7 ');
    this.path.title = [of.path, of.from].filter(Boolean).join(' \u00b7 ');
    this.box.setAttribute('aria-label', `${this.stage} of ${row() ? nameOf(state.at) : ''}`);
    this.lay();
    this.read();
    if (!this.line) this.rows.box.scrollTop = Math.max(0, this.rowOf(of.first) - 1) * ROW;
  }
  /** The rows: every line, and beneath it what is said of it where sentences are shown. */
  lay() {
    this.order = null;
    if (state.words) {
      this.order = [];
      for (let n = 1; n <= this.held.lines.length; n++) {
        this.order.push({ n });
        for (const note of this.notes.get(n) ?? []) this.order.push({ n, note });
        const said = /^\s*(?:\.loc|\$L__tmp|\$L__func)/.test(this.held.lines[n - 1]) ? '' : this.told.said[n];
        if (said) for (const text of said.split('\n')) this.order.push({ n, text });
      }
    }
    this.rows.at = this.line ? this.rowOf(this.line) : -1;
    this.rows.fill(this.order ? this.order.length : this.held.lines.length, this.wide);
  }
  rowOf(n) { return this.order ? this.order.findIndex((r) => r.n === n) : n - 1; }
  build(place) {
    const { n, text, note } = this.order ? this.order[place] : { n: place + 1 };
    if (text || note) {
      const indent = /^\s*/.exec(this.held.lines[n - 1])[0];
      return make('div', { cls: note ? `l words note ${note.severity}` : 'l words' }, this.gutter(n, false), `${this.stage === 'sass' ? '' : indent}\u2514 ${note ? `${MARKS[note.severity]} ${note.rule}: ${note.text}` : text}`);
    }
    const line = this.held.lines[n - 1];
    const cls = ['l', n === this.line && 'at', this.marked.has(n) && 'linked', (n < this.of.first || n > this.of.last) && 'out'].filter(Boolean).join(' ');
    return make('div', { cls, 'data-line': n }, this.gutter(n, true),
      make('span', {}, painted(line, this.held.tokens[n - 1], this.found(line), this.stage === 'sass')));
  }
  gutter(n, figures) {
    const { live, stall } = this.told;
    const notes = figures ? this.notes.get(n) : null;
    const count = live && figures && live[n - 1] !== null ? live[n - 1] : '';
    const registers = live ? make('i', { cls: this.peaks.has(n) ? 'peak' : null, title: count === '' ? null : `${count} live registers` }, count) : null;
    const wait = stall && figures && stall[n - 1] !== null ? stall[n - 1] : '';
    const cycles = stall ? make('i', { title: wait === '' ? null : `stall ${wait}` }, wait) : null;
    return make('span', { cls: 'n', 'aria-hidden': !figures },
      notes ? make('s', { cls: notes[0].severity, title: notes.map((x) => `${x.rule}: ${x.text}`).join('\n') }, MARKS[notes[0].severity]) : make('s'),
      registers, cycles,
      make('b', {}, figures ? String(n) : ''));
  }
  /** Where the text that is searched for stands in a line. */
  found(line) {
    const out = [];
    if (!state.query) return out;
    const low = line.toLowerCase();
    for (let at = low.indexOf(state.query); at >= 0; at = low.indexOf(state.query, at + state.query.length)) out.push([at, at + state.query.length, 'mark']);
    return out;
  }
  moved(place) {
    this.line = this.order ? this.order[place].n : place + 1;
    here(this);
    relight();
    address();
  }
  goTo(line, focus = false) {
    this.line = Math.max(1, Math.min(line, this.held.lines.length));
    if (focus) this.box.focus({ preventScroll: true });
    this.rows.go(this.rowOf(this.line));
  }
  /** Mark the lines that belong to a line of another pane, and bring the first into view. */
  light(lines) {
    this.marked = new Set(lines);
    if (lines.length) {
      this.line = 0;
      const seen = lines.some((n) => { const top = this.rowOf(n) * ROW - this.box.scrollTop; return top >= 0 && top + ROW <= this.box.clientHeight; });
      if (!seen) this.rows.show(this.rowOf(lines[0]));
    }
    this.rows.at = this.line ? this.rowOf(this.line) : -1;
    this.rows.draw(true);
    this.read(lines);
  }
  /** The line beneath the listing: what the line does, and what is known of it. */
  read(lines = []) {
    const n = this.line, { live, stall, said } = this.told ?? {};
    const parts = [];
    if (n) {
      parts.push(make('span', { cls: 'at' }, `${this.stage} ${n}`));
      if (said[n]) parts.push(` ${said[n].split('\n').join(' \u00b7 ')}`);
      if (live?.[n - 1] !== null && live) parts.push(make('span', { cls: 'quiet' }, ` \u00b7 ${live[n - 1]} live registers`));
      if (stall && stall[n - 1] !== null) parts.push(make('span', { cls: 'quiet' }, ` \u00b7 stall ${stall[n - 1]}`));
      for (const note of this.notes.get(n) ?? []) parts.push(make('div', { cls: note.severity }, `${MARKS[note.severity]} ${note.rule}: ${note.text}`));
    } else if (lines.length) parts.push(make('span', { cls: 'quiet' }, `${plural(lines.length, 'line')} of ${this.stage}: ${shortened(lines)}`));
    else if (state.panes[state.here]?.line && this !== state.panes[state.here]) parts.push(make('span', { cls: 'quiet' }, `no line of ${this.stage} belongs to it`));
    else if (this.told?.legend) parts.push(make('span', { cls: 'quiet' }, this.told.legend));
    this.reading.replaceChildren(...parts);
  }
  /** To the lines of the next pane that belong to this one. */
  cross() {
    const others = state.panes.map((_, n) => state.panes[(n + state.panes.indexOf(this)) % state.panes.length]).slice(1);
    for (const other of others) {
      const lines = linked(state.variant, this.stage, other.stage, this.line);
      if (lines.length) return other.goTo(lines[0], true);
    }
    return say('No line of another pane belongs to it.');
  }
  async copy(button) {
    let done = true;
    try { await navigator.clipboard.writeText(this.held.text); } catch { done = false; }
    button.textContent = done ? 'copied' : 'not allowed';
    setTimeout(() => { button.textContent = 'copy'; }, 1500);
  }
}
function shortened(lines) {
  const out = [];
  for (const n of lines) {
    const last = out[out.length - 1];
    if (last && last[1] === n - 1) last[1] = n; else out.push([n, n]);
  }
  const text = out.slice(0, 6).map(([a, b]) => (a === b ? a : `${a}\u2013${b}`)).join(', ');
  return out.length > 6 ? `${text} \u2026` : text;
}
function here(pane) {
  state.here = state.panes.indexOf(pane);
  state.panes.forEach((p) => p.element.classList.toggle('here', p === pane));
  if (pane.searched !== state.query || pane.matched !== pane.stage) search(false);
}
/** The lines of the other panes that belong to the line where one is. */
function relight() {
  const pane = state.panes[state.here];
  if (!pane) return;
  pane.marked = new Set();
  pane.rows.draw(true);
  pane.read();
  for (const other of state.panes) {
    if (other !== pane) other.light(pane.line ? linked(state.variant, pane.stage, other.stage, pane.line) : []);
  }
  if (pane.line) say(`${pane.stage} line ${pane.line}. ${pane.reading.textContent}`);
}
function usual(many) {
  const there = Object.keys(state.variant.stages);
  const first = ['source', 'output_code', 'ttir'].find((s) => there.includes(s));
  const wanted = [first, 'ptx', 'sass', 'ttgir', 'llir', 'ttir'].filter((s, n, all) => there.includes(s) && all.indexOf(s) === n);
  return STAGES.filter((s) => wanted.slice(0, many).includes(s));
}
async function showPanes(stages, stage, line) {
  const there = Object.keys(state.variant.stages ?? {});
  const why = Object.entries(state.variant.missing ?? {});
  if (!there.length) {
    state.panes = [];
    $('panes').replaceChildren(make('p', { cls: 'nothing' }, state.variant.why ?? `Nothing of it was kept. ${why.map(([s, w]) => `${s}: ${w}`).join('; ')}`));
    return;
  }
  const many = Number(store.get('panes')) || (innerWidth > 1750 ? 3 : 2);
  let wanted = (stages ?? []).filter((s) => there.includes(s));
  if (!wanted.length || (stages && wanted.length < stages.length)) wanted = [...new Set([...wanted, ...usual(stages?.length ?? many)])].slice(0, stages?.length ?? many);
  if (stage && there.includes(stage) && !wanted.includes(stage)) wanted[wanted.length - 1] = stage;
  state.panes = wanted.slice(0, 3).map((s) => new Pane(s));
  $('panes').replaceChildren(...state.panes.map((p) => p.element));
  for (const button of document.querySelectorAll('[data-panes]')) button.setAttribute('aria-pressed', Number(button.dataset.panes) === state.panes.length);
  await Promise.all(state.panes.map((p) => p.load()));
  state.here = Math.max(0, state.panes.findIndex((p) => p.stage === stage));
  here(state.panes[state.here]);
  if (line) state.panes[state.here].goTo(line);
}
async function setPanes(many) {
  store.set('panes', many);
  const pane = state.panes[state.here], stages = state.panes.map((p) => p.stage);
  if (!pane) return;
  while (stages.length > many) stages.splice(stages.findLastIndex((s) => s !== pane.stage), 1);
  const more = usual(7).filter((s) => !stages.includes(s));
  while (stages.length < many && more.length) stages.push(more.shift());
  state.stages = STAGES.filter((s) => stages.includes(s));
  await showPanes(state.stages, pane.stage, pane.line);
  address();
}
/** Line of a stage, in the pane that shows it or in the last one. */
async function goTo(stage, line) {
  if (state.view !== 'code') await showView('code');
  let pane = state.panes.find((p) => p.stage === stage);
  if (!pane) {
    pane = state.panes[state.panes.length - 1];
    if (!pane || !(stage in state.variant.stages)) return;
    await pane.turn(stage);
  }
  pane.goTo(line, true);
}
function words() {
  state.words = !state.words;
  store.set('words', state.words ? '1' : '0');
  $('words').setAttribute('aria-pressed', state.words);
  for (const pane of state.panes) {
    const top = pane.line || Math.floor(pane.box.scrollTop / ROW) + 1;
    pane.lay();
    pane.rows.show(pane.rowOf(pane.line || Math.min(top, pane.held.lines.length)));
  }
}

// -- search ---------------------------------------------------------------------------------------
function search(go = true) {
  const pane = state.panes[state.here];
  state.query = $('search').value.toLowerCase();
  if (!pane?.held) return;
  pane.searched = state.query;
  pane.matched = pane.stage;
  state.matches = [];
  if (state.query) pane.held.lines.forEach((line, n) => { if (line.toLowerCase().includes(state.query)) state.matches.push(n + 1); });
  state.panes.forEach((p) => p.held && p.rows.draw(true));
  const next = state.matches.find((n) => n >= (pane.line || 1)) ?? state.matches[0];
  tally(next);
  if (go && next) pane.goTo(next);
}
function tally(line) {
  const at = state.matches.indexOf(line);
  $('count').textContent = !state.query ? '' : state.matches.length ? `${at + 1} of ${state.matches.length}` : 'no match';
}
function next(by) {
  const pane = state.panes[state.here];
  if (!pane || !state.matches?.length) return;
  const now = pane.line;
  const to = by > 0 ? state.matches.find((n) => n > now) ?? state.matches[0] : state.matches.findLast((n) => n < now) ?? state.matches.at(-1);
  pane.goTo(to);
  tally(to);
}
let seeking = 0;
/** Leave only kernels in the list whose text of the stage shown has what is searched for. */
async function everywhere(asked) {
  const turn = ++seeking, stage = state.panes[state.here]?.stage ?? 'ptx', query = $('search').value.toLowerCase();
  const on = asked && query !== '';
  $('everywhere').setAttribute('aria-pressed', on);
  state.hits = null;
  if (on) {
    const hits = new Map();
    for (let n = 0; n < index.variants.length; n++) {
      const of = (await block(index.variants[n].block)).stages?.[stage];
      if (!of) continue;
      const text = (await textOf(of.text)).text.toLowerCase();
      const many = text.split(query).length - 1;
      if (many) hits.set(n, many);
      if (n > 40) { unpacked.delete(of.text); if (n !== state.at) unpacked.delete(index.variants[n].block); }
      if (turn !== seeking) return;
    }
    state.hits = hits;
  }
  relist();
}

// -- facts ----------------------------------------------------------------------------------------
function facts() {
  const v = row(), k = index.kernels[v.kernel], of = state.variant;
  const parts = [];
  const section = (title, ...what) => what.length && parts.push(make('h3', {}, title), ...what);
  const pairs = (rows) => make('dl', {}, ...rows.flatMap(([name, value]) => [make('dt', { cls: name.startsWith(' ') ? 'in' : null }, name.trim()), make('dd', {}, value)]));
  if (of.card) section('Card', pairs(of.card));
  for (const mix of of.mix ?? []) {
    const colours = mix.costs.map((_, n) => `var(--bar${(n % 6) + 1})`);
    section(`${mix.stage}: ${plural(mix.total, 'instruction')}`,
      make('div', { cls: 'mix', role: 'img', 'aria-label': mix.costs.map(([c, n]) => `${c} ${n}`).join(', ') },
        ...mix.costs.map(([cost, n], i) => make('span', { title: `${cost}: ${n}`, style: { flex: String(n), background: colours[i] } }))),
      make('ul', { cls: 'keyed' }, ...mix.costs.map(([cost, n], i) => make('li', { style: { '--of': colours[i] } }, `${cost} ${n}`)), mix.unclassed ? make('li', {}, `not classed ${mix.unclassed}`) : null),
      make('p', { cls: 'mono quiet' }, mix.opcodes.map(([o, n]) => `${o} ${n}`).join('   '), mix.opcodes_in_all > mix.opcodes.length ? `   and ${mix.opcodes_in_all - mix.opcodes.length} more` : ''));
  }
  if (v.time) section('Time', make('p', {}, `${v.time.text} ${v.time.how}`));
  if (of.verified) section('Verified', make('p', {}, of.verified));
  if (of.calls?.length) {
    section('Calls', make('div', { cls: 'wide' }, make('table', {}, make('thead', {}, make('tr', {}, make('th', { cls: 'r' }, 'times'), make('th', {}, 'what it was given'))),
      make('tbody', {}, ...of.calls.map((c) => make('tr', {}, make('td', { cls: 'r' }, known(c.count)), make('td', {}, c.what.join(', '))))))));
  }
  if (k.made_from.length) section('Made from', make('table', {}, make('tbody', {}, ...k.made_from.map(([file, line, code, targets]) => make('tr', {}, make('td', { cls: 'mono' }, `${file}:${line}`), make('td', { cls: 'mono' }, code), make('td', {}, targets.join(', ')))))));
  const rows = [['kernel', k.demangled], ['origin', k.origin], ['hash', of.hash ?? DASH], ['configuration', v.config || DASH]];
  if (Object.keys(of.signature ?? {}).length) rows.push(['signature', Object.entries(of.signature).map(([n, t]) => `${n}: ${t}`).join(', ')]);
  if (of.flags?.length) rows.push(['flags', of.flags.join(' ')]);
  for (const [stage, s] of Object.entries(of.stages ?? {})) rows.push([stage, [`${plural(s.lines, 'line')}`, s.from, s.path].filter(Boolean).join(' \u00b7 ')]);
  for (const [stage, why] of Object.entries(of.missing ?? {})) rows.push([stage, `not there: ${why}`]);
  for (const why of of.lacking ?? []) rows.push(['not known', why]);
  section('What this is', pairs(rows));
  const rec = [['recording', `${index.name} \u00b7 ${index.heading}`], index.command && ['command', index.command], index.started && ['started', index.started],
    index.tools.length && ['with', index.tools.map((t) => t.join(' ')).join(', ')], index.verified && ['verified', index.verified], ['page by', index.made_by]].filter(Boolean);
  section('The recording', pairs(rec), ...index.problems.map((p) => make('p', { cls: 'hint' }, `! ${p}`)));
  $('facts').replaceChildren(...parts);
}

// -- compare --------------------------------------------------------------------------------------
const comparison = { a: 0, b: null, stage: 'ptx', folded: true };
const SIGNS = ['equal', 'changed', 'unlike', 'deleted', 'inserted', 'away', 'here', 'fold'];
const SIGNED = { equal: [' ', ' '], like: ['\u2248', '\u2248'], changed: ['~', '~'], unlike: ['-', '+'], deleted: ['-', ' '], inserted: [' ', '+'], away: ['\u00bb', ' '], here: [' ', '\u00ab'] };
function nearest(n) {
  const pair = index.pairs.find(([a, b]) => a === n || b === n);
  if (pair) return pair[0] === n ? pair[1] : pair[0];
  const of = index.variants.findIndex((v, m) => m !== n && v.kernel === index.variants[n].kernel);
  return of >= 0 ? of : index.variants.length > 1 ? (n + 1) % index.variants.length : null;
}
async function compare() {
  if (comparison.a !== state.at && comparison.b !== state.at) Object.assign(comparison, { a: state.at, b: nearest(state.at) });
  if (comparison.b === null) return $('compare').replaceChildren(make('p', { cls: 'nothing' }, 'There is one variant alone: nothing to compare it with.'));
  const choice = (side) => make('select', { 'aria-label': `Variant ${side}`, on: { change: (event) => { comparison[side] = Number(event.target.value); compare().then(address); } } },
    ...index.variants.map((v, n) => make('option', { value: n, selected: n === comparison[side] }, `${nameOf(n)}  ${v.id}  ${v.config}`)));
  const [a, b] = await Promise.all([comparison.a, comparison.b].map((n) => block(index.variants[n].block)));
  const common = STAGES.filter((s) => s in (a.stages ?? {}) && s in (b.stages ?? {}));
  if (!common.includes(comparison.stage)) comparison.stage = common.includes('ptx') ? 'ptx' : common.at(-1);
  const stages = make('select', { 'aria-label': 'Stage', on: { change: (event) => { comparison.stage = event.target.value; compare().then(address); } } },
    ...common.map((s) => make('option', { value: s, selected: s === comparison.stage }, s)));
  const fold = make('button', { type: 'button', 'aria-pressed': comparison.folded, on: { click: () => { comparison.folded = !comparison.folded; compare(); } } }, 'fold what is equal');
  const swap = make('button', { type: 'button', title: 'Change sides', on: { click: () => { [comparison.a, comparison.b] = [comparison.b, comparison.a]; compare().then(address); } } }, '\u21c4');
  const outcome = make('div', { cls: 'outcome' }), box = make('div', { id: 'beside', cls: 'lines beside' });
  $('compare').replaceChildren(make('div', { cls: 'choose' }, 'a', choice('a'), swap, 'b', choice('b'), stages, fold), outcome, box);
  if (!common.length) return outcome.append('They have no stage in common.');
  const texts = await Promise.all([a, b].map((v) => textOf(v.stages[comparison.stage].text)));
  const told = await verdict(a, b, texts);
  outcome.append(make('p', { cls: 'verdict' }, told.verdict), ...told.more);
  besides(box, told.rows, texts);
}
/** What is said of two variants: what diff said where it was asked, else of their texts alone. */
async function verdict(a, b, texts) {
  const { stage } = comparison;
  const pair = index.pairs.find(([x, y, s]) => s === stage && ((x === comparison.a && y === comparison.b) || (y === comparison.a && x === comparison.b)));
  const more = [];
  if (pair && pair[0] === comparison.a) {
    const said = await block(pair[3]);
    if (said.explanation.length) more.push(make('ul', {}, ...said.explanation.map((t) => make('li', {}, t))));
    const changed = said.figures.filter((f) => f[1] !== f[2]), alike = said.figures.filter((f) => f[1] === f[2]);
    more.push(figures(changed));
    if (alike.length) more.push(make('p', { cls: 'quiet' }, `alike: ${alike.map((f) => `${f[0]} ${f[1]}`).join(', ')}`));
    for (const [word, all] of [['gained', said.gained], ['lost', said.lost]]) more.push(...all.map((h) => make('p', {}, `hint ${word}: ${h}`)));
    const rows = said.rows.map(([sign, x, y, m, n]) => ({ sign: SIGNS[sign], a: x, b: y, marks: Array.isArray(m) ? [m, n] : null, other: Array.isArray(m) ? 0 : m }));
    return { verdict: said.identical ? `The ${stage} is the same code: names, .loc and comments do not count.` : `The ${stage} differs.`, more, rows };
  }
  const [v, w] = [comparison.a, comparison.b].map((n) => index.variants[n]);
  const changed = [['registers', v.registers, w.registers], ['spills', v.spills, w.spills], ['shared memory', v.shared, w.shared], ['occupancy', v.occupancy, w.occupancy], ['instructions', v.instructions, w.instructions], ['hints', v.hints, w.hints]]
    .filter(([, x, y]) => x !== y).map(([name, x, y]) => [name, known(x), known(y), Number.isFinite(x) && Number.isFinite(y) ? `${y > x ? '+' : ''}${Math.round((y - x) * 100) / 100}` : DASH]);
  more.push(figures(changed));
  const [x, y] = [a, b].map((side) => side.same?.[stage]);
  const spans = [a, b].map((side) => [side.stages[stage].first, side.stages[stage].last]);
  const same = x && y ? x === y : null;
  const text = same ? `The ${stage} is the same code: names, .loc and comments do not count.` : same === false ? `The ${stage} differs.` : 'Compared as text.';
  const rows = byText(texts[0].lines, texts[1].lines, spans);
  more.push(make('p', { cls: 'quiet' }, `These two were not compared beforehand: their lines are held against each other as text. \u2248 is a line alike but for names and numbers, of which ptxview diff says whether it does the same.`));
  return { verdict: text, more, rows };
}
function figures(rows) {
  if (!rows.length) return null;
  return make('div', { cls: 'wide' }, make('table', {}, make('thead', {}, make('tr', {}, make('th'), make('th', { cls: 'r' }, 'a'), make('th', { cls: 'r' }, 'b'), make('th', { cls: 'r' }, 'change'))),
    make('tbody', {}, ...rows.map(([name, ...cells]) => make('tr', {}, make('td', {}, name), ...cells.map((c) => make('td', { cls: 'r' }, c)))))));
}
/** The skeleton of a line: names and numbers that a compiler chooses anew each time left out. */
const skeleton = (line) => line.trim().replace(/\/\*[0-9a-f]{4,}\*\//g, '').replace(/(%[a-z]+|\bU?[RP]|\$L_?_?[A-Za-z]*|\bBB)_?\d+(_\d+)*/g, '$1#').replace(/\s+/g, ' ');
function byText(left, right, [[a0, a1], [b0, b1]]) {
  const a = left.slice(a0 - 1, a1), b = right.slice(b0 - 1, b1);
  const ids = new Map(), number = (text) => ids.get(text) ?? (ids.set(text, ids.size), ids.size - 1);
  const x = a.map((t) => number(skeleton(t))), y = b.map((t) => number(skeleton(t)));
  const rows = [];
  let i = 0, j = 0;
  const upTo = (m, n) => {  // what stands on one side alone, beside each other as far as it goes
    while (i < m || j < n) {
      if (i < m && j < n) rows.push({ sign: 'unlike', a: a0 + i++, b: b0 + j++ });
      else if (i < m) rows.push({ sign: 'deleted', a: a0 + i++, b: 0 });
      else rows.push({ sign: 'inserted', a: 0, b: b0 + j++ });
    }
  };
  for (const [m, n] of common(x, y)) {
    upTo(m, n);
    rows.push({ sign: a[i] === b[j] ? 'equal' : 'like', a: a0 + i++, b: b0 + j++ });
  }
  upTo(a.length, b.length);
  return rows;
}
/** Places that two sequences have in common, in order (Myers, with an end where they are far apart). */
function common(x, y) {
  let head = 0, tail = 0;
  while (head < x.length && head < y.length && x[head] === y[head]) head++;
  while (tail < x.length - head && tail < y.length - head && x[x.length - 1 - tail] === y[y.length - 1 - tail]) tail++;
  const n = x.length - head - tail, m = y.length - head - tail, most = Math.min(n + m, FARTHEST);
  const out = Array.from({ length: head }, (_, i) => [i, i]);
  const trace = [];
  let v = new Int32Array(2 * most + 3), met = -1;
  for (let d = 0; d <= most && met < 0; d++) {
    trace.push(v.slice());
    for (let k = -d; k <= d; k += 2) {
      let i = k === -d || (k !== d && v[most + k] < v[most + k + 2]) ? v[most + k + 2] : v[most + k] + 1;
      while (i < n && i - k < m && x[head + i] === y[head + i - k]) i++;
      v[most + k + 1] = i;
      if (i >= n && i - k >= m) { met = d; break; }
    }
  }
  const middle = [];
  for (let i = n, j = m, d = met; d >= 0; d--) {
    const was = trace[d], k = i - j;
    const from = k === -d || (k !== d && was[most + k] < was[most + k + 2]) ? k + 1 : k - 1;
    const pi = d ? was[most + from + 1] : 0, pj = d ? pi - from : 0;
    while (i > pi && j > pj) middle.push([head + --i, head + --j]);
    [i, j] = [pi, pj];
  }
  out.push(...middle.reverse());
  for (let t = tail; t > 0; t--) out.push([x.length - t, y.length - t]);
  return out;
}
/** Two texts side by side; stretches of equal lines are folded but for three next to a change. */
function besides(box, rows, texts) {
  let laid = rows;
  if (comparison.folded) {
    laid = [];
    for (let n = 0; n < rows.length;) {
      let end = n;
      while (end < rows.length && rows[end].sign === 'equal') end++;
      const before = n ? 3 : 0, after = end < rows.length ? 3 : 0;
      if (end - n - before - after > 1) {
        laid.push(...rows.slice(n, n + before), { sign: 'fold', rows: rows.slice(n + before, end - after) }, ...rows.slice(end - after, end));
      } else laid.push(...rows.slice(n, end));
      if (end < rows.length) laid.push(rows[end++]);
      n = end;
    }
  }
  const cell = (side, one, sign, cls) => {
    const n = side ? one.b : one.a, held = texts[side];
    if (!n) return make('div');
    const marks = one.marks ? one.marks[side].map(([s, e]) => [s, e, 'u']) : [];
    return make('div', { cls: sign.trim() ? cls : null }, make('span', { cls: 'n' }, String(n)), make('span', { cls: 'g', 'aria-hidden': true }, sign),
      make('span', { title: held.lines[n - 1] }, painted(held.lines[n - 1], held.tokens[n - 1], marks, comparison.stage === 'sass'), one.other ? make('span', { cls: 'quiet' }, `  ${side ? '\u2190' : '\u2192'} ${one.other}`) : ''));
  };
  const view = new Rows(box, { height: ROW, label: `${comparison.stage} of a and b`, build: (n) => {
    const one = laid[n];
    if (one.sign === 'fold') return make('div', { cls: 'd fold' }, `\u2026 ${plural(one.rows.length, 'equal line')}`);
    const signs = SIGNED[one.sign], moved = one.sign === 'away' || one.sign === 'here';
    return make('div', { cls: n === view?.at ? 'd at' : 'd', 'data-sign': one.sign, 'aria-label': `${one.sign} ${one.a ? `a ${one.a}` : ''} ${one.b ? `b ${one.b}` : ''}` },
      cell(0, one, signs[0], moved ? 'moved' : one.sign === 'like' ? 'like' : 'gone'), cell(1, one, signs[1], moved ? 'moved' : one.sign === 'like' ? 'like' : 'new'));
  }, move: (n) => {
    if (laid[n].sign !== 'fold') return;
    laid = [...laid.slice(0, n), ...laid[n].rows, ...laid.slice(n + 1)];
    view.fill(laid.length);
  } });
  view.fill(laid.length);
}

// -- a graph --------------------------------------------------------------------------------------
async function showGraph(n) {
  const turn = ++opened, graph = index.graphs[n];
  Object.assign(state, { kind: 'graph', at: n, variant: null, panes: [] });
  document.title = `graph ${graph.id} \u00b7 ${index.name}`;
  list.at = listed.findIndex((e) => e.kind === 'graph' && e.at === n);
  list.draw(true);
  for (const [name] of VIEWS) $(name).hidden = true;
  $('tabs').hidden = true;
  $('graph').hidden = false;
  $('subject').replaceChildren(make('h2', {}, `graph ${graph.id}`), make('p', { cls: 'sub' }, `${plural(graph.kernels.length, 'kernel')}, in the order of the calls`));
  const of = new Map();
  graph.kernels.forEach((k, i) => k.lines.forEach((line) => of.set(line, i)));
  const table = make('tbody', {}, ...graph.kernels.map((k) => {
    const about = k.at === null ? null : index.kernels[index.variants[k.at].kernel];
    const figures = k.at === null ? null : index.variants[k.at];
    return make('tr', {}, make('td', { cls: 'mono' }, k.at === null ? k.name : make('button', { type: 'button', cls: 'chip', on: { click: () => showVariant(k.at) } }, k.name)),
      make('td', {}, about ? about.ops.join(', ') : ''), make('td', { cls: 'mono' }, about ? about.made_from.map(([file, line]) => `${file.split('/').pop()}:${line}`).join(', ') : ''),
      make('td', { cls: 'r' }, figures ? known(figures.registers) : DASH),
      make('td', {}, ...k.lines.slice(0, 8).map((line) => make('button', { type: 'button', cls: 'chip', on: { click: () => rows?.go(line - 1) } }, String(line)))));
  }));
  const box = make('div', { id: 'graph-lines', cls: 'lines' });
  $('graph').replaceChildren(make('div', { cls: 'kernels' }, make('table', {}, make('thead', {}, make('tr', {}, make('th', {}, 'kernel'), make('th', {}, 'operators'), make('th', {}, 'made from'), make('th', { cls: 'r' }, 'registers'), make('th', {}, 'lines'))), table)), box);
  let rows = null;
  address();
  if (typeof graph.text !== 'number') { box.append(make('p', { cls: 'nothing' }, graph.why ?? graph.text ?? 'its text was not kept')); return; }
  const held = await textOf(graph.text);
  if (turn !== opened) return;
  rows = new Rows(box, { height: ROW, label: `output_code of graph ${graph.id}`, build: (at) => make('div', { cls: ['l', of.has(at + 1) && 'linked', rows && at === rows.at && 'at'].filter(Boolean).join(' ') },
    make('span', { cls: 'n' }, make('s'), make('b', {}, String(at + 1))), make('span', {}, painted(held.lines[at], held.tokens[at]))),
    move: (at) => [...table.children].forEach((tr, i) => tr.classList.toggle('on', of.get(at + 1) === i)),
    open: (at) => { const k = graph.kernels[of.get(at + 1)]; if (k && k.at !== null) showVariant(k.at); } });
  rows.fill(held.lines.length, held.lines.reduce((most, line) => Math.max(most, line.length), 0) + 12);
}

// -- keys, colours, paper -------------------------------------------------------------------------
const KEYS = [
  ['\u2191 \u2193  j k', 'line before, next line; the lines that belong to it are marked in the other panes'],
  ['Enter', 'on a line: to what belongs to it in the next pane; on a kernel: into its code'],
  ['Tab', 'from part to part'], ['[ ]', 'kernel before, next kernel'], ['/', 'search the stage of the pane one is in; n N next match, match before'],
  ['f', 'filter the kernels'], ['1 2 3', 'how many panes'], ['w', 'what each line does, beneath it'], ['c  i  p', 'compare, facts, code'],
  ['t', 'colours: as the system has them, dark, light'], ['?', 'this'], ['Esc', 'back to the lines'],
];
function help() {
  const rows = KEYS.map(([key, what]) => make('tr', {}, make('td', {}, ...key.split(/\s+/).flatMap((k) => [make('kbd', {}, k), ' '])), make('td', {}, what)));
  const marks = [['\u26a0 \u25c6 \u00b7', 'a warning, a hint, a remark'], ['numbers at the left', 'live registers (of PTX virtual ones, of SASS allocated ones), stall cycles, the line'],
    ['~ - + \u00bb \u00ab', 'changed; only in a; only in b; moved, to or from'], ['\u2248', 'alike but for names and numbers, compared as text alone']];
  $('help').replaceChildren(make('h2', { id: 'help-title' }, 'Keys'), make('table', {}, make('tbody', {}, ...rows)), make('h2', {}, 'Marks'),
    make('table', {}, make('tbody', {}, ...marks.map(([m, what]) => make('tr', {}, make('td', { cls: 'mono' }, m), make('td', {}, what))))),
    make('p', { cls: 'quiet' }, `${index.made_by}. The address of this page names the kernel, the stage and the line: it can be sent with the file.`),
    make('form', { method: 'dialog' }, make('button', { on: { click: (event) => { event.preventDefault(); $('help').close(); } } }, 'Close')));
  $('help').showModal();
}
const dark = matchMedia('(prefers-color-scheme: dark)');
function colours() {
  const asked = store.get('theme') ?? 'auto';
  document.documentElement.dataset.theme = asked === 'auto' ? (dark.matches ? 'dark' : 'light') : asked;
  $('theme').textContent = { auto: '\u25d0', dark: '\u25cf', light: '\u25cb' }[asked];
  $('theme').setAttribute('aria-label', `Colours: ${asked}`);
}
function theme() {
  store.set('theme', { auto: 'dark', dark: 'light', light: 'auto' }[store.get('theme') ?? 'auto']);
  colours();
}
const inCode = () => (state.panes[state.here]?.box ?? $('list'));
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $('help').open) return;
  const typing = event.target.matches('input, select, textarea');
  if (event.key === 'Escape') { event.preventDefault(); document.body.classList.remove('listing'); inCode().focus(); return; }
  if (typing) return;
  const run = {
    '/': () => $('search').focus(), f: () => { document.body.classList.add('listing'); $('filter').focus(); }, '?': help, t: theme,
    '[': () => step(-1), ']': () => step(1), n: () => next(1), N: () => next(-1),
    ...(state.kind === 'variant' ? { w: words, 1: () => setPanes(1), 2: () => setPanes(2), 3: () => setPanes(3), c: () => showView('compare'), i: () => showView('facts'), p: () => showView('code') } : {}),
  }[event.key];
  if (run) { event.preventDefault(); run(); }
});
/** On paper a listing is whole. */
function paper(whole) {
  for (const rows of [...Rows.made]) {
    if (!rows.box.isConnected) Rows.made.delete(rows);
    else if (rows !== list) { rows.whole = whole; rows.draw(true); }
  }
}
addEventListener('beforeprint', () => paper(true));
addEventListener('afterprint', () => paper(false));
dark.addEventListener('change', colours);
addEventListener('hashchange', follow);
$('search').addEventListener('input', () => { search(); if (state.hits) everywhere(false); });
$('search').addEventListener('keydown', (event) => { if (event.key === 'Enter') { event.preventDefault(); next(event.shiftKey ? -1 : 1); } });
$('back').addEventListener('click', () => next(-1));
$('forth').addEventListener('click', () => next(1));
$('everywhere').addEventListener('click', () => everywhere($('everywhere').getAttribute('aria-pressed') !== 'true'));
$('filter').addEventListener('input', relist);
$('filter').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' || event.key === 'ArrowDown') { event.preventDefault(); if (listed.length) { list.box.focus(); list.go(Math.max(0, list.at)); } }
});
$('theme').addEventListener('click', theme);
$('ask').addEventListener('click', help);
$('menu').addEventListener('click', () => $('menu').setAttribute('aria-expanded', document.body.classList.toggle('listing')));
$('skip').addEventListener('click', (event) => { event.preventDefault(); inCode().focus(); });

$('name').textContent = index.name;
$('heading').textContent = index.heading;
for (const [what, all] of [['Removed from this page', index.removed], ['Left out of this page', index.left_out]]) {
  if (all.length) $('told').append(make('details', {}, make('summary', {}, `${what}: ${all.length === 1 && all[0].length < 60 ? all[0] : all.map((t) => t.split(/[:(;,]/)[0].trim()).slice(0, 4).join('; ')}`), ...all.map((text) => make('p', {}, text))));
}
$('told').hidden = !(index.removed.length + index.left_out.length);
colours();
tabs();
relist();
follow();
})();
