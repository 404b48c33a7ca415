// Two profiles side by side: what differs by more than chance comes first. And the data to take along.
import {count, cycles, difference, percent, ratio, seconds, timeDifference} from "./format.js";
import {h, panel, table} from "./dom.js";

const points = x => { const text = (100 * x).toFixed(1); return Number(text) ? `${x > 0 ? "+" : ""}${text}` : "0.0"; };

export function comparePanel(profiles) {
    const [a, b] = profiles, totals = profiles.map(p => p.sum("functions", null)), names = new Map();
    for (const [side, p] of profiles.entries())
        for (const row of p.functions) {
            const key = row.rest ? "(others)" : `${row.name}\n${(row.dso || "").split("/").pop()}`;
            if (!names.has(key))
                names.set(key, {label: key.split("\n")[0], key, dso: row.dso || "", sides: []});
            names.get(key).sides[side] = row;
        }
    const timed = profiles.every(p => p.timed()), measure = timed ? "time" : "samples", all = profiles.map((p, i) => totals[i][p.metric[measure]]);
    const rows = [...names.values()].map(r => {
        const v = profiles.map((p, i) => r.sides[i]?.total || p.vector()), k = profiles.map((p, i) => v[i][p.metric[measure]]), share = [0, 1].map(i => ratio(k[i], all[timed ? 0 : i]) || 0);
        const [low, high] = timed ? timeDifference(profiles, v, totals) : difference(k[0], all[0], k[1], all[1]);
        return {...r, share, delta: share[1] - share[0], low, high, sure: low > 0 || high < 0};
    });
    const column = (name, title, help, value, show) => ({name, title, help, value, show});
    const p95 = (r, side) => r.sides[side] ? cycles(r.sides[side].percentile(95, null), profiles[side].sampling.counter_most) : "-";
    const t = table("differences", [
        column("sure", "change", "B minus A, percentage points; those beyond chance first", r => (r.sure ? 1 : 0) + Math.abs(r.delta), r => `${points(r.delta)} ${r.sure ? r.delta > 0 ? "more" : "less" : ""}`),
        {name: "name", title: "function", text: true, value: r => r.label, show: r => h("span", {class: "name", title: r.label}, r.label)},
        column("interval", "95% interval", "of the change", r => r.low, r => `${points(r.low)} to ${points(r.high)}`),
        column("a", "A", timed ? "time in A, of A's" : "share of the samples of A", r => r.share[0], r => percent(r.share[0])),
        column("b", "B", timed ? "time in B, of A's" : "share of the samples of B", r => r.share[1], r => percent(r.share[1])),
        column("p95a", "p95 A", "total latency in A", r => r.sides[0] ? r.sides[0].percentile(95, null) : -1, r => p95(r, 0)),
        column("p95b", "p95 B", "total latency in B", r => r.sides[1] ? r.sides[1].percentile(95, null) : -1, r => p95(r, 1)),
        {name: "dso", title: "in", text: true, value: r => r.dso, show: r => r.dso},
    ], {sort: "sure", filter: r => r.label, worth: r => Math.abs(r.delta) >= 0.0005, none: "No function differs."});
    t.set(rows);
    const about = (p, i) => h("li", {}, `${"AB"[i]}: ${p.input}, ${timed ? `${seconds(all[i] / 1e12)} of CPU time, ` : ""}${count(totals[i][p.metric.samples])} samples, ${(ratio(totals[i][p.metric.cycles], totals[i][p.metric.latencies]) || 0).toFixed(1)} cycles an operation`);
    return {element: panel("compare", "Compare", `${timed ? "Time by function, as a share of A's" : "Shares of samples by function (time is not known of both)"}, of the whole runs: if an interval does not contain 0, the difference is more than chance.`,
        h("ul", {class: "facts"}, about(a, 0), about(b, 1)), t.element), update() {}};
}

/* ---- data ---- */

