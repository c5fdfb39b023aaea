// Two variants side by side, and a graph with its kernels.

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
    ...index.variants.map((v, n) => make('option', { value: n, selected: n === comparison[side] }, `${titleOf(n)}  ${v.id}  ${v.config}`)));
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
  besides(box, told.rows, texts, [a, b].map((v) => v.stages[comparison.stage].path));
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
    more.push(...said.hints.map(([word, text]) => make('p', {}, `hint ${word}: ${text}`)));
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
  const said = same ? `The ${stage} is the same code: names, .loc and comments do not count.` : same === false ? `The ${stage} differs.` : 'Compared as text.';
  const rows = byText(texts[0].lines, texts[1].lines, spans);
  more.push(make('p', { cls: 'quiet' }, `These two were not compared beforehand: their lines are held against each other as text. \u2248 is a line alike but for names and numbers, of which ptxview diff says whether it does the same.`));
  return { verdict: said, more, rows };
}
function figures(rows) {
  if (!rows.length) return null;
  return make('div', { cls: 'wide' }, make('table', {}, make('thead', {}, make('tr', {}, make('th', {}, 'figure'), make('th', { cls: 'r' }, 'a'), make('th', { cls: 'r' }, 'b'), make('th', { cls: 'r' }, 'change'))),
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
      if (i < m && j < n) rows.push(besideOneAnother(a[i], b[j], a0 + i++, b0 + j++));
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
/** Two lines at one place: one that became the other where they begin alike, with what differs. */
function besideOneAnother(one, other, a, b) {
  const [word] = /\S*/.exec(one.trim());
  if (word === '' || word !== /\S*/.exec(other.trim())[0]) return { sign: 'unlike', a, b };
  let head = 0, tail = 0;
  while (head < one.length && one[head] === other[head]) head++;
  while (tail < Math.min(one.length, other.length) - head && one.at(-1 - tail) === other.at(-1 - tail)) tail++;
  return { sign: 'changed', a, b, marks: [[[head, one.length - tail]], [[head, other.length - tail]]] };
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
function besides(box, rows, texts, paths) {
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
      make('span', { title: held.lines[n - 1] }, painted(held.lines[n - 1], coloured(held, comparison.stage, paths[side])[n - 1], marks, comparison.stage === 'sass'), one.other ? make('span', { cls: 'quiet' }, `  ${side ? '\u2190' : '\u2192'} ${one.other}`) : ''));
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
  let shown = 0;
  const turn = ++opened, graph = index.graphs[n];
  Object.assign(state, { kind: 'graph', at: n, variant: null, panes: [] });
  document.title = `graph ${graph.id} \u00b7 ${index.name}`;
  list.at = listed.findIndex((e) => e.kind === 'graph' && e.at === n);
  list.draw(true);
  for (const [name] of VIEWS) $(name).hidden = true;
  for (const name of ['tabs', 'costs']) $(name).hidden = true;
  $('graph').hidden = false;
  $('subject').replaceChildren(make('h2', {}, `graph ${graph.id}`), make('p', { cls: 'sub' }, `${plural(graph.kernels.length, 'kernel')}, in the order of the calls`, graph.why ? make('span', { cls: 'warn' }, ` \u00b7 \u2717 ${graph.why}`) : ''));
  let rows = null, of = new Map();
  const table = make('tbody', {}, ...graph.kernels.map((k) => {
    const about = k.at === null ? null : index.kernels[index.variants[k.at].kernel];
    const figures = k.at === null ? null : index.variants[k.at];
    return make('tr', {}, make('td', { cls: 'mono' }, k.at === null ? k.name : make('button', { type: 'button', cls: 'chip', title: k.name, on: { click: () => showVariant(k.at) } }, titleOf(k.at))),
      make('td', {}, about ? about.ops.join(', ') : ''), make('td', { cls: 'mono' }, about ? about.made_from.map(([file, line]) => `${file.split('/').pop()}:${line}`).join(', ') : ''),
      make('td', { cls: 'r' }, figures ? known(figures.registers) : DASH),
      make('td', {}, ...k.lines.slice(0, 8).map((line) => make('button', { type: 'button', cls: 'chip', on: { click: () => show('output_code', line) } }, String(line)))));
  }));
  const box = make('div', { id: 'graph-lines', cls: 'lines' });
  const tabs = make('div', { cls: 'stages', role: 'group', 'aria-label': 'Stages of the graph' }, ...graph.texts.map((t) => make('button', { type: 'button', cls: 'chip', 'data-stage': t.stage, on: { click: () => show(t.stage) } }, t.stage)));
  $('graph').replaceChildren(make('div', { cls: 'kernels' }, make('table', {}, make('thead', {}, make('tr', {}, make('th', {}, 'kernel'), make('th', {}, 'operators'), make('th', {}, 'made from'), make('th', { cls: 'r' }, 'registers'), make('th', {}, 'lines'))), table)), tabs, box);
  address();
  await show(graph.texts.findLast((t) => typeof t.text === 'number')?.stage ?? 'output_code');

  async function show(stage, line = 0) {
    const one = graph.texts.find((t) => t.stage === stage), mine = ++shown;
    for (const tab of tabs.children) tab.setAttribute('aria-pressed', String(tab.dataset.stage === stage));
    if (typeof one?.text !== 'number') { box.replaceChildren(make('p', { cls: 'nothing' }, one?.text ?? 'its text was not kept')); rows = null; return; }
    const held = await textOf(one.text);
    if (turn !== opened || mine !== shown) return;
    of = new Map(one.of);
    box.replaceChildren();
    rows = new Rows(box, { height: ROW, label: `${stage} of graph ${graph.id}`, build: (at) => make('div', { cls: ['l', of.has(at + 1) && 'linked', rows && at === rows.at && 'at'].filter(Boolean).join(' ') },
      make('span', { cls: 'n' }, make('s'), make('b', {}, String(at + 1))), make('span', {}, painted(held.lines[at], coloured(held, stage)[at]))),
      move: (at) => [...table.children].forEach((tr, i) => tr.classList.toggle('on', !!of.get(at + 1)?.includes(i))),
      open: (at) => { const k = graph.kernels[of.get(at + 1)?.[0]]; if (k && k.at !== null) showVariant(k.at); } });
    rows.fill(held.lines.length, held.lines.reduce((most, line) => Math.max(most, line.length), 0) + 12);
    if (line) rows.go(line - 1);
  }
}
