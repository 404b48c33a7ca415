// The page: its head, what is chosen (profile, measure, range of time), and the panels that follow it.
import {load} from "./data.js";
import {count, percent, ratio, seconds} from "./format.js";
import {bar, forgetCanvases, h, paintAll, panel} from "./dom.js";
import {threadsPanel, timePanel} from "./time.js";
import {functionsPanel, halfInterval, rowsOf} from "./functions.js";
import {iciclePanel} from "./icicle.js";
import {memoryPanel} from "./memory.js";
import {branchesPanel, sharingPanel} from "./sharing.js";
import {comparePanel, dataPanel} from "./compare.js";

const MEASURES = [
    {id: "time", title: "time", show: ps => seconds(ps / 1e12)},
    {id: "cycles", title: "cycles waited", unit: "cycles"},
    {id: "samples", title: "samples", unit: "samples"},
    {id: "l1_miss", title: "L1 misses", unit: "misses"},
    {id: "llc_miss", title: "LLC misses", unit: "misses"},
    {id: "tlb_walk", title: "TLB walks", unit: "walks"},
    {id: "mispredicted", title: "mispredicts", unit: "mispredicts"},
];

const page = load(), main = document.getElementById("main");
const app = {profile: null, range: null, measure: null, choose};
let panels = [], pending = false;

function measures() {
    const all = app.profile.sum("functions", null);
    return MEASURES.map(m => ({...m, metric: app.profile.metric[m.id]})).map(m => ({show: x => `${count(x)} ${m.unit}`, ...m})).filter(m => m.metric !== undefined && (all[m.metric] > 0 || m.id === "samples"));
}

/* ---- head ---- */

function fact(label, value) {
    return value ? [h("dt", {}, label), h("dd", {}, value)] : [];
}

/** How whose time it is was told, and how far to trust that (docs/time.md). */
function shared(p) {
    const r = p.replay, core = r.core || "a generic core", whole = x => `${x > 9.99 ? "over 999" : Math.round(100 * x)}%`;
    if (r.trust === "none")
        return "latencies alone: functions that take turns may be 20% off";
    return [`replay on ${core}`, r.unfit_core ? `, as ${r.unfit_core}'s numbers do not fit (${whole(r.unfit_misfit)} off)` : r.chosen_by_fit ? ", which fits best (this CPU is not known)" : "",
        `; fit: ${r.trust}, issue latencies ${whole(r.issue_misfit)} off`, r.share < 0.995 ? `; ${whole(1 - r.share)} of samples by latencies alone` : ""].join("");
}

function head() {
    const p = app.profile, t = p.totals, s = p.sampling, span = (t.last_time - t.first_time) / 1e9;
    const problems = [[t.lost, "events lost"], [t.truncated, "buffers cut off"], [t.collided, "buffers with collisions"], [t.damaged, "damaged places"]].filter(x => x[0]).map(([n, text]) => `${count(n)} ${text}`);
    const command = (p.command || []).map(a => /^[\w./:=,@%+-]+$/.test(a) ? a : `'${a.replace(/'/g, "'\\''")}'`).join(" ");
    document.getElementById("head").replaceChildren(
        h("div", {class: "row"}, h("h1", {}, document.title), h("button", {class: "theme", onclick: theme, "aria-label": "Light or dark"}, "◐")),
        answer(), findings(), elapsed(), h("dl", {class: "about"}, fact("profile", p.input !== document.title && p.input),
            fact("model", s.model && `${s.model}; intervals cover sampling, not the model's error`),
            fact("machine", (s.model ? [s.cpu] : [s.cpu, p.machine, p.host, p.kernel]).filter(Boolean).join(", ")),
            fact("instructions", s.erratum && `trust functions and lines: shares of neighbouring instructions are biased on the Neoverse N1 before r4p1 (erratum ${s.erratum})`),
            fact("event", s.event !== null ? `arm_spe/${s.event}/` : ""), fact("period", s.period ? `${count(s.period)} operations${s.jitter ? "" : " (no jitter)"}` : ""),
            fact("samples", `${count(t.samples)}${t.samples !== t.records ? ` of ${count(t.records)}` : ""}`), fact("time", p.timed() ? seconds(span) : t.samples ? `not known, since ${t.timed ? "no time lies between the records" : "the records have no timestamps (ts_enable=1)"}: shares are of operations` : ""),
            fact("time shared by", p.timed() && shared(p)), fact("not recorded", problems.join(", ") || "nothing lost"), fact("filters", p.filters.map(([n, v]) => `--${n} ${v}`).join(" ")),
            fact("only operations with", s.filters), fact("source in this page", p.source_files.length ? h("details", {}, h("summary", {}, `of ${count(p.source_files.length)} file${p.source_files.length === 1 ? "" : "s"}`), h("ul", {}, p.source_files.map(f => h("li", {}, h("code", {}, f))))) : "none")),
        h("dl", {class: "about one"}, fact("command", command && h("code", {}, command))));
}

