"use strict";
// Pointing at a tile, or walking to it with the arrow keys, tells what it is. Without this script
// the browser's own tooltips and the table do.
const detail = document.getElementById("detail");
const tell = (event) => {
  const tile = event.target.closest(".tile");
  if (tile) detail.textContent = tile.getAttribute("aria-label");
};
// Not on the pictures: Chromium lets SVG elements that listen for focus take it.
document.addEventListener("pointerover", tell);
document.addEventListener("focusin", tell);
const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
for (const map of document.querySelectorAll(".map")) {
  const tiles = [...map.querySelectorAll(".tile")];
  map.addEventListener("keydown", (event) => {
    const at = tiles.indexOf(document.activeElement);
    const next = { Home: 0, End: tiles.length - 1 }[event.key] ?? at + (step[event.key] ?? NaN);
    if (at < 0 || !tiles[next]) return;
    event.preventDefault();
    tiles[at].tabIndex = -1;
    tiles[next].tabIndex = 0;
    tiles[next].focus();
  });
}
