// Numbers with units and times as people read them. Unknown is a dash.

export const UNKNOWN = "–";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const day = new Intl.DateTimeFormat(undefined, { day: "2-digit", month: "short" });

export const isKnown = (value) => value !== null && value !== undefined && !Number.isNaN(value);

/** A whole number with separators: `12,345`. */
export const count = (value) => (isKnown(value) ? whole.format(value) : UNKNOWN);

/** A number to three digits: `0.42`, `12.3`, `1,234`, `1.24M`. */
export function short(value) {
  if (!isKnown(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size >= 1e9) return `${digits(value / 1e9)}G`;
  if (size >= 1e6) return `${digits(value / 1e6)}M`;
  if (size >= 1e4) return `${digits(value / 1e3)}k`;
  return digits(value);
}

function digits(value) {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return whole.format(value);
  if (size < 0.01) return String(Number(value.toPrecision(2)));
  return value.toFixed(size >= 10 ? 1 : 2);
}

/** A share of 1 as per cent. */
export function percent(share) {
  if (!isKnown(share)) return UNKNOWN;
  const value = share * 100;
  if (value > 0 && value < 0.1) return "<0.1 %";
  return `${value >= 99.95 || value < 0.05 ? Math.round(value) : value.toFixed(value >= 10 ? 0 : 1)} %`;
}

/** Number and unit of a duration: `["240", "ms"]`. */
export function durationParts(seconds) {
  if (!isKnown(seconds)) return [UNKNOWN, ""];
  const size = Math.abs(seconds);
  if (size === 0) return ["0", "s"];
  if (size < 0.001) return [(seconds * 1e6).toFixed(0), "µs"];
  if (size < 0.01) return [(seconds * 1e3).toFixed(1), "ms"];
  if (size < 1) return [(seconds * 1e3).toFixed(0), "ms"];
  if (size < 100) return [seconds.toFixed(size < 10 ? 2 : 1), "s"];
  if (size < 7200)
    return [`${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`, "min"];
  if (size < 172800) return [(seconds / 3600).toFixed(1), "h"];
  return [(seconds / 86400).toFixed(1), "d"];
}

/** A duration: `240 ms`. */
export const duration = (seconds) => durationParts(seconds).join(" ").trim();

/** An instant in local time: the clock, and the day unless it is today. */
export function instant(text) {
  if (!text) return UNKNOWN;
  const date = new Date(text);
  const today = new Date().toDateString() === date.toDateString();
  return today ? clock.format(date) : `${day.format(date)} ${clock.format(date)}`;
}

/** An instant in UTC, for hovering. */
export const utc = (text) => (text ? `${text.replace("T", " ").replace("Z", "")} UTC` : "");

/** How long ago, roughly. */
export function ago(text, now = Date.now()) {
  if (!text) return UNKNOWN;
  const seconds = Math.max(0, (now - Date.parse(text)) / 1000);
  if (seconds < 1.5) return "now";
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} d ago`;
}

/** Money, a decimal string, without digits that say nothing. */
export function money(amount) {
  if (!isKnown(amount) || amount === "") return UNKNOWN;
  const [units, fraction = ""] = String(amount).split(".");
  const kept = fraction.replace(/0+$/, "");
  return `${whole.format(BigInt(units || "0"))}.${kept.padEnd(2, "0")}`;
}

/** A number in its unit: money in the deployment's currency, all else counted. Exact unless `rough`. */
export function quantity(value, unit, { rough = false } = {}) {
  if (!isKnown(value)) return UNKNOWN;
  if (unit === "currency_nanos") return rough ? short(value / 1e9) : money((value / 1e9).toFixed(9));
  return rough ? short(value) : count(value);
}

/** `QUEUE_REASON` and `running_out` as words. */
export const words = (name) => (name ? String(name).toLowerCase().replaceAll("_", " ") : UNKNOWN);

/** The end of an id: ids that were made one after the other begin alike. */
export const shortId = (id) => (id.length > 12 ? `…${id.slice(-10)}` : id);

/** One or several of something: `3 workers`. */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
