/* The picture of a schedule: time across, a row for each core, once as predicted and once as measured.
 * It can be zoomed and moved along time, and asked (lookAround). Data: {cores: [name], sets: [name], end,
 * colours: [name], boxes: [[set, first core, cores, begin, end, colour, name, type]]}, times in ms. tools:
 * what the page's script lends. */
window.drawLanes = function (figure, data, tools) {
  'use strict';

  const SET = 0, FIRST = 1, WIDTH = 2, BEGIN = 3, END = 4, COLOUR = 5, NAME = 6, TYPE = 7;
  const MARGIN = {left: 64, right: 10, top: 4, bottom: 34}, GAP = 18, ROW = data.cores.length > 8 ? 16 : 26;
  const canvas = figure.querySelector('canvas'), context = canvas.getContext('2d');
  const nCores = data.cores.length, bottom = MARGIN.top + data.sets.length * (GAP + nCores * ROW);
  const end = data.end || 1;

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
      if (box === look.chosen()) {
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

  /* ---- around it ---- */

  const look = lookAround(figure, {
    whole: {t: 0, w: end, a: 0, h: 1}, least: {w: end / 5000, h: 1},
    inner: () => ({left: MARGIN.left, top: MARGIN.top, w: room(), h: bottom - MARGIN.top}),
    boxAt: boxAt, describe: describe, draw: draw}, tools), view = look.view;
  tools.offer(figure, () => [['what', 'first core', 'cores', 'begin (ms)', 'end (ms)', 'kind', 'name',
                              'type']].concat(data.boxes.map(b => [
    data.sets[b[SET]], data.cores[b[FIRST]], b[WIDTH], b[BEGIN], b[END], data.colours[b[COLOUR]], b[NAME],
    b[TYPE]])));
  look.draw();
  return {view: view, choose: look.choose, xOf: xOf, yOf: yOf};
};