/** The answer in one line: which function has most, how much of it, and where its data comes from. */
function answer() {
    const p = app.profile, m = p.metric, measure = measures().find(x => x.id === "time") || measures().find(x => x.id === "samples");
    const [first] = rowsOf(app, p.functions, p.sum("functions", null)).filter(r => !r.rest).sort((a, b) => b.v[measure.metric] - a.v[measure.metric]);
    if (!first)
        return "";
    const share = ratio(first.v[measure.metric], first.all[measure.metric]), half = halfInterval({...app, measure}, first), from = p.from(first.v);
    const misses = ratio(first.v[m.l1_miss], first.v[m.l1_access]);
    const part = [h("b", {}, percent(share)), half > 0 ? ` ± ${percent(half)}` : "", measure.id === "time" ? ` of ${seconds(first.all[m.time] / 1e12)} of CPU time` : " of the operations"];
    if (share < 0.05)
        return h("p", {class: "answer"}, "No function takes much: the first, ", h("b", {}, first.label), ", has ", part, ".");
    return h("p", {class: "answer"}, h("b", {}, first.label), " takes ", part,
        misses >= 0.1 && from ? `; ${Math.round(100 * misses)}% of its accesses miss the L1 cache, and ${Math.round(100 * from[1])}% of its data comes from ${from[0]}` : "", ".");
}

/* The panel that has the evidence of a kind of finding; the others are of lines that threads share. */
const EVIDENCE = {"far-data": "memory", "table-walks": "memory", "remote-data": "memory", mispredicted: "branches", "dependent-loads": "functions", "dependent-chain": "functions", "store-forwarding": "functions", division: "functions", "split-accesses": "functions", "cold-code": "functions"};

/** What the analysis found, in words, each with a link to its evidence. */
function findings() {
    const list = app.profile.findings;
    if (!app.profile.totals.samples)
        return "";
    if (!list.length)
        return h("p", {class: "findings none"}, "Nothing stands out in memory, sharing or branches.");
    return h("ol", {class: "findings"}, list.map(f => h("li", {},
        f.share > 0 ? h("div", {class: "cost", title: "share of the time concerned"}, bar(f.share, percent(f.share))) : "",
        h("a", {href: `#${f.case === "sleep" ? "elapsed" : EVIDENCE[f.kind] || "sharing"}`}, EVIDENCE[f.kind] || f.kind === "peer-data" || f.case === "sleep" ? f.text : `${f.place}: ${f.text}`),
        h("div", {class: "do"}, h("b", {}, "do: "), f.do), h("div", {class: "see"}, h("code", {}, f.see)))));
}

/** What threads did while they did not run: it is no part of what the rest of the page counts. */
function elapsed() {
    const e = app.profile.elapsed, part = ns => percent(ns / e.time_ns);
    if (!e || e.time_ns - e.running_ns < 0.01 * e.time_ns)
        return "";
    const rows = e.rows.filter(r => r.elapsed >= 0.01), cell = text => h("td", {class: "text"}, text || "");
    return h("div", {id: "elapsed"}, h("p", {}, `Elapsed: ${seconds(e.time_ns / 1e9)} of ${count(e.threads)} thread${e.threads === 1 ? "" : "s"}: ${part(e.running_ns)} running, ${part(e.kernel_ns)} in the kernel, ${part(e.waiting_ns)} waiting.`),
        rows.length ? h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "elapsed time"}, h("table", {}, h("caption", {class: "hidden"}, "elapsed time"),
            h("thead", {}, h("tr", {}, ["elapsed", "time", "threads", "calls"].map(t => h("th", {scope: "col"}, t)), ["not running", "for", "called from", "line"].map(t => h("th", {scope: "col", class: "text"}, t)))),
            h("tbody", {}, rows.map(r => h("tr", {}, [percent(r.elapsed), seconds(r.time_ns / 1e9), count(r.threads), count(r.calls)].map(t => h("td", {}, t)), [r.what, r.object, r.function, r.line].map(cell)))))) : "");
}

function theme() {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    update("theme");
}

/* ---- what is chosen ---- */