function download(name, type, text) {
    const url = URL.createObjectURL(new Blob([text], {type}));
    h("a", {href: url, download: name}).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Rows of a table in the chosen range as CSV; a field that could be taken for a formula is quoted as text. */
export function csv(profile, name, range) {
    const keys = ["name", "dso", "pid", "tid", "pc", "symbol", "target", "file", "line"].filter(k => profile[name].some(r => r[k] !== undefined));
    const metrics = [...profile.metrics, ...profile.source_names.map(s => `from_${s.replace(/-/g, "_")}`)].map((m, i) => [m, i])
        .filter(([m]) => !["time_square", "repeats"].includes(m) || name === "functions");
    const quote = x => { const s = String(x ?? ""); return /^[=+@-]/.test(s) && Number.isNaN(Number(s)) ? `"'${s.replace(/"/g, '""')}"` : /[",\n\r]/.test(s) ? `"${s.replace(/"/g, '""')}"` : s; };
    const lines = [[...keys, ...metrics.map(([m]) => m)].join(",")];
    for (const row of profile[name]) {
        const v = row.sum(range);
        lines.push([...keys.map(k => quote(row[k])), ...metrics.map(([, i]) => v[i])].join(","));
    }
    return lines.join("\n") + "\n";
}

/** Call paths in the chosen range by the chosen measure, one a line as flame graph tools read them: main;walk 123. */
function collapsed(app) {
    const p = app.profile, paths = [], lines = [];
    for (const n of p.stacks.nodes) {
        paths.push([...(paths[n.parent] || []), (n.name || "other").replace(/[;\s]/g, "_")]);
        const v = Math.round(n.one(app.measure.metric, app.range, p.stacks.coarse));
        if (v)
            lines.push(`${paths[paths.length - 1].join(";")} ${v}`);
    }
    return lines.join("\n") + "\n";
}

const EXPLAIN = [
    ["Samples", "The unit picks one operation in every period and follows it to its end. The share of samples of a function is the share of operations it executed, not of time: operations that wait long are as likely to be picked as short ones."],
    ["Time", "The part of its CPU's time that a sample stands for: the time between records, divided among them by what each operation probably cost. Some of a sample's time may belong to a neighbouring interval. Charts over time therefore show the exact time that CPUs were at work in each interval, divided in proportion to the samples; numbers are sums over samples, as in the commands. In a short range they may be more or less than the time at work: the bar shows both. Records without timestamps have no time."],
    ["Waited", "The sum of the total latencies of the samples: how many cycles the sampled operations took from dispatch to completion. Operations overlap, so this is more than elapsed time; it shows where the machine waits."],
    ["± 95%", "Samples are drawn at random. In 95 of 100 such profiles, the true share is within this distance of the one in the first column. For time it depends on how much the samples' times vary and, for functions that alternate within a few periods, on how well the costs of their operations are known; for counts it is Wilson's interval. If the interval of a difference between two profiles contains 0, it may be chance."],
    ["p50, p95", "Half, or 95%, of the samples took at most this many cycles. For the whole run these are exact; for a selected range they are accurate to half a power of two, marked ~. ≥ means that the counter saturated there."],
    ["Miss ratios", "Misses as a share of the samples that accessed that level, according to the records' events."],
    ["From", "The data source that the CPU reports with a load; if it reports none, the level that the events show."],
    ["Ranges of time", "Ranges begin and end at the limits of intervals. The command beside the range selects the same samples on the command line."],
];

export function dataPanel(app, raw) {
    const button = (text, use) => h("button", {onclick: use}, text);
    const stem = (app.profile.input || "profile").split("/").pop();
    const tables = ["functions", "sources", "data", "pages", "lines", "branches", "targets", "threads", "cpus"];
    return {element: panel("data", "Data", "The numbers behind this page. CSV files hold the selected range.",
        h("div", {class: "row"}, button("all as JSON", () => download(`${stem}.json`, "application/json", JSON.stringify(raw))),
            tables.map(t => button(`${t}.csv`, () => download(`${stem}.${t}.csv`, "text/csv", csv(app.profile, t, app.range)))),
            app.profile.stacks ? button("call paths, collapsed", () => download(`${stem}.collapsed`, "text/plain", collapsed(app))) : null),
        h("details", {class: "explain"}, h("summary", {}, "What the numbers mean"), h("dl", {}, EXPLAIN.flatMap(([term, text]) => [h("dt", {}, term), h("dd", {}, text)]))),
        h("p", {class: "note"}, "Keyboard: Tab moves, Enter opens and sorts, arrow keys move in the flame graph and the time sliders, Escape selects the whole run.")), update() {}};
}
