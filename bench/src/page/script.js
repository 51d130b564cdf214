"use strict";
// Everything is on the page without it: this only hides what is not looked for.
const box = document.getElementById("filter");
const behind = document.getElementById("only-behind");
const apply = () => {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll("[data-row]")) {
    const isNamed = words.every((word) => row.dataset.row.includes(word));
    row.hidden = !isNamed || (behind.checked && row.dataset.behind !== "yes");
  }
  for (const group of document.querySelectorAll("[data-group]")) {
    group.hidden = !group.querySelector("[data-row]:not([hidden])");
  }
};
box.addEventListener("input", apply);
behind.addEventListener("change", apply);
document.getElementById("controls").hidden = false;
