// Pictures by the models that `--json` prints: rows of dots or slots, and plots of lines and points.

const PICTURE_WIDTH = 900, ROW_HEIGHT = 20, PICTURE_TOP = 26, LABEL_ROOM = 260, TEXT_ROOM = 255, PLOT_HEIGHT = 300;
const marked = (cls, text, x, y, anchor = 'start') => draw('text', { class: cls, x, y, 'text-anchor': anchor }, text);
const titled = (element, text) => { element.append(draw('title', {}, text)); return element; };
const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);
const figureOf = (value) => Number(value.toPrecision(3)).toLocaleString('en', { maximumFractionDigits: 6 });
/** Where a value of an axis is between two ends in pixels; beyond the axis is its end. */
function scaleOf(axis, first, last) {
  const of = axis.log ? Math.log10 : (value) => value;
  const low = of(axis.low), high = of(axis.high);
  return (value) => first + (Math.max(0, Math.min((of(value) - low) / (high - low || 1), 1)) * (last - first));
}
/** Dots with their bands of noise, over the values that do not differ from the best. */
function dots(picture, x, height) {
  const parts = [];
  if (picture.band) {
    const [from, to] = picture.band.map(x);
    parts.push(draw('rect', { class: 'tie', x: from, y: PICTURE_TOP - 6, width: Math.max(to - from, 1), height: height - PICTURE_TOP + 4 }));
  }
  picture.rows.forEach((row, n) => {
    const y = PICTURE_TOP + n * ROW_HEIGHT + 6, beyond = row.value > picture.axis.high;
    if (row.low !== null && row.high !== null && !beyond) parts.push(draw('line', { class: 'noise', x1: x(row.low), x2: x(row.high), y1: y, y2: y }));
    const place = x(row.value);
    const sign = beyond ? draw('path', { d: `M${place - 7},${y - 5}L${place},${y}L${place - 7},${y + 5}Z`, class: row.role }) : draw('circle', { cx: place, cy: y, r: 4.5, class: row.role });
    parts.push(titled(sign, `${row.label}: ${row.text}`));
  });
  return parts;
}
/** Slots that are filled from the left, a gap between groups. */
function slots(picture, x) {
  const parts = [], last = picture.axis.high;
  picture.rows.forEach((row, n) => {
    const y = PICTURE_TOP + n * ROW_HEIGHT - 1;
    for (let slot = 0; slot < last; slot++) {
      const ends = (slot + 1) % row.group === 0 && slot < row.value;
      const width = x(slot + 1) - x(slot) - (ends && row.group > 1 ? 2.2 : 0.8);
      const filled = slot < row.value;
      parts.push(titled(draw('rect', { class: filled ? row.role : 'free', x: x(slot), y, width, height: ROW_HEIGHT - 6 }), `${row.label}: ${row.text}`));
    }
  });
  return parts;
}
function rowPicture(picture) {
  const height = PICTURE_TOP + picture.rows.length * ROW_HEIGHT + 4;
  const x = scaleOf(picture.axis, LABEL_ROOM, PICTURE_WIDTH - TEXT_ROOM);
  const parts = [
    marked('', figureOf(picture.axis.low), x(picture.axis.low), 12),
    marked('', `${figureOf(picture.axis.high)} ${picture.axis.unit}`, x(picture.axis.high), 12, 'end'),
    draw('line', { x1: x(picture.axis.low), x2: x(picture.axis.high), y1: 16, y2: 16 }),
    ...(picture.form === 'dots' ? dots(picture, x, height) : slots(picture, x)),
  ];
  picture.rows.forEach((row, n) => {
    const y = PICTURE_TOP + n * ROW_HEIGHT + 10;
    parts.push(marked(`sign ${row.role}`, row.mark, 0, y));
    parts.push(titled(marked(`name ${row.role}`, short(row.label, 36), 30, y), row.label));
    parts.push(marked(`name ${row.role}`, row.text, PICTURE_WIDTH - TEXT_ROOM + 12, y));
  });
  return [height, parts];
}
/** Lines and points over two axes with ticks at decades. */
function plotPicture(picture) {
  const left = 60, bottom = PLOT_HEIGHT - 34;
  const x = scaleOf(picture.x, left, PICTURE_WIDTH - TEXT_ROOM), y = scaleOf(picture.y, bottom, 14);
  const parts = [];
  for (const [axis, across] of [[picture.x, true], [picture.y, false]]) {
    for (let decade = axis.low; decade <= axis.high * 1.0001; decade *= 10) {
      parts.push(across ? draw('line', { x1: x(decade), x2: x(decade), y1: 14, y2: bottom }) : draw('line', { x1: left, x2: PICTURE_WIDTH - TEXT_ROOM, y1: y(decade), y2: y(decade) }));
      parts.push(across ? marked('', figureOf(decade), x(decade), bottom + 14, 'middle') : marked('', figureOf(decade), left - 6, y(decade) + 4, 'end'));
    }
  }
  parts.push(marked('', `${picture.x.label} (${picture.x.unit})`, (left + PICTURE_WIDTH - TEXT_ROOM) / 2, bottom + 30, 'middle'), marked('', picture.y.unit, 0, 10));
  for (const line of picture.lines) {
    const points = line.points.map(([a, b]) => [x(a), y(b)]), [endX, endY] = points[points.length - 1];
    const about = `${line.name} ${line.remark}`;
    if (points.length > 1) {
      parts.push(titled(draw('path', { class: line.limit ? 'roof' : 'curve', d: `M${points.map((point) => point.join(',')).join('L')}` }), about));
      const level = points[0][1] === endY;
      parts.push(level ? marked('', about, PICTURE_WIDTH - TEXT_ROOM + 6, endY + 4) : marked('', about, (points[0][0] + endX) / 2 + 10, (points[0][1] + endY) / 2 + 14));
    } else {
      parts.push(titled(draw('circle', { cx: endX, cy: endY, r: 5.5, class: 'chosen' }), about), marked('name chosen', line.name, endX + 9, endY + 4));
    }
  }
  return [PLOT_HEIGHT, parts];
}
/** Cells in rows and columns; those of a group have one colour. */
function gridPicture(picture) {
  const left = 90, size = Math.min(46, (PICTURE_WIDTH - left) / picture.columns.length), height = PICTURE_TOP + picture.rows.length * ROW_HEIGHT + 6;
  const parts = [marked('', picture.column_label, 0, 14)];
  picture.columns.forEach((name, n) => parts.push(marked('', name, left + (n + 0.5) * size, 14, 'middle')));
  picture.rows.forEach((name, n) => parts.push(marked('', `${picture.row_label} ${name}`, 0, PICTURE_TOP + n * ROW_HEIGHT + 10)));
  for (const cell of picture.cells) {
    const x = left + cell.column * size, y = PICTURE_TOP + cell.row * ROW_HEIGHT - 4;
    parts.push(titled(draw('rect', { class: `group${cell.group % 8}`, x, y, width: size - 1, height: ROW_HEIGHT - 2 }), cell.about));
    parts.push(titled(marked('cell', cell.text, x + size / 2, y + 13, 'middle'), cell.about));
  }
  return [height, parts];
}
const STRIP_LABEL_ROOM = 180, STRIP_TEXT_ROOM = 345;
/** What things do over time: a row each, a bar a kind; a phase has its number in it. */
function stripPicture(picture) {
  const height = PICTURE_TOP + picture.rows.length * ROW_HEIGHT + 4, words = new Map(picture.kinds);
  const x = scaleOf(picture.axis, STRIP_LABEL_ROOM, PICTURE_WIDTH - STRIP_TEXT_ROOM);
  const parts = [
    marked('', figureOf(picture.axis.low), x(picture.axis.low), 12),
    marked('', `${figureOf(picture.axis.high)} ${picture.axis.unit}`, x(picture.axis.high), 12, 'end'),
  ];
  picture.rows.forEach((row, n) => {
    const y = PICTURE_TOP + n * ROW_HEIGHT;
    parts.push(marked('name', row.label, 0, y + 10));
    for (const [kind, begin, end] of row.runs) {
      const phase = kind.startsWith('phase ') ? kind.slice(6) : null;
      const box = { x: x(begin), y: y - 1, width: Math.max(x(end) - x(begin), 0.5), height: ROW_HEIGHT - 6 };
      const about = `${row.label}: ${words.get(kind) ?? kind}, ${figureOf(begin)} to ${figureOf(end)} ${picture.axis.unit}`;
      parts.push(titled(draw('rect', { ...box, class: phase === null ? `of-${kind}` : `phase${phase % 2}` }), about));
      if (phase !== null && box.width > 8 * phase.length) parts.push(marked('cell', phase, box.x + box.width / 2, y + 10, 'middle'));
    }
    const shares = row.shares.map(([kind, share]) => `${KIND_NAMES[kind] ?? kind} ${Math.round(100 * share)} %`).join(', ');
    parts.push(marked('name', shares, PICTURE_WIDTH - STRIP_TEXT_ROOM + 12, y + 10));
  });
  return [height, parts];
}
const KIND_NAMES = { copy: 'copies', products: 'products', tensor: 'busy', wait: 'mbarriers', barrier: 'barriers' };
const legend = (kinds) => make('ul', { cls: 'keyed' }, ...kinds.map(([kind, words]) => make('li', { style: { '--of': `var(--of-${kind})` } }, words)));
const FORMS = { plot: plotPicture, grid: gridPicture, strips: stripPicture };
/** A picture with its question, its answer and its notes. */
function drawn(picture) {
  const [height, parts] = (FORMS[picture.form] ?? rowPicture)(picture);
  const svg = draw('svg', { class: 'picture', viewBox: `0 0 ${PICTURE_WIDTH} ${height}`, role: 'img', 'aria-label': `${picture.title} ${picture.answer}` }, ...parts);
  return make('figure', {}, make('figcaption', {}, make('b', {}, picture.title), ` ${picture.answer}`), svg, ...(picture.kinds ? [legend(picture.kinds)] : []), ...picture.notes.map((note) => make('p', { cls: 'quiet' }, note)));
}
