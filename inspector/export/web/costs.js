// What costs most: the page's first view.

const COLUMNS = [['kernel', 'kernel'], ['launches', 'launches', 'r'], ['\u00b5s', '\u00b5s a launch', 'r'], ['from', 'time from'], ['total', 'total', 'r'],
  ['share', 'share', 'r'], ['', 'of the largest'], ['of step', 'of a step', 'r'], ['bound by', 'bound by'], ['hint', 'hint'], ['registers', 'registers', 'r'], ['spills', 'spills, bytes', 'r']];
const TOOLS = ['torch', 'triton', 'nvcc', 'ptxas', 'driver'];
/** The cell of a column, with figures that the rows of variants have. */
function cellOf(cost, column) {
  const v = index.variants[cost.at];
  if (column === 'registers') return v ? known(v.registers) : DASH;
  if (column === 'spills') return v ? v.spills : DASH;
  return cost[column] ?? '';
}
function showCosts() {
  ++opened;
  Object.assign(state, { kind: 'costs', at: 0, variant: null, panes: [] });
  document.title = index.name;
  list.at = listed.findIndex((e) => e.kind === 'costs');
  list.draw(true);
  for (const [name] of VIEWS) $(name).hidden = true;
  for (const name of ['tabs', 'graph']) $(name).hidden = true;
  $('costs').hidden = false;
  const launched = index.costs.map((cost) => index.variants[cost.at]).filter(Boolean);
  const severe = (severity) => launched.filter((v) => v.worst === severity).length;
  const spilled = launched.filter((v) => v.spills !== '0' && v.spills !== DASH).length;
  const tiles = [
    index.device && tile('device', index.device),
    ...index.tools.filter(([name]) => TOOLS.includes(name)).sort((a, b) => TOOLS.indexOf(a[0]) - TOOLS.indexOf(b[0])).map(([name, version]) => tile(name, version)),
    tile('kernels', known(index.kernels.length), plural(index.variants.length, 'variant')),
    tile('variants that spill', known(spilled), `of ${known(launched.length)} launched`, spilled > 0),
    tile('variants with hints', known(launched.filter((v) => v.hints).length), `${known(severe('warn'))} with warnings`),
  ];
  $('subject').replaceChildren(make('h2', {}, 'Kernels by cost'), make('ul', { cls: 'tiles' }, ...tiles));
  const columns = COLUMNS.filter(([column]) => index.costs.some((cost) => ![DASH, ''].includes(cellOf(cost, column))));
  const named = new Map();
  for (const cost of index.costs) named.set(cost.kernel, (named.get(cost.kernel) ?? 0) + 1);
  const row = (cost) => {
    const v = index.variants[cost.at];
    const name = v ? make('a', { href: `#${encodeURIComponent(keyOf(cost.at))}`, title: fullOf(cost.at) }, cost.kernel) : cost.kernel;
    return make('tr', {}, ...columns.map(([column, , cls]) => make('td', { cls }, ...(column === 'kernel' ? [v && won(v) ? star() : null, name, v ? make('span', { cls: 'quiet' }, `${v.id} ${named.get(cost.kernel) > 1 ? v.config : ''}`) : null] : [cellOf(cost, column)]))));
  };
  $('costs').replaceChildren(
    make('p', {}, index.cost_title),
    make('div', { cls: 'wide' }, make('table', {}, make('thead', {}, make('tr', {}, ...columns.map(([, head, cls]) => make('th', { cls }, head)))), make('tbody', {}, ...index.costs.map(row)))),
    ...index.footnotes.map((text) => make('p', { cls: 'quiet' }, text)),
    ...timelinePicture(),
    launched.some(won) ? make('p', { cls: 'quiet' }, star(), 'the fastest candidate of an autotuner') : '',
    ...upgradeReport());
  address();
}
/** What another compiler changed, where the recording has a report of it. */
function upgradeReport() {
  const report = index.upgrade;
  if (!report) return [];
  const table = (heads, rows) => make('div', { cls: 'wide' }, make('table', {}, make('thead', {}, make('tr', {}, ...heads.map(([head, cls]) => make('th', { cls }, head)))), make('tbody', {}, ...rows)));
  const link = (at, name) => (at === null ? name : make('a', { href: `#${encodeURIComponent(keyOf(at))}`, title: fullOf(at) }, name));
  const edit = ([what, variants, places]) => make('tr', {}, make('td', { cls: 'mono' }, what), make('td', { cls: 'r' }, known(variants)), make('td', { cls: 'r' }, known(places)));
  const row = ({ at, cells: [name, ...cells] }) => make('tr', {}, make('td', {}, link(at, name)), ...cells.map((cell, n) => make('td', { cls: n > 1 ? 'r' : '' }, cell)));
  const folded = (title, content) => make('details', {}, make('summary', {}, title), content);
  return [make('h3', {}, 'Upgrade'), ...report.headings.map((text) => make('p', {}, text)),
    ...report.failed.map((text) => make('p', { cls: 'warn' }, text)),
    ...report.sentences.map((text) => make('p', {}, text)),
    report.edits.length ? folded(plural(report.edits.length, 'edit'), table(report.edit_heads.map((head, n) => [head, n ? 'r' : '']), report.edits.map(edit))) : '',
    report.rows.length ? folded(plural(report.rows.length, 'changed variant'), table(report.heads.map((head, n) => [head, n > 2 ? 'r' : '']), report.rows.map(row))) : ''];
}
