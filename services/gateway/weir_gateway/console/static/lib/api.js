// Calls of the console's API: JSON in and out, errors as one kind, a lost session told once.

const BASE = "/console/api/";
const TIMEOUT_MS = 20_000;

let csrf = "";
let onLost = () => {};

/** What went wrong with a call, in the server's words. */
export class ApiError extends Error {
  constructor(status, { message, reason = "", param = "" }, retryAfter = "") {
    super(message);
    Object.assign(this, { status, reason, param, retryAfter });
  }
}

/** Keeps the token that changes need, and what to do when the session has ended. */
export function useSession(token, lost) {
  csrf = token;
  onLost = lost;
}

/** The header that every change needs. */
export const changeHeaders = () => ({ "x-weir-csrf": csrf });

/** Path with a query; empty values are left out. */
export function withQuery(path, query = {}) {
  const given = Object.entries(query).filter(
    ([, value]) => value !== "" && value !== null && value !== undefined,
  );
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** Path of segments that may hold anything. */
export const pathOf = (...segments) => segments.map(encodeURIComponent).join("/");

/** Reads. */
export const get = (path, query, signal) => call("GET", withQuery(path, query), undefined, signal);

/** Changes. */
export const post = (path, body, signal) => call("POST", path, body, signal);

async function call(method, path, body, signal) {
  const headers = method === "GET" ? {} : changeHeaders();
  if (body !== undefined) headers["content-type"] = "application/json";
  const deadline = AbortSignal.timeout(TIMEOUT_MS);
  const response = await send(BASE + path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
  });
  if (response.status === 204) return null;
  if (response.ok) return response.json();
  const error = await errorOf(response);
  if (error.status === 401 && path !== "login" && path !== "session") onLost(error);
  throw error;
}

async function send(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const message =
      error.name === "TimeoutError"
        ? `The gateway did not answer within ${TIMEOUT_MS / 1000} s. Look at its log, or try again.`
        : "The gateway cannot be reached. Is it running, and is the network up? This page goes on trying.";
    throw new ApiError(0, { message, reason: "UNREACHABLE" });
  }
}

/** The error that an answer holds. */
export async function errorOf(response) {
  const retryAfter = response.headers.get("retry-after") ?? "";
  try {
    const { error } = await response.json();
    return new ApiError(response.status, error, retryAfter);
  } catch {
    return new ApiError(
      response.status,
      { message: `The gateway answered ${response.status} without saying why.` },
      retryAfter,
    );
  }
}
