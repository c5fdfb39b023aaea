// The list of kernels, and one of them: its panes, what is searched for in them, its facts.

// -- where one is ---------------------------------------------------------------------------------
const state = {
  kind: 'none', at: -1, variant: null, view: 'code', panes: [], here: 0, words: store.get('words') === '1',
  query: '', hits: null, stages: null,
};
const row = () => index.variants[state.at];
const nameOf = (n) => index.kernels[index.variants[n].kernel].name;
const titleOf = (n) => index.kernels[index.variants[n].kernel].title;
/** A kernel's names in full, where they say more than its title. */
const fullOf = (n) => { const k = index.kernels[index.variants[n].kernel]; return [...new Set([k.name, k.demangled])].filter((name) => name && name !== k.title).join(' \u00b7 '); };
/** Kernels whose winner was launched: of several rounds of tuning the others' are not marked. */
const WON = new Set(index.variants.filter((v) => v.won && v.launches).map((v) => v.kernel));
const won = (v) => v.won && (v.launches || !WON.has(v.kernel));
const star = () => make('span', { cls: 'star', title: 'the fastest candidate of an autotuner' }, '\u2605 ');
const tile = (label, value, note, bad) => make('li', { cls: bad ? 'bad' : null },
  make('span', { cls: 'label' }, label), make('span', { cls: 'value' }, value), note ? make('span', { cls: 'note' }, note) : null);
/** Whether the page has a view of all kernels, which has the report of an upgrade, too. */
const HAS_OVERVIEW = index.kernels.length > 1 || Boolean(index.upgrade);
const LAUNCHES = new Map(index.costs.map((cost) => [cost.at, cost.launches]));
const ANY_LAUNCHED = index.variants.some((v) => v.launches);
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
  if (state.kind === 'costs') to = 'costs';
  else if (state.kind === 'graph') to = `graph/${part(index.graphs[state.at].id)}`;
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
  if (n < 0) return HAS_OVERVIEW ? showCosts() : index.variants.length ? showVariant(0) : index.graphs.length ? showGraph(0) : showNothing();
  if (parts[1] === 'facts') return showVariant(n, { view: 'facts' });
  const stage = STAGES.includes(parts[1]) ? parts[1] : null;
  const stages = (parts[3] ?? '').split('+').filter((s) => STAGES.includes(s));
  return showVariant(n, { view: 'code', stage, line: Number(parts[2]) || 0, stages: stages.length ? stages : null });
}

