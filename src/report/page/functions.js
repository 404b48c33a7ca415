// The table of functions; a row opens its source and instructions side by side.
import {bucketStart} from "./data.js";
import {count, cycles, percent, ratio, timeInterval, wilson} from "./format.js";
import {bar, h, panel, svg, table} from "./dom.js";

/** Columns that speak of a vector: misses, mispredicts, latencies, sources. What a row is comes before or behind. */
export function usual(app) {
    const m = app.profile.metric, most = app.profile.sampling.counter_most;
    const share = (name, title, help, a, b) => ({name, title, help, value: r => ratio(r.v[m[a]], r.v[m[b]]), show: r => percent(ratio(r.v[m[a]], r.v[m[b]]))});
    const p = q => ({name: `p${q}`, title: `p${q}`, help: `total latency in cycles: ${q}% took at most this long`,
        value: r => r.row.percentile(q, app.range), show: r => (app.range ? "~" : "") + cycles(r.row.percentile(q, app.range), most)});
    return {
        samples: {name: "samples", title: "samples", help: "number of samples", value: r => r.v[m.samples], show: r => count(r.v[m.samples])},
        waited: {name: "cycles", title: "waited", help: "share of the cycles that sampled operations took", value: r => r.v[m.cycles], show: r => percent(ratio(r.v[m.cycles], r.all[m.cycles]))},
        mean: {name: "mean", title: "mean", help: "total latency in cycles, mean", value: r => ratio(r.v[m.cycles], r.v[m.latencies]), show: r => { const x = ratio(r.v[m.cycles], r.v[m.latencies]); return Number.isFinite(x) ? x.toFixed(1) : "-"; }},
        p50: p(50), p95: p(95),
        l1: share("l1", "L1 miss", "L1 data cache: misses of accesses", "l1_miss", "l1_access"),
        llc: share("llc", "LLC miss", "last-level cache: misses of accesses", "llc_miss", "llc_access"),
        tlb: share("tlb", "TLB walk", "accesses that walked the page tables", "tlb_walk", "tlb_access"),
        mispredict: share("mispredict", "mispred.", "branches that were mispredicted", "mispredicted", "branches"),
        from: {name: "from", title: "from", help: "where most data came from", text: true, value: r => (app.profile.from(r.v) || [""])[0],
            show: r => { const f = app.profile.from(r.v); return f ? `${f[0]} ${Math.round(100 * f[1])}%` : ""; }},
    };
}

/** First column: the share of what is measured, with a bar. */
export function shareColumn(app) {
    return {name: "share", title: app.measure.title, help: `share of ${app.measure.title}`, value: r => r.v[app.measure.metric],
        show: r => bar(ratio(r.v[app.measure.metric], r.all[app.measure.metric]), percent(ratio(r.v[app.measure.metric], r.all[app.measure.metric])))};
}

/** Half of the 95% interval of that share, as report has it; of latencies there is none: they are sums that no draw explains. */
export function halfInterval(app, r) {
    const {id, metric} = app.measure;
    if (id === "cycles")
        return NaN;
    const [low, high] = id === "time" ? timeInterval(app.profile, r.v, r.all) : wilson(r.v[metric], r.all[metric]);
    return (high - low) / 2;
}

/** Whether a row has 0.5% of what is measured. */
const matters = app => r => r.v[app.measure.metric] >= 0.005 * r.all[app.measure.metric];

function errorColumn(app) {
    const {id, title} = app.measure, half = r => halfInterval(app, r);
    return {name: "error", title: "± 95%", help: id === "cycles" ? "not known for cycles" : `half of the 95% interval of the share of ${title}`, value: half, show: r => percent(half(r))};
}

/** Rows of a table of the profile with their vectors in the chosen range; those with nothing left out. */
export function rowsOf(app, rows, all, name = row => row.name) {
    return rows.map((row, i) => ({row, key: i, rest: row.rest, label: name(row), v: row.sum(app.range), all}))
        .filter(r => r.v[app.profile.metric.samples] > 0);
}

/** A latency histogram as a small picture. */
function histogram(profile, v) {
    const values = Array.from({length: 32}, (_, b) => v[profile.bucket + b]), most = Math.max(...values);
    if (!most)
        return null;
    const first = values.findIndex(x => x > 0), last = values.length - 1 - [...values].reverse().findIndex(x => x > 0);
    const path = values.map((x, b) => x ? `M${2 * b} 16v${-Math.max(1, 16 * Math.sqrt(x / most)).toFixed(1)}h2V16z` : "").join("");
    return svg("svg", {width: "64", height: "16", viewBox: "0 0 64 16", class: "histogram", role: "img",
        "aria-label": `latencies from ${bucketStart(first)} to ${bucketStart(last + 1) - 1} cycles`}, svg("path", {d: path}));
}

/** Arrows of jumps within the listing, in a gutter on the left; rows are all equally high. */
function arrows(instructions, high) {
    const at = new Map(instructions.map((i, n) => [i.at, n])), jumps = [];
    instructions.forEach((i, n) => {
        if (i.to !== undefined && at.has(i.to))
            jumps.push([n, at.get(i.to)]);
    });
    jumps.sort((a, b) => Math.abs(a[0] - a[1]) - Math.abs(b[0] - b[1]));
    const width = 44, lanes = [];
    const paths = jumps.slice(0, 60).map(([from, to]) => {
        const low = Math.min(from, to), top = Math.max(from, to);
        let lane = 0;
        while ((lanes[lane] || []).some(([a, b]) => low <= b && a <= top))
            lane++;
        (lanes[lane] = lanes[lane] || []).push([low, top]);
        const x = Math.max(3, width - 8 - 5 * lane), y0 = (from + 0.5) * high, y1 = (to + 0.5) * high;
        return svg("path", {d: `M${width} ${y0}H${x}V${y1}H${width}m-5 -3l5 3l-5 3`});
    });
    return svg("svg", {class: "arrows", width: String(width), height: String(instructions.length * high), "aria-hidden": "true"}, ...paths);
}

