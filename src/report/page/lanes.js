/* The picture of a schedule: time across, a row for each core, once as predicted and once as measured.
 * It can be zoomed along time (buttons, keys, Ctrl and wheel, two fingers), moved (dragged, arrows), and
 * asked: what is pointed at is told below. Data: {cores: [name], sets: [name], end, colours: [name],
 * boxes: [[set, first core, cores, begin, end, colour, name, type]]}, times in ms. tools: what the page's
 * script lends. */
window.drawLanes = function (figure, data, tools) {
  'use strict';

  const SET = 0, FIRST = 1, WIDTH = 2, BEGIN = 3, END = 4, COLOUR = 5, NAME = 6, TYPE = 7;
  const MARGIN = {left: 64, right: 10, top: 4, bottom: 34}, GAP = 18, ROW = data.cores.length > 8 ? 16 : 26;
  const canvas = figure.querySelector('canvas'), context = canvas.getContext('2d');
  const told = figure.querySelector('.told'), rest = told.textContent;
  const nCores = data.cores.length, bottom = MARGIN.top + data.sets.length * (GAP + nCores * ROW);
  const whole = {t: 0, w: data.end || 1}, view = Object.assign({}, whole), fingers = new Map();
  let chosen = null, pinned = false, waiting = false, travelled = 0;

  canvas.style.height = bottom + MARGIN.bottom + 'px';

  /* ---- places ---- */

  function room() {
    return Math.max(1, canvas.clientWidth - MARGIN.left - MARGIN.right);
  }

  function xOf(t) {
    return MARGIN.left + (t - view.t) / view.w * room();
  }

  function yOf(set, core) {
    return MARGIN.top + set * (GAP + nCores * ROW) + GAP + core * ROW;
  }

  function timeAt(x) {
    return view.t + (x - MARGIN.left) / room() * view.w;
  }

  function boxAt(x, y) {
    const t = timeAt(x);
    return data.boxes.find(b => b[BEGIN] <= t && t < b[END] && yOf(b[SET], b[FIRST]) <= y &&
                           y < yOf(b[SET], b[FIRST] + b[WIDTH])) || null;
  }

  /* ---- words ---- */

  function ms(t) {
    return t.toFixed(t < 10 ? 3 : 1) + '\u00a0ms';
  }

  function describe(box) {
    const cores = box[WIDTH] === 1 ? data.cores[box[FIRST]] :
      data.cores[box[FIRST]] + ' to ' + data.cores[box[FIRST] + box[WIDTH] - 1];
    const other = data.boxes.find(b => b[NAME] === box[NAME] && b[SET] !== box[SET]);
    return box[NAME] + ' (' + box[TYPE] + '), ' + data.sets[box[SET]] + ': ' + ms(box[END] - box[BEGIN]) +
      ' on ' + cores + ', from ' + ms(box[BEGIN]) + ' to ' + ms(box[END]) +
      (other ? '; ' + data.sets[other[SET]] + ': ' + ms(other[END] - other[BEGIN]) : '');
  }

  /* ---- drawing ---- */

  function drawBoxes() {
    const colours = data.colours.map((_, i) => tools.colour('series-' + i));
    for (const box of data.boxes) {
      const x = xOf(box[BEGIN]), w = Math.max(0.75, xOf(box[END]) - x), h = box[WIDTH] * ROW - 2;
      if (x + w < MARGIN.left || x > canvas.clientWidth)
        continue;
      const y = yOf(box[SET], box[FIRST]) + 1;
      context.fillStyle = colours[box[COLOUR]];
      context.fillRect(x, y, w > 3 ? w - 0.75 : w, h);
      if (w > 40 && context.measureText(box[NAME]).width < w - 8) {
        context.fillStyle = tools.colour('card');
        context.fillText(box[NAME], Math.max(x, MARGIN.left) + 4, y + h / 2);
      }
      if (box === chosen) {
        context.strokeStyle = tools.colour('text');
        context.lineWidth = 2;
        context.strokeRect(x, y, w, h);
      }
    }
  }

  function drawAxis() {
    const n = Math.max(2, room() / 90);
    let step = Math.pow(10, Math.floor(Math.log10(view.w / n)));
    for (let i = 0; view.w / step > n; i++)
      step *= i % 3 === 1 ? 2.5 : 2;
    const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9) + (String(step).includes('25') ? 1 : 0));
    context.textAlign = 'center';
    context.textBaseline = 'top';
    for (let t = Math.ceil(view.t / step) * step; t < view.t + view.w; t += step)
      context.fillText(t.toFixed(Math.min(digits, 6)), xOf(t), bottom + 4);
    context.fillText('ms', MARGIN.left + room() / 2, bottom + 19);
  }

  function drawNames() {
    context.fillStyle = tools.colour('muted');
    context.textBaseline = 'middle';
    for (let set = 0; set < data.sets.length; set++) {
      context.textAlign = 'left';
      context.fillText(data.sets[set], MARGIN.left, yOf(set, 0) - GAP / 2);
      context.textAlign = 'right';
      for (let core = 0; core < nCores; core++)
        context.fillText(data.cores[core], MARGIN.left - 6, yOf(set, core) + ROW / 2);
    }
  }

  function draw() {
    const width = canvas.clientWidth, height = canvas.clientHeight, scale = devicePixelRatio || 1;
    waiting = false;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = '11px ' + getComputedStyle(document.body).fontFamily;
    drawNames();
    drawAxis();
    context.save();
    context.beginPath();
    context.rect(MARGIN.left, 0, room(), bottom);
    context.clip();
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    drawBoxes();
    context.restore();
  }

  function redraw() {
    if (!waiting)
      requestAnimationFrame(draw);
    waiting = true;
  }

  /* ---- zooming and moving ---- */

  function clamp() {
    view.w = Math.min(Math.max(view.w, whole.w / 5000), whole.w);
    view.t = Math.min(Math.max(view.t, 0), whole.w - view.w);
    canvas.style.touchAction = view.w < whole.w ? 'none' : 'pan-y';
    redraw();
  }

  function zoom(factor, x) {
    const t = timeAt(x), w = view.w;
    view.w = Math.min(Math.max(w / factor, whole.w / 5000), whole.w);
    view.t = t - (t - view.t) * view.w / w;
    clamp();
  }

  function zoomCentre(factor) {
    zoom(factor, MARGIN.left + room() / 2);
  }

  function move(dx) {
    view.t -= dx / room() * view.w;
    clamp();
  }

  function showAll() {
    Object.assign(view, whole);
    clamp();
  }

  /* ---- pointing ---- */

  function choose(box) {
    if (box === chosen)
      return;
    chosen = box;
    told.textContent = box ? describe(box) : rest;
    redraw();
  }

  function place(event) {
    const at = canvas.getBoundingClientRect();
    return {x: event.clientX - at.left, y: event.clientY - at.top};
  }

  function spread() {
    const [a, b] = fingers.values();
    return {x: (a.x + b.x) / 2, d: Math.abs(a.x - b.x) || 1};
  }

  function drag(event, from) {
    const to = place(event), before = fingers.size === 2 ? spread() : null;
    travelled += Math.abs(to.x - from.x);
    fingers.set(event.pointerId, to);
    if (before) {
      const now = spread();
      zoom(now.d / before.d, now.x);
      move(now.x - before.x);
    } else if (fingers.size === 1 && travelled > 4) {
      move(to.x - from.x);
    }
  }

  canvas.addEventListener('pointerdown', event => {
    fingers.set(event.pointerId, place(event));
    travelled = 0;
  });
  canvas.addEventListener('pointermove', event => {
    const from = fingers.get(event.pointerId), at = place(event);
    if (from)
      drag(event, from);
    else if (!pinned)
      choose(boxAt(at.x, at.y));
  });
  canvas.addEventListener('pointerup', event => {
    const at = place(event);
    if (!fingers.delete(event.pointerId) || travelled > 4)
      return;
    choose(boxAt(at.x, at.y));
    pinned = chosen !== null;
  });
  canvas.addEventListener('pointercancel', event => fingers.delete(event.pointerId));
  canvas.addEventListener('pointerleave', event => {
    fingers.delete(event.pointerId);
    if (!pinned)
      choose(null);
  });
  canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey)
      return;  // the page scrolls
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300), place(event).x);
  }, {passive: false});
  canvas.addEventListener('keydown', event => {
    const does = {ArrowLeft: () => move(60), ArrowRight: () => move(-60), '+': () => zoomCentre(1.5),
                  '=': () => zoomCentre(1.5), '-': () => zoomCentre(1 / 1.5), Escape: showAll, '0': showAll};
    if (!does[event.key])
      return;
    does[event.key]();
    event.preventDefault();
  });

  /* ---- around it ---- */

  figure.querySelector('.zoom').append(tools.button('', 'Zoom in', () => zoomCentre(2)),
                                       tools.button('', 'Zoom out', () => zoomCentre(0.5)),
                                       tools.button('', 'Show all', showAll));
  tools.offer(figure, () => [['what', 'first core', 'cores', 'begin (ms)', 'end (ms)', 'kind', 'name',
                              'type']].concat(data.boxes.map(b => [
    data.sets[b[SET]], data.cores[b[FIRST]], b[WIDTH], b[BEGIN], b[END], data.colours[b[COLOUR]], b[NAME],
    b[TYPE]])));
  new ResizeObserver(redraw).observe(canvas);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  draw();
  return {view: view, choose: (x, y) => choose(boxAt(x, y)), xOf: xOf, yOf: yOf};
};
