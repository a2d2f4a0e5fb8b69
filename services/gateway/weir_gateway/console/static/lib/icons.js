// Icons as lines on a grid of 24, drawn in the colour of the text.

const NS = "http://www.w3.org/2000/svg";

const PATHS = {
  logo: ["M2 6.5h8.5c2.6 0 3 1.3 3 4v3c0 2.7.9 4 3.2 4H22", "M2 11.5h6.2c1.3 0 1.8.6 1.8 2V19", "M2 21.5h20"],
  overview: ["M3 12h4l3 8 4-16 3 8h4"],
  tenants: ["M4 21V5l8-2v18", "M12 9l8 2v10", "M2 21h20", "M8 8v0M8 12v0M8 16v0M16 14v0M16 17v0"],
  queue: ["M4 6h16", "M4 12h11", "M4 18h7", "M17 15l3 3-3 3"],
  kv: ["M4 4h6v6H4z", "M14 4h6v6h-6z", "M4 14h6v6H4z", "M14 14h6v6h-6z"],
  requests: ["M4 5h7", "M8 12h9", "M14 19h6"],
  fairness: ["M12 3v18", "M5 21h14", "M4 7h16", "M4 7l-2 7h5z", "M20 7l2 7h-5z"],
  playground: ["M4 5h16v11H10l-4 4v-4H4z"],
  workers: ["M6 6h12v12H6z", "M10 10h4v4h-4z", "M9 2v4M15 2v4M9 18v4M15 18v4M2 9h4M2 15h4M18 9h4M18 15h4"],
  slo: ["M12 21a9 9 0 1 1 9-9", "M12 16a4 4 0 1 1 4-4", "M12 12l9 9"],
  directory: ["M5 3h11l3 3v15H5z", "M9 9h6M9 13h6M9 17h4"],
  configuration: [
    "M4 7h9M19 7h1M4 17h1M11 17h9",
    "M16 4.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5z",
    "M8 14.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5z",
  ],
  audit: ["M12 3a9 9 0 1 1-8.5 6", "M3 4v5h5", "M12 8v5l3 2"],
  menu: ["M4 7h16M4 12h16M4 17h16"],
  sun: [
    "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8z",
    "M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5",
  ],
  moon: ["M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z"],
  help: [
    "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18z",
    "M9.5 9.5a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.8",
    "M12 16.5v.01",
  ],
  leave: ["M10 4H5v16h5", "M15 8l4 4-4 4", "M19 12H9"],
  copy: ["M9 9h11v11H9z", "M15 9V4H4v11h5"],
  close: ["M6 6l12 12M18 6L6 18"],
  search: ["M11 4a7 7 0 1 1 0 14 7 7 0 0 1 0-14z", "M16 16l5 5"],
};

/** An icon; hidden from screen readers, since the text beside it says the same. */
export function icon(name) {
  const svg = document.createElementNS(NS, "svg");
  const attributes = {
    viewBox: "0 0 24 24",
    fill: "none",
    stroke: "currentColor",
    "stroke-width": name === "logo" ? 2.4 : 1.75,
    "stroke-linecap": "round",
    "stroke-linejoin": "round",
    "aria-hidden": "true",
  };
  for (const [key, value] of Object.entries(attributes)) svg.setAttribute(key, value);
  for (const d of PATHS[name] ?? []) {
    const path = document.createElementNS(NS, "path");
    path.setAttribute("d", d);
    svg.append(path);
  }
  return svg;
}
