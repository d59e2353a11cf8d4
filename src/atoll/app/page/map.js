"use strict";
// The picture of all rows: dots on one canvas, the current row on another above it.
const Picture = (() => {
  const N_FIXED = 10; // colours that the style sheet sets, for light and for dark
  const all = document.getElementById("all");
  const mark = document.getElementById("mark");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let places = null; // {rows, x, y}
  let colours = null; // {classes, codes, sureness, labelled}
  let order = []; // the page's classes
  let current = null;

  function colourOf(index) {
    return index < N_FIXED ? `var(--c${index})` : `hsl(${(index * 137.5) % 360} 55% ${dark.matches ? 62 : 45}%)`;
  }

  // A canvas knows no variables.
  function inks(n) {
    const style = getComputedStyle(document.documentElement);
    return Array.from({ length: n }, (_, i) => (i < N_FIXED ? style.getPropertyValue(`--c${i}`).trim() : colourOf(i)));
  }

  function fitted(canvas) {
    const scale = window.devicePixelRatio || 1;
    const width = Math.max(1, Math.round(canvas.clientWidth * scale));
    if (canvas.width !== width || canvas.height !== width) canvas.width = canvas.height = width;
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientWidth);
    return context;
  }

  const EDGE = 10;
  const at = (value, size) => EDGE + value * (size - 2 * EDGE);

  function draw() {
    if (!places || !all.clientWidth) return;
    const context = fitted(all);
    const size = all.clientWidth;
    const n = places.rows.length;
    const radius = n > 3000 ? 1.3 : n > 600 ? 2 : 3;
    const grey = dark.matches ? "#6b7787" : "#9aa4b1";
    const known = colours && colours.codes;
    const index = known ? colours.classes.map((name) => order.indexOf(name)) : [];
    const least = known && index.length ? 100 / index.length : 0;
    const ink = inks(order.length);
    const labelled = new Set(known ? colours.labelled : []);
    const later = [];
    for (let i = 0; i < n; i++) {
      if (labelled.has(places.rows[i])) { later.push(i); continue; }
      const code = known ? colours.codes[i] : -1;
      context.fillStyle = code >= 0 ? ink[index[code]] : grey;
      const sure = code >= 0 ? Math.max(0, (colours.sureness[i] - least) / (100 - least)) : 0.3;
      context.globalAlpha = 0.18 + 0.62 * sure;
      context.beginPath();
      context.arc(at(places.x[i], size), at(1 - places.y[i], size), radius, 0, 7);
      context.fill();
    }
    context.globalAlpha = 1;
    for (const i of later) {
      const code = colours.codes[i];
      context.beginPath();
      context.arc(at(places.x[i], size), at(1 - places.y[i], size), radius + 1.7, 0, 7);
      context.fillStyle = code >= 0 ? ink[index[code]] : grey;
      context.fill();
      context.lineWidth = 1.4;
      context.strokeStyle = dark.matches ? "#12161c" : "#ffffff";
      context.stroke();
    }
    drawMark();
  }

  function drawMark() {
    if (!mark.clientWidth) return;
    const context = fitted(mark);
    if (!current) return;
    const size = mark.clientWidth;
    const x = at(current[0], size);
    const y = at(1 - current[1], size);
    for (const [width, colour] of [[5, dark.matches ? "#12161c" : "#ffffff"], [2.2, dark.matches ? "#ffffff" : "#1c2430"]]) {
      context.lineWidth = width;
      context.strokeStyle = colour;
      context.beginPath();
      context.arc(x, y, 8, 0, 7);
      context.stroke();
    }
  }

  dark.addEventListener("change", draw);
  new ResizeObserver(draw).observe(all);

  return {
    colourOf,
    setPlaces(found) { places = found; draw(); },
    hasPlaces: () => places !== null,
    setColours(found) { colours = found; draw(); },
    setOrder(names) {
      const changed = names.join("\n") !== order.join("\n");
      order = names.slice();
      if (changed) draw();
    },
    setCurrent(place) { current = place || null; drawMark(); },
  };
})();
