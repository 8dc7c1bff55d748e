/* What a report does by itself: sorts tables, saves data as CSV, draws charts. The data of a chart
 * is the JSON beside it: {kind, x, y, xLog, yLog, labels, series: [{name, guide, reference, x,
 * y}]}. */
(function () {
  'use strict';

  const MOST_ROWS = 25;  // of a table; a longer one is folded to 20 by the style
  const BUCKETS = 1000;  // across a chart, in which a long line keeps first, least, most and last
  const N_COLOURS = 8;
  // Points of lines to compare with, and how the legend shows them.
  const MARKS = [['rectRot', '\u25c7'], ['triangle', '\u25b3'], ['rect', '\u25a1'], ['circle', '\u25cb']];
  const NARROW = 480;    // pixels: a plot on a phone
  const BARS = {bar: true, stacked: true, across: true};

  /* ---- saving ---- */

  function field(value) {
    const text = value === null || value === undefined ? '' : String(value);
    return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }

  function save(name, rows) {
    const text = rows.map(row => row.map(field).join(',') + '\n').join('');
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], {type: 'text/csv;charset=utf-8'}));
    link.download = name.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '') + '.csv';
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function button(kind, text, action) {
    const made = document.createElement('button');
    made.type = 'button';
    made.className = kind;
    made.textContent = text;
    made.addEventListener('click', action);
    return made;
  }

  function offer(figure, rows) {
    const made = button('save', 'Save as CSV', () => save(figure.dataset.name, rows()));
    figure.querySelector('figcaption').append(made);
  }

  /* ---- tables ---- */

  function valueOf(cell) {
    if (!('v' in cell.dataset))
      return cell.textContent;
    return cell.dataset.v === '' ? null : Number(cell.dataset.v);
  }

  function compare(a, b) {
    if (typeof a === 'number' && typeof b === 'number')
      return a - b;
    return String(a).localeCompare(String(b), 'en', {numeric: true});
  }

  function sortBy(table, column) {
    const head = table.tHead.rows[0].cells[column], body = table.tBodies[0];
    const isNumber = head.classList.contains('n');
    const before = head.getAttribute('aria-sort');
    const rises = before ? before === 'descending' : !isNumber;
    const keyed = Array.from(body.rows, row => [valueOf(row.cells[column]), row]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null)  // what is missing comes last
        return (a === null) - (b === null);
      return rises ? compare(a, b) : compare(b, a);
    });
    for (const cell of table.tHead.rows[0].cells)
      cell.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', rises ? 'ascending' : 'descending');
    body.append(...keyed.map(([, row]) => row));
  }

  /* Lets a name go on in the next line where a word of it ends. */
  function breakName(cell) {
    const words = cell.textContent.match(/[^_./-]*[_./-]?/g).filter(word => word);
    cell.replaceChildren(...words.flatMap((word, i) => i ? [document.createElement('wbr'), word] : [word]));
  }

  function setUpTable(figure) {
    const table = figure.querySelector('table'), rows = table.tBodies[0].rows;
    const heads = Array.from(table.tHead.rows[0].cells), names = heads.map(h => h.textContent);
    heads.forEach((head, i) => {
      if (rows.length && rows[0].cells[i].classList.contains('n'))
        head.classList.add('n');
      head.textContent = '';
      head.append(button('', names[i], () => sortBy(table, i)));
    });
    for (const cell of table.querySelectorAll('td:not(.n)'))
      cell.classList.toggle('long', cell.textContent.length > 48);
    for (const row of rows) {
      if (row.cells[0].childElementCount === 0)
        breakName(row.cells[0]);
    }
    const scroll = figure.querySelector('.scroll');
    const mark = () => figure.classList.toggle(
      'cut', scroll.scrollLeft + scroll.clientWidth < scroll.scrollWidth - 2);
    scroll.addEventListener('scroll', mark, {passive: true});
    new ResizeObserver(mark).observe(scroll);
    if (rows.length > MOST_ROWS) {
      figure.classList.add('short');
      const more = button('more', 'Show all ' + rows.length + ' rows', () => {
        figure.classList.remove('short');
        more.remove();
      });
      figure.append(more);
    }
    offer(figure, () => [names].concat(Array.from(rows, row => Array.from(row.cells, valueOf))));
  }

  /* ---- data of charts ---- */

  function sameX(series) {
    const x = series[0].x;
    return series.every(s => s.x.length === x.length && s.x.every((value, i) => value === x[i]));
  }

  /* A row a label or x where that is possible, else a row a point. */
  function chartRows(data) {
    const series = data.series, names = series.map(s => s.name);
    if (BARS[data.kind])
      return [[data.x || 'name'].concat(names)].concat(
        data.labels.map((label, i) => [label].concat(series.map(s => s.y[i]))));
    if (!data.labels.length && series.length && sameX(series))
      return [[data.x || 'x'].concat(names)].concat(
        series[0].x.map((x, i) => [x].concat(series.map(s => s.y[i]))));
    const points = series.flatMap(s => s.x.map((x, i) => [s.name, x, s.y[i]]));
    const rows = [['series', data.x || 'x', data.y || 'y']].concat(points);
    if (data.labels.length)
      rows.forEach((row, i) => row.push(i ? data.labels[i - 1] : 'name'));
    return rows;
  }

  /* The points that a line must keep to look the same: in each of many buckets along x its first,
   * least, most and last; and its gaps. */
  function thin(points, isLog) {
    if (points.length <= 4 * BUCKETS)
      return points;
    const at = isLog ? Math.log : Number;
    const begin = at(points[0].x), width = (at(points[points.length - 1].x) - begin) / BUCKETS;
    const kept = [];
    let held = [], bucket = -1;
    const flush = () => {
      if (!held.length)
        return;
      let least = 0, most = 0;
      held.forEach((p, i) => {
        least = p.y < held[least].y ? i : least;
        most = p.y > held[most].y ? i : most;
      });
      const chosen = new Set([0, least, most, held.length - 1]);
      kept.push(...Array.from(chosen).sort((a, b) => a - b).map(i => held[i]));
      held = [];
    };
    for (const point of points) {
      const own = Math.floor((at(point.x) - begin) / width);
      if (own !== bucket || Number.isNaN(point.y))
        flush();
      bucket = own;
      if (!Number.isNaN(point.y))
        held.push(point);
      else if (kept.length && !Number.isNaN(kept[kept.length - 1].y))
        kept.push(point);
    }
    flush();
    return kept;
  }

  /* A number that an axis can show, else NaN: a gap. */
  function shown(value, isLog) {
    return value === null || (isLog && value <= 0) ? NaN : value;
  }

  /* ---- drawing ---- */

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
  }

  function print(value) {
    const size = Math.abs(value);
    if (value !== 0 && (size < 1e-5 || size >= 1e9))
      return value.toExponential(2).replace(/\.?0+e/, 'e').replace('e+', 'e');
    return Number(value.toPrecision(4)).toLocaleString('en', {maximumFractionDigits: 8});
  }

  /* A name in one line or two, broken where words of it end; what is still too long loses its
   * middle, since names differ at their ends. */
  function wrap(text, most) {
    const lines = [''];
    for (const word of text.match(/[^\s_./-]*[\s_./-]?/g)) {
      if (lines.length < 2 && lines[0] && Array.from(lines[0] + word.trim()).length > most)
        lines.push('');
      lines[lines.length - 1] += word;
    }
    return lines.map(line => {
      const letters = Array.from(line.trim()), half = (most - 1) / 2;
      return letters.length <= most ? letters.join('') :
        letters.slice(0, Math.ceil(half)).join('') + '\u2026' + letters.slice(-Math.floor(half)).join('');
    });
  }

  function labelRoom(isNarrow) {
    return isNarrow ? 17 : 32;
  }

  /* On a phone standing bars with names would lose most of these: they lie down. */
  function isLying(data, isNarrow) {
    return data.kind === 'across' || (isNarrow && BARS[data.kind] && data.labels.length > 5);
  }

  function pointsOf(data, series) {
    const points = series.x.map((x, i) => ({x: shown(x, data.xLog), y: shown(series.y[i], data.yLog)}));
    return data.kind === 'points' && !series.guide ? points : thin(points, data.xLog);
  }

  /* The part of its place that a group of bars takes: bars need not be wider than this. */
  function groupWidth(data, width) {
    const n = data.kind === 'bar' ? data.series.length : 1;
    return isLying(data, width < NARROW) ? .85 : Math.min(.85, n * 56 * data.labels.length / width);
  }

  function datasetOf(data, series, width) {
    const coloured = data.series.filter(s => !s.guide && !s.reference), i = coloured.indexOf(series);
    const own = colour(i < 0 ? 'muted' : 'series-' + i % N_COLOURS);
    const made = {label: series.name, backgroundColor: own, borderColor: own, borderWidth: 1.75};
    if (BARS[data.kind])
      return Object.assign(made, {
        data: series.y.map(y => shown(y, data.yLog)), borderWidth: 0,
        categoryPercentage: groupWidth(data, width), barPercentage: .92
      });
    made.data = pointsOf(data, series);
    made.parsing = false;
    made.stepped = data.kind === 'step' && !series.guide;
    made.pointRadius = data.kind === 'points' ? 4 : data.kind === 'step' || made.data.length > 40 ? 0 : 2.5;
    made.pointHitRadius = 6;
    made.clip = 8;  // points on the border are whole
    made.showLine = data.kind !== 'points';
    if (i >= N_COLOURS)
      made.borderDash = [5, 3];
    if (series.reference) {
      const mark = MARKS[data.series.filter(s => s.reference).indexOf(series) % MARKS.length];
      Object.assign(made, {
        label: mark[1] + ' ' + series.name, pointStyle: mark[0], pointRadius: 4, borderDash: [6, 4],
        borderWidth: 1.5, backgroundColor: 'transparent', order: 1
      });
    }
    if (series.guide)
      Object.assign(made, {
        isGuide: true, type: 'line', showLine: true, pointRadius: 0, pointHitRadius: 0, borderWidth: 1,
        borderDash: [3, 4], borderColor: colour('muted'), backgroundColor: 'transparent', order: 1
      });
    return made;
  }

  /* As many decimals as two neighbours need to differ. */
  function tick(value, index, ticks) {
    const step = ticks.length > 1 ? Math.abs(ticks[1].value - ticks[0].value) : 0;
    let digits = 0;
    while (digits < 8 && step > 0 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6)
      digits++;
    return step > 0 ? Number(value.toFixed(digits)).toLocaleString('en', {
      minimumFractionDigits: Math.min(digits, 3), maximumFractionDigits: digits}) : print(value);
  }

  /* On a logarithmic axis the powers of ten, and where there are few of them what lies between. */
  function logTick(value, index, ticks) {
    const decades = Math.log10(ticks[ticks.length - 1].value / ticks[0].value);
    const digit = Math.round(value / Math.pow(10, Math.floor(Math.log10(value) + 1e-9)));
    return digit === 1 || (decades < 2.5 && (digit === 2 || digit === 5)) ? print(value) : null;
  }

  function axisOf(data, which, isNames, size) {
    const isLog = data[which + 'Log'] && !isNames, title = data[which];
    const made = {
      type: isNames ? 'category' : isLog ? 'logarithmic' : 'linear',
      title: {display: !!title, text: title, color: colour('muted'), font: {size: size}},
      grid: {color: colour('line'), borderColor: colour('muted'), display: !isNames,
             drawTicks: false},
      ticks: {color: colour('muted'), font: {size: size}, padding: 6, maxRotation: 50}
    };
    if (isLog)
      made.ticks.callback = logTick;
    else if (!isNames)
      made.ticks.callback = tick;
    return made;
  }

  /* Bars and steps stand on zero; lines that stay far from it need not. */
  function fromZero(data) {
    const all = data.series.filter(s => !s.guide).flatMap(s => s.y).filter(y => y !== null);
    const least = all.reduce((a, b) => Math.min(a, b), Infinity);
    const most = all.reduce((a, b) => Math.max(a, b), -Infinity);
    return data.kind !== 'line' || least < most / 2;
  }

  /* Lines reach to the borders, points stay away from them. */
  function limit(data, x) {
    const all = data.series.flatMap(s => s.x).filter(value => !Number.isNaN(shown(value, data.xLog)));
    const least = all.reduce((a, b) => Math.min(a, b), Infinity);
    const most = all.reduce((a, b) => Math.max(a, b), -Infinity);
    const room = data.kind === 'points' ? (most - least) / 20 : 0;
    if (!all.length || least === most)
      return;
    if (data.xLog && data.kind === 'line') {
      const places = Array.from(new Set(all)).sort((a, b) => a - b);
      x.min = least / 1.2;
      x.max = most * 1.2;
      if (places.length <= 8) {  // sizes of batches: these are what one looks for
        x.afterBuildTicks = axis => { axis.ticks = places.map(value => ({value: value})); };
        x.ticks.callback = value => print(value);
      }
    } else if (data.xLog) {
      x.suggestedMin = least / 1.5;
      x.suggestedMax = most * 1.5;
    } else {
      x.min = least >= 0 && least < most / 20 ? 0 : least - room;
      x.max = most + room;
      x.ticks.includeBounds = false;
    }
  }

  function scalesOf(data, isNarrow) {
    const isAcross = isLying(data, isNarrow), size = isNarrow ? 11 : 12;
    const x = axisOf(data, 'x', BARS[data.kind], size), y = axisOf(data, 'y', false, size);
    if (!y.ticks.callback || y.type === 'linear')
      y.beginAtZero = fromZero(data);
    if (data.kind === 'stacked')
      x.stacked = y.stacked = true;
    if (BARS[data.kind]) {
      x.ticks.autoSkip = !isAcross;
      x.ticks.callback = function (value) {
        return wrap(this.getLabelForValue(value), labelRoom(isNarrow));
      };
    } else {
      limit(data, x);
    }
    return isAcross ? {x: y, y: x} : {x: x, y: y};
  }

  /* ---- pointing ---- */

  /* The point of a line that a place along x belongs to: of steps the last before it, else the
   * nearest; -1 where the line has a gap or has ended. */
  function pointAt(points, x, isStep) {
    let low = 0, high = points.length;
    while (low < high) {
      const middle = low + high >> 1;
      if (points[middle].x <= x)
        low = middle + 1;
      else
        high = middle;
    }
    const isNext = !isStep && low < points.length &&
      (low === 0 || points[low].x - x < x - points[low - 1].x);
    const at = isNext ? low : low - 1;
    return at >= 0 && !Number.isNaN(points[at].y) && (low < points.length || !isStep || points[at].x >= x)
      ? at : -1;
  }

  function itemOf(chart, datasetIndex, index) {
    return {element: chart.getDatasetMeta(datasetIndex).data[index], datasetIndex: datasetIndex,
            index: index};
  }

  function isPointed(chart, i) {
    return chart.isDatasetVisible(i) && !chart.data.datasets[i].isGuide;
  }

  /* Anywhere over a chart of lines: every line answers with its value there. */
  Chart.Interaction.modes.along = function (chart, event) {
    const place = Chart.helpers.getRelativePosition(event, chart);
    const x = chart.scales.x.getValueForPixel(place.x);
    chart.pointedX = x;
    return chart.data.datasets.flatMap((dataset, i) => {
      const at = isPointed(chart, i) ? pointAt(dataset.data, x, dataset.stepped) : -1;
      return at < 0 ? [] : [itemOf(chart, i, at)];
    });
  };

  /* Of a chart of points: the nearest one, unless it is far away. */
  Chart.Interaction.modes.nearby = function (chart, event) {
    const place = Chart.helpers.getRelativePosition(event, chart);
    let best = null, distance = 40;
    chart.data.datasets.forEach((dataset, i) => {
      if (!isPointed(chart, i))
        return;
      chart.getDatasetMeta(i).data.forEach((element, k) => {
        const away = Math.hypot(element.x - place.x, element.y - place.y);
        if (away < distance) {
          distance = away;
          best = itemOf(chart, i, k);
        }
      });
    });
    return best ? [best] : [];
  };

  /* A thin line where a chart of lines is asked. */
  const crosshair = {
    id: 'crosshair',
    beforeDatasetsDraw: chart => {
      const active = chart.tooltip && chart.tooltip.getActiveElements();
      if (chart.options.interaction.mode !== 'along' || !active || !active.length)
        return;
      const area = chart.chartArea, c = chart.ctx, steps = chart.data.datasets.some(d => d.stepped);
      const x = steps ? chart.scales.x.getPixelForValue(chart.pointedX) : active[0].element.x;
      c.save();
      c.strokeStyle = colour('muted');
      c.lineWidth = 1;
      c.beginPath();
      c.moveTo(x, area.top);
      c.lineTo(x, area.bottom);
      c.stroke();
      c.restore();
    }
  };

  function titleOf(data, items) {
    if (!items.length || data.kind === 'points')
      return '';
    const x = data.kind === 'step' ? items[0].chart.pointedX : items[0].parsed.x;
    return BARS[data.kind] ? items[0].label : data.x + ': ' + print(x);
  }

  function tooltipOf(data, isNarrow) {
    const isAcross = isLying(data, isNarrow), value = isAcross ? 'x' : 'y', offsets = [];
    data.series.reduce((n, s) => (offsets.push(n), n + (s.guide ? 0 : s.x ? s.x.length : 0)), 0);
    return {
      mode: data.kind === 'points' ? 'nearby' : BARS[data.kind] ? 'index' : 'along',
      intersect: false,
      axis: isAcross ? 'y' : 'x',
      filter: (item, index) => !data.series[item.datasetIndex].guide && index < 16,
      callbacks: {
        title: items => titleOf(data, items),
        label: item => {
          const s = data.series[item.datasetIndex];
          if (data.kind !== 'points')
            return s.name + ': ' + print(item.parsed[value]);
          const name = data.labels[offsets[item.datasetIndex] + item.dataIndex];
          return [name || s.name, data.x + ': ' + print(item.parsed.x),
                  data.y + ': ' + print(item.parsed.y)];
        }
      }
    };
  }

  /* Lying bars take the room that they need: of two lines where a name does. */
  function heightOf(data, isNarrow) {
    const isTwoLines = data.labels.some(label => wrap(label, labelRoom(isNarrow)).length > 1);
    const n = data.kind === 'bar' || data.kind === 'across' ? data.series.length : 1;
    return 64 + data.labels.length * Math.max(isTwoLines ? 32 : 24, n > 1 ? 6 + 12 * n : 0) + 'px';
  }

  function draw(figure, data) {
    const plot = figure.querySelector('.plot'), width = plot.clientWidth, isNarrow = width < NARROW;
    const isAcross = isLying(data, isNarrow);
    plot.style.height = isAcross ? heightOf(data, isNarrow) : '';
    const legend = {
      display: data.series.length > 1 || !BARS[data.kind], align: 'start', position: 'bottom',
      labels: {color: colour('text'), boxWidth: 14, boxHeight: 4, padding: 12,
               font: {size: isNarrow ? 11 : 12}}
    };
    const tooltip = tooltipOf(data, isNarrow);
    return new Chart(figure.querySelector('canvas'), {
      type: BARS[data.kind] ? 'bar' : 'line',
      data: {labels: data.labels, datasets: data.series.map(s => datasetOf(data, s, width))},
      options: {
        locale: 'en', animation: false, responsive: true, maintainAspectRatio: false,
        normalized: true, indexAxis: isAcross ? 'y' : 'x',
        interaction: {mode: tooltip.mode, intersect: tooltip.intersect, axis: tooltip.axis},
        scales: scalesOf(data, isNarrow), plugins: {legend: legend, tooltip: tooltip}
      },
      plugins: [crosshair]
    });
  }

  /* ---- all of it ---- */

  const charts = Array.from(document.querySelectorAll('figure.chart'), figure => ({
    figure: figure, data: JSON.parse(figure.querySelector('script').textContent), drawn: null
  }));

  function drawAll() {
    for (const chart of charts) {
      if (chart.drawn)
        chart.drawn.destroy();
      chart.drawn = draw(chart.figure, chart.data);
    }
  }

  document.querySelectorAll('figure.table').forEach(setUpTable);
  const plans = Array.from(document.querySelectorAll('figure.plan'), figure => drawPlan(
    figure, JSON.parse(figure.querySelector('script').textContent),
    {button: button, offer: offer, colour: colour}));
  window.matrices = Array.from(document.querySelectorAll('figure.matrix'), figure => drawMatrix(
    figure, JSON.parse(figure.querySelector('script').textContent),
    {offer: offer, colour: colour}));
  window.lanes = Array.from(document.querySelectorAll('figure.lanes'), figure => drawLanes(
    figure, JSON.parse(figure.querySelector('script').textContent),
    {button: button, offer: offer, colour: colour}));
  window.plans = plans;  // for those who look from outside
  charts.forEach(chart => offer(chart.figure, () => chartRows(chart.data)));
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  drawAll();
  window.charts = charts;
  let seen = innerWidth;
  addEventListener('resize', () => {
    if ((seen < NARROW) !== (innerWidth < NARROW))
      drawAll();
    seen = innerWidth;
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
})();
