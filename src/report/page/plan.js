/* The picture of a plan: time across (a step a unit), addresses up, a box for each storage. It can be
 * zoomed, moved and asked (lookAround). Data: {steps: [[name, type]], kinds: [name], arena, least, limit,
 * boxes: [[first, last, offset, bytes, kind, flags, name, shape]]}; flags: 1 made again, 2 read back
 * from a file. tools: what the page's script lends. */
window.drawPlan = function (figure, data, tools) {
  'use strict';

  const FIRST = 0, LAST = 1, OFFSET = 2, BYTES = 3, KIND = 4, FLAGS = 5, NAME = 6, SHAPE = 7;
  const AGAIN = 1, READ_BACK = 2;
  const MARGIN = {left: 64, right: 10, top: 10, bottom: 34};
  const canvas = figure.querySelector('canvas'), context = canvas.getContext('2d');
  const nSteps = Math.max(1, data.steps.length);
  const most = Math.max(data.arena, data.limit || 0, 64) * 1.04;
  const alive = sumAlive();

  /* Bytes alive in each step. */
  function sumAlive() {
    const changes = new Float64Array(nSteps + 2), sums = [];
    for (const box of data.boxes) {
      changes[box[FIRST]] += box[BYTES];
      changes[Math.min(box[LAST], nSteps) + 1] -= box[BYTES];
    }
    for (let t = 0, sum = 0; t < nSteps; t++)
      sums.push(sum += changes[t]);
    return sums;
  }

  /* ---- words ---- */

  function bytesOf(bytes) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++)
      bytes /= 1024;
    return (unit && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)) + '\u00a0' + units[unit];
  }

  function stepOf(t) {
    return t < data.steps.length ? t + ' (' + data.steps[t][0] + ')' : 'the end';
  }

  function describe(box) {
    const marks = (box[FLAGS] & AGAIN ? ', recomputed' : '') +
      (box[FLAGS] & READ_BACK ? ', read back from the file' : '');
    const shape = box[SHAPE] ? ' ' + box[SHAPE] : '';
    return box[NAME] + shape + ': ' + bytesOf(box[BYTES]) + ' at ' + bytesOf(box[OFFSET]) + ', ' +
      data.kinds[box[KIND]] + marks + '; from step ' + stepOf(box[FIRST]) + ' to ' +
      stepOf(box[LAST]);
  }

  /* ---- places ---- */

  function inner() {
    return {left: MARGIN.left, top: MARGIN.top,
            w: Math.max(1, canvas.clientWidth - MARGIN.left - MARGIN.right),
            h: Math.max(1, canvas.clientHeight - MARGIN.top - MARGIN.bottom)};
  }

  function xOf(t) {
    return MARGIN.left + (t - view.t) / view.w * inner().w;
  }

  function yOf(a) {
    return MARGIN.top + (1 - (a - view.a) / view.h) * inner().h;
  }

  function timeAt(x) {
    return view.t + (x - MARGIN.left) / inner().w * view.w;
  }

  function addressAt(y) {
    return view.a + (1 - (y - MARGIN.top) / inner().h) * view.h;
  }

  function boxAt(x, y) {
    const t = timeAt(x), a = addressAt(y);
    return data.boxes.find(b => b[FIRST] <= t && t < b[LAST] + 1 && b[OFFSET] <= a &&
                           a < b[OFFSET] + b[BYTES]) || null;
  }

  /* ---- drawing ---- */

  /* Numbers of few digits, about n of them in a stretch of this length. */
  function spacing(length, n, isBinary) {
    let step = isBinary ? Math.pow(1024, Math.max(0, Math.floor(Math.log2(length) / 10))) : 1;
    while (length / step < n / 4 && step > 1)
      step /= isBinary ? 2 : 10;
    for (let i = 0; length / step > n; i++)
      step *= isBinary ? 2 : i % 3 === 1 ? 2.5 : 2;
    return Math.max(1, Math.round(step));
  }

  function hatch(colour) {
    const tile = document.createElement('canvas'), c = tile.getContext('2d');
    tile.width = tile.height = 7;
    c.strokeStyle = colour;
    c.lineWidth = 1.6;
    c.beginPath();
    for (const d of [-7, 0, 7]) {
      c.moveTo(d - 1, 8);
      c.lineTo(d + 8, -1);
    }
    c.stroke();
    return context.createPattern(tile, 'repeat');
  }

  function rectangle(box) {
    const x = xOf(box[FIRST]), right = xOf(box[LAST] + 1);
    const y = yOf(box[OFFSET] + box[BYTES]), bottom = yOf(box[OFFSET]);
    return [x, y, Math.max(1, right - x), Math.max(0.75, bottom - y)];
  }

  function isSeen(box) {
    return box[LAST] + 1 > view.t && box[FIRST] < view.t + view.w &&
      box[OFFSET] + box[BYTES] > view.a && box[OFFSET] < view.a + view.h;
  }

  function drawBoxes() {
    const colours = data.kinds.map((_, i) => tools.colour('series-' + i));
    const back = tools.colour('card'), marks = hatch(tools.colour('text'));
    context.strokeStyle = back;
    for (const box of data.boxes) {
      if (!isSeen(box))
        continue;
      const [x, y, w, h] = rectangle(box);
      context.fillStyle = colours[box[KIND]];
      context.fillRect(x, y, w, h);
      if (box[FLAGS]) {
        context.fillStyle = marks;
        context.fillRect(x, y, w, h);
      }
      if (w > 4 && h > 4) {
        context.lineWidth = 1;
        context.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
      }
    }
  }

  function drawNames() {
    context.font = '11px ' + getComputedStyle(document.body).fontFamily;
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    context.fillStyle = tools.colour('card');
    for (const box of data.boxes) {
      const [x, y, w, h] = rectangle(box);
      const begin = Math.max(x, MARGIN.left), room = Math.min(x + w, canvas.clientWidth) - begin - 8;
      if (h < 14 || room < 30 || box[FLAGS] || !isSeen(box))
        continue;
      const wide = context.measureText(box[NAME]).width;
      if (wide <= room)
        context.fillText(box[NAME], begin + 4, y + h / 2);
    }
  }

  /* A level across all of time, and its name. */
  function drawLevel(address, name, isDashed) {
    const y = yOf(address);
    if (address < view.a || address > view.a + view.h)
      return;
    context.setLineDash(isDashed ? [7, 4] : []);
    context.lineWidth = isDashed ? 1.75 : 1;
    context.strokeStyle = context.fillStyle = tools.colour('text');
    context.beginPath();
    context.moveTo(MARGIN.left, y);
    context.lineTo(canvas.clientWidth - MARGIN.right, y);
    context.stroke();
    context.setLineDash([]);
    context.textAlign = 'left';
    context.textBaseline = y < MARGIN.top + 16 ? 'top' : 'bottom';
    context.fillText(name, MARGIN.left + 4, y + (y < MARGIN.top + 16 ? 3 : -3));
  }

  function drawAlive() {
    context.strokeStyle = tools.colour('text');
    context.lineWidth = 1.25;
    context.beginPath();
    const first = Math.max(0, Math.floor(view.t) - 1), last = Math.min(nSteps, view.t + view.w + 1);
    for (let t = first; t < last; t++) {
      context.lineTo(xOf(t), yOf(alive[t]));
      context.lineTo(xOf(t + 1), yOf(alive[t]));
    }
    context.stroke();
  }

  function drawAxes(width, height) {
    const size = inner();
    context.fillStyle = context.strokeStyle = tools.colour('muted');
    context.font = (width < 480 ? '11px ' : '12px ') + getComputedStyle(document.body).fontFamily;
    context.lineWidth = 1;
    context.strokeRect(MARGIN.left - 0.5, MARGIN.top - 0.5, size.w + 1, size.h + 1);
    const across = spacing(view.w, size.w / 90, false), up = spacing(view.h, size.h / 44, true);
    context.textAlign = 'center';
    context.textBaseline = 'top';
    for (let t = Math.ceil(view.t / across) * across; t < view.t + view.w; t += across)
      context.fillText(String(t), xOf(t), height - MARGIN.bottom + 4);
    context.fillText('step', MARGIN.left + size.w / 2, height - 14);
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (let a = Math.ceil(view.a / up) * up; a < view.a + view.h; a += up)
      context.fillText(bytesOf(a), MARGIN.left - 5, Math.max(8, yOf(a)));
  }

  function draw(width, height) {
    const size = inner();
    drawAxes(width, height);
    context.save();
    context.beginPath();
    context.rect(MARGIN.left, MARGIN.top, size.w, size.h);
    context.clip();
    drawBoxes();
    drawNames();
    drawAlive();
    if (data.limit)
      drawLevel(data.limit, 'budget', true);
    if (look.chosen()) {
      context.strokeStyle = tools.colour('text');
      context.lineWidth = 2;
      context.strokeRect(...rectangle(look.chosen()));
    }
    context.restore();
  }

  /* ---- around it ---- */

  const look = lookAround(figure, {
    whole: {t: 0, a: 0, w: nSteps, h: most}, least: {w: Math.min(4, nSteps), h: Math.min(256, most)},
    inner: inner, boxAt: boxAt, describe: describe, draw: draw}, tools), view = look.view;
  tools.offer(figure, () => [['name', 'shape', 'kind', 'first step', 'last step', 'offset', 'bytes',
                              'recomputed', 'read back']].concat(data.boxes.map(b => [
    b[NAME], b[SHAPE], data.kinds[b[KIND]], b[FIRST], b[LAST], b[OFFSET], b[BYTES],
    b[FLAGS] & AGAIN ? 1 : 0, b[FLAGS] & READ_BACK ? 1 : 0])));
  look.draw();
  return {view: view, choose: look.choose, xOf: xOf, yOf: yOf};
};
