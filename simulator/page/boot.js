// Runs before the first paint, so that a chosen look does not flash in the other one.
"use strict";
(() => {
  const asked = new URLSearchParams(location.search);
  const remembered = (key) => {
    try {
      return localStorage.getItem(`simulator.${key}`);
    } catch {
      return null;
    }
  };
  const theme = asked.get("theme") ?? remembered("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
