// Before anything is drawn: the chosen theme, so that no page flashes in the other one.
(function () {
  try {
    const theme = localStorage.getItem("weir.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is forbidden: the system's theme it is.
  }
})();