// -- the list of kernels --------------------------------------------------------------------------
const entries = [
  ...(HAS_OVERVIEW ? [{ kind: 'costs', at: 0, text: 'costs' }] : []),
  ...index.graphs.map((g, n) => ({ kind: 'graph', at: n, text: `graph ${g.id} ${g.kernels.map((k) => k.name).join(' ')}` })),
  ...index.variants.map((v, n) => {
    const k = index.kernels[v.kernel];
    return { kind: 'variant', at: n, text: [k.title, k.name, k.demangled, k.origin, ...k.ops, v.id, v.config, v.target].join(' ') };
  }),
].map((e) => ({ ...e, text: e.text.toLowerCase() }));
// Kernels by cost, and of each the variants that were launched first.
const ranks = new Map();
index.costs.forEach(({ at }, n) => { if (index.variants[at] && !ranks.has(index.variants[at].kernel)) ranks.set(index.variants[at].kernel, n); });
const rankOf = ({ kind, at }) => (kind === 'variant' ? ranks.get(index.variants[at].kernel) ?? index.costs.length + index.variants[at].kernel : -1);
const idle = ({ kind, at }) => kind === 'variant' && !index.variants[at].launches;
entries.sort((a, b) => rankOf(a) - rankOf(b) || idle(a) - idle(b));
let listed = entries;
function item(n) {
  const { kind, at } = listed[n];
  if (kind === 'costs') return make('div', { cls: 'item' }, make('span', { cls: 'what' }, 'Kernels by cost'), make('span', { cls: 'how' }, `${plural(index.costs.length, 'row')}, the most expensive first`));
  if (kind === 'graph') {
    const graph = index.graphs[at];
    return make('div', { cls: 'item', title: graph.id },
      make('span', { cls: 'what' }, `graph ${graph.id}`), make('span', { cls: 'origin' }, 'graph'),
      make('span', { cls: 'how' }, plural(graph.kernels.length, 'kernel')));
  }
  const v = index.variants[at], k = index.kernels[v.kernel];
  const before = n > 0 && listed[n - 1].kind === 'variant' && index.variants[listed[n - 1].at].kernel === v.kernel;
  const figures = [v.id, v.launches ? `launches ${LAUNCHES.get(at) ?? known(v.launches)}` : ANY_LAUNCHED ? 'not launched' : '', v.failed ? '\u2717 failed' : '', before ? '' : v.config, v.registers === null ? '' : `${v.registers} regs`, v.spills !== '0' && v.spills !== DASH ? `spills ${v.spills}` : '', v.time ? v.time.text : ''];
  const many = state.hits?.get(at);
  return make('div', { cls: before ? 'item more' : 'item', title: `${k.demangled ?? k.name}\n${v.id} ${v.config}` },
    make('span', { cls: 'what' }, won(v) ? star() : '', before ? v.config || v.id : k.title),
    many ? make('span', { cls: 'mark' }, plural(many, 'match').replace(/hs$/, 'hes'))
      : v.hints ? make('span', { cls: `mark ${v.worst}` }, `${MARKS[v.worst]} ${plural(v.hints, 'hint')}`) : null,
    make('span', { cls: 'how' }, figures.filter(Boolean).join(' \u00b7 ')),
    make('span', { cls: 'origin' }, k.origin));
}
const list = new Rows($('list'), { height: ITEM, label: 'Kernels', build: item, move: (n) => pick(listed[n]), open: () => state.panes[0]?.rows.box.focus() });
function pick(entry) {
  document.body.classList.remove('listing');
  $('menu').setAttribute('aria-expanded', 'false');
  if (entry.kind === state.kind && entry.at === state.at) return;
  if (entry.kind === 'costs') showCosts(); else if (entry.kind === 'graph') showGraph(entry.at); else showVariant(entry.at, { view: state.kind === 'variant' ? state.view : 'code' });
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
  if (typeof variant.links === 'number') variant.links = await block(variant.links);
  if (turn !== opened) return;
  Object.assign(state, { kind: 'variant', at: n, variant });
  document.title = `${titleOf(n)} \u00b7 ${index.name}`;
  list.at = listed.findIndex((e) => e.kind === 'variant' && e.at === n);
  if (list.at >= 0) list.show(list.at);
  list.draw(true);
  subject();
  hints();
  for (const other of ['costs', 'graph']) $(other).hidden = true;
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
  const v = row(), k = index.kernels[v.kernel], cost = index.costs.find((one) => one.at === state.at);
  const spilled = v.spills !== '0' && v.spills !== DASH;
  const tiles = [
    tile('registers', known(v.registers), 'a thread'),
    tile('spills', v.spills, spilled ? 'bytes stored/loaded' : '', spilled),
    tile('shared memory', v.shared, 'bytes'),
    tile('occupancy', v.occupancy === null ? DASH : `${v.occupancy} %`, v.limiters.length ? `limited by ${v.limiters.join(' and ')}` : v.unknown),
    tile('instructions', known(v.instructions), v.counted),
    v.time && tile('time', v.time.text, v.time.mean),
    v.tuned && tile('tuned', v.tuned, 'the tuner\u2019s'),
    v.launches !== null && tile('launches', cost?.launches || known(v.launches), ''),
    cost && cost.share !== DASH && tile('share of the run', cost.share, `${cost.total} in all`),
    cost && cost['bound by'] && tile('bound by', cost['bound by']),
  ];
  $('subject').replaceChildren(
    make('h2', {}, won(v) ? star() : '', k.title),
    make('p', { cls: 'sub full mono' }, fullOf(state.at)),
    make('p', { cls: 'sub' }, make('a', { href: `#${encodeURIComponent(keyOf(state.at))}`, title: 'Link to this variant' }, v.id), ` ${[v.target, v.config, k.origin].filter(Boolean).join(' \u00b7 ')}`,
      k.ops.length ? ` \u00b7 ${k.ops.join(', ')}` : '', v.failed ? make('span', { cls: 'warn' }, ` \u00b7 \u2717 ${v.failed}`) : ''),
    make('ul', { cls: 'tiles' }, ...tiles));
}
function chip(stage, line) {
  return make('button', { cls: 'chip', type: 'button', title: `Go to line ${line} of ${stage}`, on: { click: () => goTo(stage, line) } }, `${stage} ${line}`);
}
function hints() {
  if (row().hints === null) return $('hints').replaceChildren(make('p', { cls: 'quiet' }, `${row().launches ? 'A library\u2019s kernel without a time' : 'A variant that was never launched'}: this page has its figures, source and PTX alone. ptxview export PATH KERNEL has the rest.`));
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
  if (view === 'facts') await facts();
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
/** Lines of each stage that are no code: a pane folds them until they are asked for. */
const ASIDE = {
  ttir: /^#loc\d*\s*=/, ttgir: /^#loc\d*\s*=/, llir: /^(?:!\d+\s*=|!llvm|attributes #|source_filename|target )/,
  ptx: /^\s*(?:\.(?:loc|file|section|b8|b16|b32|b64)\b|\$L__(?:tmp|func_(?:begin|end))\d+:)/,
  sass: /^\s*\.(?:section\w*|align|headerflags|elftype|global|weak|type|size|other)\b/,
};
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
    this.heads = make('div', { cls: 'heads', 'aria-hidden': true });
    this.folded = make('button', { type: 'button', cls: 'folded', title: 'Show or fold directives, locations and other lines that are no code', on: { click: () => this.fold(!this.whole) } });
    this.whole = store.get('directives') === '1';
    this.box = make('div', { id: `pane${this.id}`, cls: 'lines' });
    this.element = make('article', { cls: 'pane' },
      make('header', {}, this.select, this.path, this.folded,
        make('button', { type: 'button', cls: 'copy', title: 'Copy this stage', on: { click: (event) => this.copy(event.target) } }, 'copy')),
      this.heads, this.box, this.reading);
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
    this.count = (figures, n) => figures?.[n - told.from] ?? null;
    for (const [n, rule, severity, text] of told.notes) this.notes.set(n, [...(this.notes.get(n) ?? []), { rule, severity, text }]);
    this.peaks = new Set(told.peaks);
    for (const [name, figures] of [['--live', told.live], ['--stall', told.stall], ['--number', [held.lines.length]]]) {
      const most = (figures ?? []).reduce((m, v) => Math.max(m, v ?? 0), 0);
      this.element.style.setProperty(name, `${Math.max(6, String(most).length + 1)}ch`);
    }
    this.heads.replaceChildren(make('span', { cls: 'n' }, make('s'), told.live ? make('i', {}, 'live') : '', told.stall ? make('i', { cls: 'stall' }, 'stall') : '', make('b', {}, 'line')));
    this.wide = held.lines.reduce((most, line) => Math.max(most, line.length), 0) + 24;
    this.select.value = this.stage;
    this.path.textContent = [of.path?.split('/').pop(), of.from].filter(Boolean).join(' \u00b7 ');
    this.path.title = [of.path, of.from].filter(Boolean).join(' \u00b7 ');
    this.box.setAttribute('aria-label', `${this.stage} of ${row() ? titleOf(state.at) : ''}`);
    this.lay();
    this.read();
    if (!this.line) this.rows.box.scrollTop = Math.max(0, this.rowOf(of.first) - 1) * ROW;
  }
  /** The rows: lines but for folded ones, and beneath each what is said of it where that is shown. */
  lay() {
    this.order = [];
    this.places = [];
    const { lines } = this.held, aside = ASIDE[this.stage];
    let folded = 0;
    for (let n = 1; n <= lines.length; n++) {
      this.places[n] = this.order.length;
      const quiet = aside?.test(lines[n - 1]) && !this.notes.has(n);
      folded += quiet ? 1 : 0;
      if (quiet && !this.whole) continue;
      this.order.push({ n });
      if (!state.words) continue;
      for (const note of this.notes.get(n) ?? []) this.order.push({ n, note });
      const said = /^\s*(?:\.loc|\$L__tmp|\$L__func)/.test(lines[n - 1]) ? '' : this.told.said[n];
      if (said) for (const text of said.split('\n')) this.order.push({ n, text });
    }
    this.folded.hidden = !folded;
    this.folded.textContent = `${plural(folded, 'directive')} ${this.whole ? 'shown' : 'folded'}`;
    this.folded.setAttribute('aria-pressed', this.whole);
    this.rows.at = this.line ? this.rowOf(this.line) : -1;
    this.rows.fill(this.order.length, this.wide);
  }
  /** Show or fold what is no code; the same line stays in view. */
  fold(whole, keep = true) {
    const top = this.line || (this.order[Math.floor(this.box.scrollTop / ROW)]?.n ?? 1);
    this.whole = whole;
    if (keep) store.set('directives', whole ? '1' : '0');
    this.lay();
    this.rows.show(this.rowOf(top));
  }
  rowOf(n) { return Math.min(this.places[n] ?? 0, this.order.length - 1); }
  build(place) {
    const { n, text, note } = this.order[place];
    if (text || note) {
      const indent = /^\s*/.exec(this.held.lines[n - 1])[0];
      return make('div', { cls: note ? `l words note ${note.severity}` : 'l words' }, this.gutter(n, false), `${this.stage === 'sass' ? '' : indent}\u2514 ${note ? `${MARKS[note.severity]} ${note.rule}: ${note.text}` : text}`);
    }
    const line = this.held.lines[n - 1];
    const cls = ['l', n === this.line && 'at', this.marked.has(n) && 'linked', (n < this.of.first || n > this.of.last) && 'out'].filter(Boolean).join(' ');
    return make('div', { cls, 'data-line': n }, this.gutter(n, true),
      make('span', {}, painted(line, coloured(this.held, this.stage, this.of.path)[n - 1], this.found(line), this.stage === 'sass', this.of.names)));
  }
  gutter(n, figures) {
    const { live, stall } = this.told;
    const notes = figures ? this.notes.get(n) : null;
    const count = figures ? this.count(live, n) ?? '' : '';
    const registers = live ? make('i', { cls: this.peaks.has(n) ? 'live peak' : 'live', title: count === '' ? null : `${count} live registers` }, count) : null;
    const wait = figures ? this.count(stall, n) ?? '' : '';
    const cycles = stall ? make('i', { cls: 'stall', title: wait === '' ? null : `stall ${wait}` }, wait) : null;
    return make('span', { cls: 'n', 'aria-hidden': !figures },
      notes ? make('s', { cls: notes[0].severity, title: notes.map((x) => `${x.rule}: ${x.text}`).join('\n') }, MARKS[notes[0].severity]) : make('s'),
      registers, cycles,
      make('b', {}, figures ? make('a', { href: `#${encodeURIComponent(keyOf(state.at))}/${this.stage}/${n}`, tabindex: -1, title: 'Link to this line' }, String(n)) : ''));
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
    this.line = this.order[place].n;
    here(this);
    relight();
    address();
  }
  goTo(line, focus = false) {
    this.line = Math.max(1, Math.min(line, this.held.lines.length));
    if (focus) this.box.focus({ preventScroll: true });
    if (this.order[this.places[this.line]]?.n !== this.line) this.fold(true, false);
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
      const [count, wait] = [this.count(live, n), this.count(stall, n)];
      if (count !== null) parts.push(make('span', { cls: 'quiet' }, ` \u00b7 ${count} live registers`));
      if (wait !== null) parts.push(make('span', { cls: 'quiet' }, ` \u00b7 stall ${wait}`));
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
    $('panes').replaceChildren(make('p', { cls: 'nothing' }, state.variant.why ?? `This page has no text of it. ${why.map(([s, w]) => `${s}: ${w}`).join('; ')}`));
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
    pane.fold(pane.whole, false);
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
async function facts() {
  const v = row(), k = index.kernels[v.kernel], of = state.variant;
  const rounds = Number.isInteger(of.tunings) ? await block(of.tunings) : [];
  if (of !== state.variant) return;
  const parts = [];
  const section = (title, ...what) => what.length && parts.push(make('h3', {}, title), ...what.filter(Boolean));
  const pairs = (rows) => make('dl', {}, ...rows.flatMap(([name, value]) => [make('dt', { cls: name.startsWith(' ') ? 'in' : null }, name.trim()), make('dd', {}, value)]));
  if (of.card) section('Card', pairs(of.card), ...(of.pictures ?? []).map(drawn));
  if (rounds.length) section('Tuning', ...rounds.map((round) => make('div', {}, make('p', { cls: 'quiet' }, round.about), drawn(round.picture), ...round.remarks.map((text) => make('p', { cls: 'quiet' }, text)))));
  for (const mix of of.mix ?? []) {
    const colours = mix.costs.map((_, n) => `var(--bar${(n % 6) + 1})`);
    section(`${mix.stage}: ${plural(mix.total, 'instruction')}`,
      make('div', { cls: 'mix', role: 'img', 'aria-label': mix.costs.map(([c, n]) => `${c} ${n}`).join(', ') },
        ...mix.costs.map(([cost, n], i) => make('span', { title: `${cost}: ${n}`, style: { flex: String(n), background: colours[i] } }))),
      make('ul', { cls: 'keyed' }, ...mix.costs.map(([cost, n], i) => make('li', { style: { '--of': colours[i] } }, `${cost} ${n}`)), mix.unclassed ? make('li', {}, `not classed ${mix.unclassed}`) : null),
      make('p', { cls: 'mono quiet' }, mix.opcodes.map(([o, n]) => `${o} ${n}`).join('   '), mix.opcodes_in_all > mix.opcodes.length ? `   and ${mix.opcodes_in_all - mix.opcodes.length} more` : ''));
  }
  if (v.time) section('Time', make('p', {}, `${v.time.text} ${v.time.mean}`), v.time.how ? make('p', { cls: 'quiet' }, v.time.how) : null);
  if (of.calls?.length) {
    section('Calls', make('div', { cls: 'wide' }, make('table', {}, make('thead', {}, make('tr', {}, make('th', { cls: 'r' }, 'times'), make('th', {}, 'what it was given'))),
      make('tbody', {}, ...of.calls.map((c) => make('tr', {}, make('td', { cls: 'r' }, known(c.count)), make('td', {}, c.what.join(', '))))))));
  }
  if (k.made_from.length) section('Made from', make('table', {}, make('thead', {}, make('tr', {}, ...['line', 'code', 'operators'].map((head) => make('th', {}, head)))), make('tbody', {}, ...k.made_from.map(([file, line, code, targets]) => make('tr', {}, make('td', { cls: 'mono' }, `${file}:${line}`), make('td', { cls: 'mono' }, code), make('td', {}, targets.join(', ')))))));
  const rows = [['kernel', k.demangled ?? k.name], ['name', k.name], ['origin', k.origin], ['hash', of.hash ?? DASH], ['configuration', v.config || DASH]];
  if (Object.keys(of.signature ?? {}).length) rows.push(['signature', Object.entries(of.signature).map(([n, t]) => `${n}: ${t}`).join(', ')]);
  if (of.flags?.length) rows.push(['flags', of.flags.join(' ')]);
  for (const [stage, s] of Object.entries(of.stages ?? {})) rows.push([stage, [`${plural(s.lines, 'line')}`, s.from, s.path].filter(Boolean).join(' \u00b7 ')]);
  for (const [stage, why] of Object.entries(of.missing ?? {})) rows.push([stage, `not there: ${why}`]);
  for (const why of of.lacking ?? []) rows.push(['not known', why]);
  section('What this is', pairs(rows));
  const rec = [['recording', `${index.name} \u00b7 ${index.heading}`], index.command && ['command', index.command], index.started && ['started', index.started],
    index.tools.length && ['with', index.tools.map((t) => t.join(' ')).join(', ')], ['page by', index.made_by]].filter(Boolean);
  section('The recording', pairs(rec), ...index.problems.map((p) => make('p', { cls: 'hint' }, `! ${p}`)));
  $('facts').replaceChildren(...parts);
}
