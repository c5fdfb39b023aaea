// Keys, colours, paper; and how it begins.

// -- keys, colours, paper -------------------------------------------------------------------------
const KEYS = [
  ['\u2191 \u2193  j k', 'line before, next line; the lines that belong to it are marked in the other panes'],
  ['Enter', 'on a line: to what belongs to it in the next pane; on a kernel: into its code'],
  ['Tab', 'from part to part'], ['[ ]', 'kernel before, next kernel'], ['$', 'kernels by cost'], ['/', 'search the stage of the pane one is in; n N next match, match before'],
  ['f', 'filter the kernels'], ['1 2 3', 'how many panes'], ['w', 'what each line does, beneath it'], ['c  i  p', 'compare, facts, code'],
  ['t', 'colours: as the system has them, dark, light'], ['?', 'this'], ['Esc', 'back to the lines'],
];
function help() {
  const rows = KEYS.map(([key, what]) => make('tr', {}, make('td', {}, ...key.split(/\s+/).flatMap((k) => [make('kbd', {}, k), ' '])), make('td', {}, what)));
  const marks = [['\u26a0 \u25c6 \u00b7', 'a warning, a hint, a remark'], ['\u2605', 'the fastest candidate of an autotuner'], ['numbers at the left', 'live registers (of PTX virtual ones, of SASS allocated ones), stall cycles, the line'],
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
    $: showCosts, '[': () => step(-1), ']': () => step(1), n: () => next(1), N: () => next(-1),
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
