// The timeline of a step: a row a stream, a bar a kernel.

const SVG = 'http://www.w3.org/2000/svg', TIMELINE_WIDTH = 1000, LANE_HEIGHT = 26, LABEL_WIDTH = 120, AXIS_HEIGHT = 18, TICKS = 8;
function draw(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
/** The picture of what the GPU did, or nothing where it was not recorded. */
function timelinePicture() {
  const timeline = index.timeline;
  if (!timeline) return [];
  const height = AXIS_HEIGHT + timeline.lanes.length * LANE_HEIGHT;
  const scale = (TIMELINE_WIDTH - LABEL_WIDTH) / timeline.us;
  const round = 10 ** Math.floor(Math.log10(timeline.us / TICKS));
  const tick = [1, 2, 5, 10].map((n) => n * round).find((us) => us >= timeline.us / TICKS);
  const parts = [];
  for (let us = 0; us < timeline.us; us += tick) {
    const x = LABEL_WIDTH + us * scale;
    parts.push(draw('line', { x1: x, x2: x, y1: 0, y2: height }), draw('text', { x: x + 3, y: AXIS_HEIGHT - 6 }, `${known(Math.round(us))} \u00b5s`));
  }
  timeline.lanes.forEach((name, lane) => parts.push(draw('text', { x: 0, y: AXIS_HEIGHT + lane * LANE_HEIGHT + 16 }, name)));
  for (const bar of timeline.bars) {
    const begin = Math.max(bar.start_us, 0), end = Math.min(bar.start_us + bar.us, timeline.us);
    const box = { x: LABEL_WIDTH + begin * scale, y: AXIS_HEIGHT + bar.lane * LANE_HEIGHT + 2, width: Math.max((end - begin) * scale, 0.5), height: LANE_HEIGHT - 6 };
    parts.push(draw('rect', { ...box, class: `bar${bar.colour}` }, draw('title', {}, bar.title)));
  }
  const picture = draw('svg', { class: 'timeline', viewBox: `0 0 ${TIMELINE_WIDTH} ${height}`, role: 'img', 'aria-label': timeline.heads.join('; ') }, ...parts);
  return [make('h3', {}, 'Timeline'), ...[...timeline.heads, timeline.footnote].filter(Boolean).map((text) => make('p', { cls: 'quiet' }, text)), picture];
}
