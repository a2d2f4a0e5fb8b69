// The pages: where each is, what it is called, which module draws it. A module is loaded when its
// page is first opened.

/** Groups of the navigation; `key` goes there after `g`. */
export const GROUPS = [
  [
    "Watch",
    [
      { id: "overview", label: "Overview", key: "o" },
      { id: "queue", label: "Queue", key: "q" },
      { id: "requests", label: "Requests", key: "r" },
    ],
  ],
  [
    "Capacity",
    [
      { id: "workers", label: "Workers", key: "w" },
      { id: "kv", label: "KV blocks", key: "k" },
      { id: "fairness", label: "Fairness", key: "f" },
    ],
  ],
  [
    "Tenants",
    [
      { id: "tenants", label: "Tenants", key: "t" },
      { id: "slo", label: "Objectives", key: "s" },
    ],
  ],
  [
    "Set-up",
    [
      { id: "directory", label: "Directory", key: "d" },
      { id: "configuration", label: "Configuration", key: "c" },
      { id: "audit", label: "Audit trail", key: "a" },
    ],
  ],
  ["Try", [{ id: "playground", label: "Playground", key: "p" }]],
];

/** Path patterns, each with the page of the navigation that it belongs to and its module. */
const ROUTES = [
  ["login", "login", () => import("../pages/login.js")],
  ["overview", "overview", () => import("../pages/overview.js")],
  ["queue", "queue", () => import("../pages/queue.js")],
  ["requests", "requests", () => import("../pages/requests.js")],
  ["requests/:request", "requests", () => import("../pages/request.js")],
  ["workers", "workers", () => import("../pages/workers.js")],
  ["kv", "kv", () => import("../pages/kv.js")],
  ["kv/:worker", "kv", () => import("../pages/kv.js")],
  ["fairness", "fairness", () => import("../pages/fairness.js")],
  ["tenants", "tenants", () => import("../pages/tenants.js")],
  ["tenants/:tenant", "tenants", () => import("../pages/tenant.js")],
  ["slo", "slo", () => import("../pages/slo.js")],
  ["directory", "directory", () => import("../pages/directory.js")],
  ["configuration", "configuration", () => import("../pages/configuration.js")],
  ["audit", "audit", () => import("../pages/audit.js")],
  ["playground", "playground", () => import("../pages/playground.js")],
];

/** Label of a page of the navigation. */
export const labelOf = (id) =>
  GROUPS.flatMap(([, pages]) => pages).find((page) => page.id === id)?.label ?? id;

/**
 * What a path leads to.
 *
 * @returns {{id: string, params: object, load: Function}|null} null: nothing
 */
export function match(path) {
  const segments = path
    .replace(/^\/console\/?/, "")
    .split("/")
    .filter(Boolean)
    .map(decodeSegment);
  if (segments.length === 0) segments.push("overview");
  for (const [pattern, id, load] of ROUTES) {
    const params = bind(pattern.split("/"), segments);
    if (params) return { id, params, load };
  }
  return null;
}

function bind(pattern, segments) {
  if (pattern.length !== segments.length) return null;
  const params = {};
  for (const [index, part] of pattern.entries()) {
    if (part.startsWith(":")) params[part.slice(1)] = segments[index];
    else if (part !== segments[index]) return null;
  }
  return params;
}

function decodeSegment(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
