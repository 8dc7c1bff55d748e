/* What a report does by itself: sorts tables, saves data as CSV, draws charts. The data of a chart
 * is the JSON beside it: {kind, x, y, xLog, yLog, labels, series: [{name, guide, x, y}]}. */
(function () {
  'use strict';

  const MOST_ROWS = 25;  // of a table; a longer one is folded to 20 by the style
  const BUCKETS = 1000;  // across a chart, in which a long line keeps first, least, most and last
  const N_COLOURS = 8;
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
    if (value !== 0 && (size < 1e-3 || size >= 1e7))
      return value.toExponential(2).replace(/\.?0+e/, 'e').replace('e+', 'e');
    return Number(value.toPrecision(4)).toLocaleString('en', {maximumFractionDigits: 6});
  }

  function shorten(text, most) {
    const characters = Array.from(text);
    return characters.length > most ? characters.slice(0, most - 1).join('') + '\u2026' : text;
  }

  function pointsOf(data, series) {
    const points = series.x.map((x, i) => ({x: shown(x, data.xLog), y: shown(series.y[i], data.yLog)}));
    return data.kind === 'points' && !series.guide ? points : thin(points, data.xLog);
  }

  /* The part of its place that a group of bars takes: bars need not be wider than this. */
  function groupWidth(data, width) {
    const n = data.kind === 'bar' ? data.series.length : 1;
    return data.kind === 'across' ? .85 : Math.min(.85, n * 56 * data.labels.length / width);
  }

  function datasetOf(data, series, width) {
    const i = data.series.filter(s => !s.guide).indexOf(series);  // guides take no colour
    const own = colour('series-' + i % N_COLOURS);
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
    if (series.guide)
      Object.assign(made, {
        type: 'line', showLine: true, pointRadius: 0, pointHitRadius: 0, borderWidth: 1,
        borderDash: [3, 4], borderColor: colour('muted'), backgroundColor: 'transparent', order: 1
      });
    return made;
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
      made.ticks.callback = print;
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
    if (data.xLog) {
      x.suggestedMin = room ? least / 1.5 : least;
      x.suggestedMax = room ? most * 1.5 : most;
    } else {
      x.min = least >= 0 && least < most / 20 ? 0 : least - room;
      x.max = most + room;
      x.ticks.includeBounds = false;
    }
  }

  function scalesOf(data, isNarrow) {
    const isAcross = data.kind === 'across', size = isNarrow ? 11 : 12;
    const x = axisOf(data, 'x', BARS[data.kind], size), y = axisOf(data, 'y', false, size);
    if (!y.ticks.callback || y.type === 'linear')
      y.beginAtZero = fromZero(data);
    if (data.kind === 'stacked')
      x.stacked = y.stacked = true;
    if (BARS[data.kind]) {
      x.ticks.autoSkip = !isAcross;
      x.ticks.callback = function (value) {
        return shorten(this.getLabelForValue(value), isNarrow ? 16 : 32);
      };
    } else {
      limit(data, x);
    }
    return isAcross ? {x: y, y: x} : {x: x, y: y};
  }

  function tooltipOf(data) {
    const isBars = BARS[data.kind], value = data.kind === 'across' ? 'x' : 'y';
    const offsets = [];
    data.series.reduce((n, s) => (offsets.push(n), n + (s.guide ? 0 : s.x ? s.x.length : 0)), 0);
    return {
      mode: data.kind === 'points' ? 'nearest' : isBars ? 'index' : 'x',
      intersect: data.kind === 'points',
      axis: data.kind === 'across' ? 'y' : 'x',
      filter: (item, index) => !data.series[item.datasetIndex].guide && index < 16,
      callbacks: {
        title: items => !items.length || data.kind === 'points' ? '' :
          isBars ? items[0].label : data.x + ': ' + print(items[0].parsed.x),
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

  function draw(figure, data) {
    const plot = figure.querySelector('.plot'), width = plot.clientWidth, isNarrow = width < 480;
    if (data.kind === 'across')
      plot.style.height = 64 + data.labels.length * (data.series.length > 1 ? 30 : 24) + 'px';
    const legend = {
      display: data.series.length > 1 || !BARS[data.kind], align: 'start', position: 'bottom',
      labels: {color: colour('text'), boxWidth: 14, boxHeight: 4, padding: 12,
               font: {size: isNarrow ? 11 : 12}}
    };
    const tooltip = tooltipOf(data);
    return new Chart(figure.querySelector('canvas'), {
      type: BARS[data.kind] ? 'bar' : 'line',
      data: {labels: data.labels, datasets: data.series.map(s => datasetOf(data, s, width))},
      options: {
        locale: 'en', animation: false, responsive: true, maintainAspectRatio: false,
        normalized: true, indexAxis: data.kind === 'across' ? 'y' : 'x',
        interaction: {mode: tooltip.mode, intersect: tooltip.intersect, axis: tooltip.axis},
        scales: scalesOf(data, isNarrow), plugins: {legend: legend, tooltip: tooltip}
      }
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
  window.plans = plans;  // for those who look from outside
  charts.forEach(chart => offer(chart.figure, () => chartRows(chart.data)));
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  drawAll();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
})();