const ROW = 22;

function instructionTable(app, code, all, mark) {
    const u = usual(app), m = app.profile.metric, head = ["", "address", "instruction", "line", "samples", "p50", "p95", "latency", "from", "mispred."];
    const rows = code.instructions.map((row, n) => {
        const v = row.sum(app.range), r = {row, v, all}, seen = v[m.samples] > 0, gap = n && row.at !== code.instructions[n - 1].at + 4;
        const line = h("tr", {class: (seen ? "seen" : "") + (gap ? " gap" : ""), "data-line": row.file ? "" : row.line, onclick: () => mark(row.file ? 0 : row.line)},
            h("td", {}, seen ? bar(ratio(v[app.measure.metric], all[app.measure.metric]), percent(ratio(v[app.measure.metric], all[app.measure.metric]))) : ""),
            h("td", {class: "code"}, (BigInt(code.start) + BigInt(row.at)).toString(16)), h("td", {class: "code text"}, row.text || "(no code)"), h("td", {}, row.line ? String(row.line) : ""),
            h("td", {}, seen ? u.samples.show(r) : ""), h("td", {}, seen ? u.p50.show(r) : ""), h("td", {}, seen ? u.p95.show(r) : ""),
            h("td", {}, seen ? histogram(app.profile, v) : ""), h("td", {class: "text"}, seen ? u.from.show(r) : ""),
            h("td", {}, v[m.branches] ? u.mispredict.show(r) : ""));
        return line;
    });
    return h("div", {class: "scroll listing", tabindex: "0", role: "region", "aria-label": "Instructions"},
        h("div", {class: "gutter"}, arrows(code.instructions, ROW)),
        h("table", {}, h("thead", {}, h("tr", {}, head.map(t => h("th", {scope: "col", class: t === "instruction" || t === "from" ? "text" : ""}, t)))), h("tbody", {}, rows)));
}

function sourceTable(app, code, all, mark) {
    if (!code.source)
        return h("p", {class: "note"}, code.file ? `The source, ${code.file}, was not found below the current directory, the program's or --source-dir.` : "There are no source lines for this code (compile with -g).");
    const by = new Map();
    for (const i of code.instructions)
        if (!i.file && i.line)
            by.set(i.line, (by.get(i.line) || 0) + i.sum(app.range)[app.measure.metric]);
    return h("div", {class: "scroll source", tabindex: "0", role: "region", "aria-label": "Source"},
        h("table", {}, h("tbody", {}, code.source.map((text, n) => {
            const line = code.first_line + n, v = by.get(line);
            return h("tr", {class: v ? "seen" : "", "data-line": line, onclick: () => mark(line)},
                h("td", {}, v ? bar(ratio(v, all[app.measure.metric]), percent(ratio(v, all[app.measure.metric]))) : ""),
                h("td", {class: "dim"}, String(line)), h("td", {class: "code text"}, text.replace(/\t/g, "    ")));
        }))));
}

export function listing(app, index) {
    const code = app.profile.code.find(c => c.function === index);
    if (!code)
        return h("p", {class: "note"}, "Only the functions with the most samples have instructions here: ", h("code", {}, `spex annotate -i ${app.profile.input} '${app.profile.functions[index].name}'`));
    const all = app.profile.functions[index].sum(app.range), box = h("div", {class: "sides"});
    const mark = line => {
        for (const e of box.querySelectorAll("tr[data-line]"))
            e.classList.toggle("marked", line > 0 && e.dataset.line === String(line));
    };
    box.append(h("div", {}, h("h4", {}, code.file || "source"), sourceTable(app, code, all, mark)),
        h("div", {}, h("h4", {}, "instructions", h("small", {}, ` by ${app.profile.disassembler}; shares are of this function`)), instructionTable(app, code, all, mark),
            code.cut ? h("p", {class: "note"}, `${code.cut} more instructions are left out`) : null));
    return box;
}

export function functionsPanel(app) {
    const holder = h("div");
    let t, measure;
    function build() {
        const u = usual(app);
        const name = {name: "name", title: "function", text: true, value: r => r.label, show: r => h("span", {class: "name", title: r.label}, r.label)};
        const dso = {name: "dso", title: "in", text: true, value: r => r.row.dso || "", show: r => h("span", {class: "file", title: r.row.dso || ""}, r.row.dso || "")};
        t = table("functions", [shareColumn(app), errorColumn(app), name, u.samples, u.waited, u.mean, u.p50, u.p95, u.l1, u.llc, u.tlb, u.mispredict, u.from, dso],
            {sort: "share", filter: r => `${r.label} ${r.row.dso || ""}`, open: r => listing(app, r.key), worth: matters(app)});
        measure = app.measure;
        holder.replaceChildren(t.element);
    }
    return {
        element: panel("functions", "Functions", "+ shows a function's source beside its instructions.", holder),
        update() {
            if (measure !== app.measure)
                build();
            t.set(rowsOf(app, app.profile.functions, app.profile.sum("functions", app.range)));
        },
        open(index) { t.open(index); },
    };
}
