// The charts of the overview, which share one cursor.

import { duration, percent, short } from "../lib/format.js";
import { timeChart } from "./chart.js";

/** The charts; what a role does not see has none. */
export function overviewCharts(admin, signal) {
  const rate = (value) => (value === null || value === undefined ? "–" : `${short(value)}/s`);
  const group = "overview";
  const all = [
    {
      title: "Tokens",
      format: rate,
      area: true,
      series: [
        { key: "output_tokens_per_s", label: "output", color: "series-1" },
        { key: "prompt_tokens_per_s", label: "prompt", color: "series-4" },
        { key: "cached_tokens_per_s", label: "cached", color: "series-2" },
      ],
    },
    {
      title: "Time to first token",
      format: duration,
      series: [
        { key: "ttft_p50_s", label: "p50", color: "series-1" },
        { key: "ttft_p95_s", label: "p95", color: "series-5" },
      ],
    },
    {
      title: "Requests",
      format: rate,
      series: [
        { key: "requests_per_s", label: "accepted", color: "series-6" },
        { key: "refused_per_s", label: "refused", color: "series-5" },
      ],
    },
    {
      title: "In flight",
      format: short,
      area: true,
      series: [
        { key: "in_flight", label: "in flight", color: "series-3" },
        { key: "waiting", label: "waiting", color: "series-2" },
      ],
    },
    admin && {
      title: "Oldest wait",
      format: duration,
      series: [{ key: "oldest_wait_s", label: "oldest", color: "series-2" }],
    },
    admin && {
      title: "KV blocks held",
      format: percent,
      area: true,
      top: 1,
      series: [{ key: "kv_use", label: "of all", color: "series-1" }],
    },
  ];
  const shape = { span: admin ? 4 : 6, group, height: 132 };
  return all.filter(Boolean).map((options) => timeChart({ ...options, ...shape }, signal));
}
