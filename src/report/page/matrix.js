/* The picture of a confusion matrix: a row a class, a column what its samples were taken for, shaded by
 * the part of the row. What is pointed at is told below; arrows move a cell at a time. Data: {names:
 * [name], counts: [[count]]}. tools: what the page's script lends. */
window.drawMatrix = function (figure, data, tools) {
  'use strict';

  const n = data.names.length, canvas = figure.querySelector('canvas');
  const context = canvas.getContext('2d'), told = figure.querySelector('.told');
  const rest = told.textContent, sums = data.counts.map(row => row.reduce((a, b) => a + b, 0));
  const END = 14;
  let cell = 1, left = 0, top = 0, chosen = null, colours = {};

  function share(row, column) {
    return sums[row] ? data.counts[row][column] / sums[row] : 0;
  }

  function describe(row, column) {
    const name = data.names[row], part = (100 * share(row, column)).toFixed(1) + '\u00a0%';
    return data.counts[row][column] + ' of the ' + sums[row] + ' samples of ' + name + ' (' + part +
      ') were ' + (row === column ? 'recognised' : 'taken for ' + data.names[column]);
  }

  /* Names take up to a quarter of the width each; rows without room have none. */
  function place(width) {
    context.font = '12px ' + getComputedStyle(document.body).fontFamily;
    const longest = Math.max(...data.names.map(name => context.measureText(name).width));
    left = top = Math.min(longest + 12, width / 4);
    cell = Math.min(48, Math.max(0.5, (width - left - END) / n));
    if (cell < 10) {
      left = top = 8;
      cell = (width - left - END) / n;
    }
    return Math.ceil(top + n * cell + END);
  }

  function cut(name, room) {
    let text = name;
    while (text.length > 1 && context.measureText(text).width > room)
      text = text.slice(0, -2) + '\u2026';
    return text;
  }

  function drawNames() {
    context.fillStyle = tools.colour('muted');
    context.textBaseline = 'middle';
    for (let i = 0; i < n && cell >= 10; i++) {
      const at = (i + 0.5) * cell, name = cut(data.names[i], left - 10);
      context.textAlign = 'right';
      context.fillText(name, left - 5, top + at);
      context.save();
      context.translate(left + at, top - 5);
      context.rotate(-Math.PI / 2);
      context.textAlign = 'left';
      context.fillText(name, 0, 0);
      context.restore();
    }
  }

  function drawCell(row, column) {
    const part = share(row, column), gap = cell > 6 ? 1 : 0;
    const x = left + column * cell, y = top + row * cell;
    context.globalAlpha = part ? 0.12 + 0.88 * part : 0.05;
    context.fillStyle = row === column ? colours.right : colours.wrong;
    context.fillRect(x, y, cell - gap, cell - gap);
    context.globalAlpha = 1;
    const text = String(data.counts[row][column]);
    if (cell < 22 || text === '0' ||
        context.measureText(text).width > cell - 4)
      return;
    context.textAlign = 'center';
    context.fillStyle = part > 0.5 ? colours.card : colours.text;
    context.fillText(text, x + cell / 2, y + cell / 2);
  }

  function draw() {
    const width = canvas.clientWidth, scale = window.devicePixelRatio || 1;
    const height = place(width);
    canvas.style.height = height + 'px';
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    place(width);
    drawNames();
    colours = {right: tools.colour('series-0'), wrong: tools.colour('series-1'),
               card: tools.colour('card'), text: tools.colour('text')};
    for (let row = 0; row < n; row++)
      for (let column = 0; column < n; column++)
        drawCell(row, column);
    if (chosen) {
      context.lineWidth = 2;
      context.strokeStyle = tools.colour('text');
      context.strokeRect(left + chosen[1] * cell, top + chosen[0] * cell, cell, cell);
    }
  }

  function choose(row, column) {
    chosen = row >= 0 && row < n && column >= 0 && column < n ? [row, column] : null;
    told.textContent = chosen ? describe(row, column) : rest;
    draw();
  }

  canvas.addEventListener('pointermove', event => {
    const at = canvas.getBoundingClientRect();
    choose(Math.floor((event.clientY - at.top - top) / cell),
           Math.floor((event.clientX - at.left - left) / cell));
  });
  canvas.addEventListener('pointerleave', () => choose(-1, -1));
  canvas.addEventListener('keydown', event => {
    const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    const move = moves[event.key], from = chosen || [0, 0];
    if (!move)
      return;
    choose(Math.min(Math.max(from[0] + move[0], 0), n - 1),
           Math.min(Math.max(from[1] + move[1], 0), n - 1));
    event.preventDefault();
  });
  tools.offer(figure, () => [['class'].concat(data.names)].concat(
    data.counts.map((row, i) => [data.names[i]].concat(row))));
  let drawnWidth = canvas.clientWidth;
  new ResizeObserver(() => {
    if (canvas.clientWidth === drawnWidth)
      return;  // the height that drawing gave it
    drawnWidth = canvas.clientWidth;
    draw();
  }).observe(canvas);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  draw();
  return {choose: choose};
};
