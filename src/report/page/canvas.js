/* A picture one can look around in: zoomed (buttons, keys, Ctrl and wheel, two fingers), moved (dragged,
 * arrows), and asked: what is pointed at is told below, and stays told once it is clicked.
 * picture: {whole: {t, w, a, h}, least: {w, h}, inner(), boxAt(x, y), describe(box), draw(width, height)};
 * t, w: the stretch that is seen along x, a, h: along y, upwards; inner: {left, top, w, h} of the part of the
 * canvas that shows it. An axis that is whole at its least neither zooms nor moves. */
window.lookAround = function (figure, picture, tools) {
  'use strict';

  const canvas = figure.querySelector('canvas'), context = canvas.getContext('2d');
  const told = figure.querySelector('.told'), rest = told.textContent;
  const {whole, least} = picture, view = Object.assign({}, whole), fingers = new Map();
  const isUpright = least.h < whole.h;
  let chosen = null, pinned = false, waiting = false, travelled = 0;

  /* ---- drawing ---- */

  function draw() {
    const width = canvas.clientWidth, height = canvas.clientHeight, scale = devicePixelRatio || 1;
    waiting = false;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    picture.draw(width, height);
  }

  function redraw() {
    if (!waiting)
      requestAnimationFrame(draw);
    waiting = true;
  }

  /* ---- zooming and moving ---- */

  function between(x, low, high) {
    return Math.min(Math.max(x, low), high);
  }

  function clamp() {
    view.t = between(view.t, 0, whole.w - view.w);
    view.a = between(view.a, 0, whole.h - view.h);
    canvas.style.touchAction = view.w < whole.w || view.h < whole.h ? 'none' : 'pan-y';
    redraw();
  }

  /* By a factor, so that what is at x, y stays there. */
  function zoom(factor, x, y) {
    const inner = picture.inner(), w = view.w, h = view.h;
    view.w = between(w / factor, least.w, whole.w);
    view.h = between(h / factor, least.h, whole.h);
    view.t += (x - inner.left) / inner.w * (w - view.w);
    view.a += (1 - (y - inner.top) / inner.h) * (h - view.h);
    clamp();
  }

  function zoomCentre(factor) {
    const inner = picture.inner();
    zoom(factor, inner.left + inner.w / 2, inner.top + inner.h / 2);
  }

  function move(dx, dy) {
    const inner = picture.inner();
    view.t -= dx / inner.w * view.w;
    view.a += dy / inner.h * view.h;
    clamp();
  }

  function showAll() {
    Object.assign(view, whole);
    clamp();
  }

  /* ---- pointing ---- */

  function choose(x, y) {
    const box = picture.boxAt(x, y);
    if (box === chosen)
      return;
    chosen = box;
    told.textContent = box ? picture.describe(box) : rest;
    redraw();
  }

  function place(event) {
    const at = canvas.getBoundingClientRect();
    return {x: event.clientX - at.left, y: event.clientY - at.top};
  }

  function spread() {
    const [a, b] = fingers.values();
    return {x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, d: Math.hypot(a.x - b.x, a.y - b.y) || 1};
  }

  function drag(id, from, to) {
    const before = fingers.size === 2 ? spread() : null;
    travelled += Math.hypot(to.x - from.x, to.y - from.y);
    fingers.set(id, to);
    if (before) {
      const now = spread();
      zoom(now.d / before.d, now.x, now.y);
      move(now.x - before.x, now.y - before.y);
    } else if (fingers.size === 1 && travelled > 4) {
      move(to.x - from.x, to.y - from.y);
    }
  }

  canvas.addEventListener('pointerdown', event => {
    fingers.set(event.pointerId, place(event));
    travelled = 0;
    try {
      canvas.setPointerCapture(event.pointerId);
    } catch (gone) {
      fingers.delete(event.pointerId);
    }
  });
  canvas.addEventListener('pointermove', event => {
    const from = fingers.get(event.pointerId), to = place(event);
    if (from)
      drag(event.pointerId, from, to);
    else if (!pinned)
      choose(to.x, to.y);
  });
  canvas.addEventListener('pointerup', event => {
    const at = place(event);
    if (!fingers.delete(event.pointerId) || travelled > 4)
      return;
    choose(at.x, at.y);
    pinned = chosen !== null;
  });
  canvas.addEventListener('pointercancel', event => fingers.delete(event.pointerId));
  canvas.addEventListener('pointerleave', () => {
    if (!pinned && fingers.size === 0)
      choose(-1, -1);
  });
  canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey)
      return;  // the page scrolls
    event.preventDefault();
    const at = place(event);
    zoom(Math.exp(-event.deltaY / 300), at.x, at.y);
  }, {passive: false});
  canvas.addEventListener('keydown', event => {
    const far = 60;
    const does = {ArrowLeft: () => move(far, 0), ArrowRight: () => move(-far, 0), '+': () => zoomCentre(1.5),
                  '=': () => zoomCentre(1.5), '-': () => zoomCentre(1 / 1.5), Escape: showAll, '0': showAll};
    if (isUpright)
      Object.assign(does, {ArrowUp: () => move(0, far), ArrowDown: () => move(0, -far)});
    if (!does[event.key])
      return;
    does[event.key]();
    event.preventDefault();
  });

  /* ---- around it ---- */

  figure.querySelector('.zoom').append(tools.button('', 'Zoom in', () => zoomCentre(2)),
                                       tools.button('', 'Zoom out', () => zoomCentre(0.5)),
                                       tools.button('', 'Show all', showAll));
  new ResizeObserver(redraw).observe(canvas);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  clamp();
  return {view: view, chosen: () => chosen, choose: choose, draw: draw};
};