function chosenBar() {
    const p = app.profile, range = app.range, all = p.sum("functions", range), m = p.metric, work = p.work(range);
    const filters = p.filters.filter(([n]) => n !== "time").map(([n, v]) => ` --${n} '${v}'`).join("");
    const nav = document.getElementById("bar"), keep = document.activeElement?.id;
    nav.replaceChildren(
        page.profiles.length > 1 ? h("div", {class: "tabs", role: "group", "aria-label": "Profile"}, page.profiles.map((one, i) =>
            h("button", {id: `profile-${i}`, "aria-pressed": String(one === p), onclick: () => show(one)}, `${"AB"[i]} ${one.input}`))) : "",
        h("label", {}, "by ", h("select", {id: "measure", onchange: e => { app.measure = measures().find(x => x.id === e.target.value); update("measure"); }},
            measures().map(x => h("option", {value: x.id, selected: x.id === app.measure.id}, x.title)))),
        h("span", {id: "chosen", "aria-live": "polite"}, range ? `${seconds(p.seconds(range.from))} to ${seconds(p.seconds(range.to + 1))}: ` : "whole run: ",
            h("b", {}, `${count(all[m.samples])} samples`), `${all[m.time] > 0 ? `, ${seconds(all[m.time] / 1e12)} of CPU time${work ? ` (CPUs were at work for ${seconds(work / 1e9)})` : ""}` : ""}, ${count(all[m.cycles])} cycles waited, ${percent(ratio(all[m.mispredicted], all[m.branches]))} mispredicted`),
        range ? h("span", {}, h("code", {id: "command"}, `spex report -i ${p.input}${filters} --time ${p.timeOption(range)}`), " ",
            h("button", {id: "all", onclick: () => choose(null)}, "all")) : "");
    if (keep)
        document.getElementById(keep)?.focus();
}

function choose(range) {
    app.range = range;
    if (!pending)
        requestAnimationFrame(() => { pending = false; update("range"); });
    pending = true;
}

/* Panels that do not yet speak of the chosen range: those far from what is seen wait until the range stays. */
const waiting = new Set();
let timer = 0;

function near(one) {
    const r = one.element.getBoundingClientRect();
    return r.bottom > -innerHeight / 2 && r.top < 1.5 * innerHeight;
}

function catchUp(which) {
    for (const one of [...waiting].filter(which)) {
        waiting.delete(one);
        one.update("range");
    }
    main.setAttribute("aria-busy", String(waiting.size > 0));
}

function update(what) {
    if (what === "theme")
        paintAll();
    chosenBar();
    clearTimeout(timer);
    if (what === "range") {
        panels.forEach(one => waiting.add(one));
        catchUp(near);
        timer = setTimeout(() => catchUp(() => true), 150);
        return;
    }
    waiting.clear();
    for (const one of panels)
        one.update(what);
    main.setAttribute("aria-busy", "false");
}

/* ---- the page ---- */

/** Panels of a profile without samples. */
function nothing() {
    return Object.entries({time: "Time", functions: "Functions", icicle: "Files, functions, lines", memory: "Memory", sharing: "Sharing", branches: "Branches", threads: "Threads and CPUs"})
        .map(([id, title]) => ({element: panel(id, title, null, h("p", {class: "note"}, "No samples.")), update() {}}));
}

function show(profile) {
    app.profile = profile;
    app.range = null;
    app.measure = measures().find(m => m.id === app.measure?.id) || measures().find(m => m.id === "time" || m.id === "samples");
    forgetCanvases();
    head();
    const functions = functionsPanel(app), open = index => { functions.open(index); document.getElementById("functions").scrollIntoView(); };
    const tree = () => iciclePanel(app, open), code = () => profile.stacks ? [tree(), functions] : [functions, tree()];
    const shown = () => [timePanel(app), ...code(), memoryPanel(app), sharingPanel(app), branchesPanel(app), threadsPanel(app)];
    panels = [...(profile.totals.samples ? shown() : nothing()),
        ...(page.profiles.length > 1 ? [comparePanel(page.profiles)] : []), dataPanel(app, page.raw)];
    const empty = profile.totals.samples ? "" : h("p", {class: "empty"}, profile.totals.records ? "No record passes the filters." : "The profile holds no sample records.");
    main.replaceChildren(empty, ...panels.map(p => p.element));
    update("profile");
}

document.addEventListener("keydown", event => {
    if (event.key === "Escape" && app.range)
        choose(null);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => update("theme"));
addEventListener("scroll", () => waiting.size && catchUp(near), {passive: true});
addEventListener("beforeprint", () => { catchUp(() => true); paintAll(); });
let width = innerWidth;
addEventListener("resize", () => {
    if (innerWidth !== width)
        requestAnimationFrame(paintAll);
    width = innerWidth;
});
show(page.profiles[0]);
