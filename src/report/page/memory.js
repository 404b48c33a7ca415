// Where data comes from, which data, and where it lies over time.
import {bytes, count, percent, ratio, seconds} from "./format.js";
import {bar, canvas, colour, h, panel, ramp, table} from "./dom.js";
import {axis, brush, shadeRange, timeAxis} from "./time.js";
import {rowsOf, usual} from "./functions.js";

function levels(profile, v) {
    const m = profile.metric;
    return [["L1 data cache", "l1_access", "l1_miss"], ["L2 cache", "l2_access", "l2_miss"],
        ["last-level cache", "llc_access", "llc_miss"], ["TLB (walks)", "tlb_access", "tlb_walk"]]
        .map(([name, a, b]) => ({name, accesses: v[m[a]], misses: v[m[b]]})).filter(l => l.accesses || l.misses);
}

/* ---- addresses over time ---- */

const HIGH = 5, GAP = 18, BOTTOM = 20;

/** On which NUMA nodes a stretch or page lies, as far as physical addresses or memory that answered tell; else how much is remote. */
export function nodesOf(place) {
    const nodes = place.nodes || [], list = [];
    let all = 0;
    for (let i = 0; i < nodes.length; i += 2)
        all += nodes[i + 1];
    for (let i = 0; i < nodes.length && i < 6; i += 2)
        list.push(`node ${nodes[i]}${nodes.length > 2 ? ` ${percent(ratio(nodes[i + 1], all))}` : ""}`);
    if (!list.length && place.remote)
        list.push(`${percent(ratio(place.remote, place.samples))} remote`);
    return list.join(", ");
}

/** Stretches with five samples, and 0.2% of those of all. */
function stretches(app) {
    const samples = s => s.cells.reduce((sum, n, i) => sum + (i % 4 === 2 ? n : 0), 0), all = app.profile.map.reduce((sum, s) => sum + samples(s), 0);
    return app.profile.map.filter(s => samples(s) >= Math.max(5, 0.002 * all));
}

function mapPicture(app, map) {
    let top = 0;
    const places = map.map(s => { const at = top + GAP; top = at + s.rows * HIGH; return at; });
    const most = map.reduce((m, s) => { for (let i = 2; i < s.cells.length; i += 4) m = Math.max(m, s.cells[i]); return m; }, 1);
    const picture = canvas("Data addresses over time: which pages were used when; stronger is more", () => top + BOTTOM + 4, (g, width, height) => {
        const a = axis(app.profile, width), paint = ramp();
        map.forEach((s, i) => {
            g.fillStyle = colour("dim");
            g.textAlign = "left";
            const place = `   ${s.start}, ${bytes(s.rows * 2 ** s.shift)}, ${bytes(2 ** s.shift)} a row`, more = `${s.pid > 0 ? `, process ${s.pid}` : ""}${nodesOf(s) ? `, ${nodesOf(s)}` : ""}`;
            const texts = [...s.objects.keys()].map(n => `${s.name}: ${s.objects.slice(0, n + 1).join(", ")}${place}${more}`).reverse();
            texts.push(s.name + place + more, s.name + place);
            g.fillText(texts.find(t => g.measureText(t).width <= a.inner) || s.name, a.left, places[i] - GAP / 2, a.inner);
            g.fillStyle = colour("strip");
            g.fillRect(a.left, places[i], a.inner, s.rows * HIGH);
            for (let c = 0; c < s.cells.length; c += 4) {
                const x = Math.floor(a.x(s.cells[c + 1]));
                if (s.cells[c + 1] >= app.profile.bins.count)
                    continue;
                g.fillStyle = paint(0.2 + 0.8 * Math.log1p(s.cells[c + 2]) / Math.log1p(most));
                g.fillRect(x, places[i] + (s.rows - 1 - s.cells[c]) * HIGH, Math.max(1, Math.ceil(a.x(s.cells[c + 1] + 1)) - x), HIGH);
            }
        });
        timeAxis(g, app.profile, width, height - BOTTOM);
    }, {}, (g, width, height) => shadeRange(g, app, width, 0, height - BOTTOM));
    brush(picture.element, app, (bin, event) => {
        const i = places.findIndex((y, n) => event.offsetY >= y && event.offsetY < y + map[n].rows * HIGH);
        if (i < 0)
            return null;
        const s = map[i], row = s.rows - 1 - Math.floor((event.offsetY - places[i]) / HIGH);
        let samples = 0, waited = 0;
        for (let c = 0; c < s.cells.length; c += 4)
            if (s.cells[c] === row && s.cells[c + 1] === bin) {
                samples += s.cells[c + 2];
                waited += s.cells[c + 3];
            }
        const start = BigInt(s.start) + BigInt(row) * 2n ** BigInt(s.shift);
        return [`${s.name} 0x${start.toString(16)}${nodesOf(s) ? `, ${nodesOf(s)}` : ""}`, `${seconds(app.profile.seconds(bin))}: ${count(samples)} samples${samples ? `, ${count(waited / samples)} cycles each` : ""}`];
    });
    return picture;
}

/* ---- the panel ---- */

export function memoryPanel(app) {
    const u = usual(app), m = app.profile.metric, facts = h("ul", {class: "facts"});
    const waited = {name: "waited", title: "waiting", help: "share of the cycles that memory operations took", value: r => r.v[m.cycles],
        show: r => bar(ratio(r.v[m.cycles], r.all[m.cycles]), percent(ratio(r.v[m.cycles], r.all[m.cycles])))};
    const name = (title, code) => ({name: "name", title, text: true, value: r => r.label, show: r => h("span", {class: code ? "code" : "name", title: r.label}, r.label)});
    const make = (label, columns, most, few = {}) => table(label, columns, {sort: "waited", most, quiet: true, filter: most > 8 ? r => r.label : undefined, ...few});
    /* a page or line with one sample says nothing, nor does one whose data always is in the first cache */
    const far = r => !r.v[m.l1_access] || r.v[m.l1_miss] >= 0.01 * r.v[m.l1_access] || r.v[m.tlb_walk] >= 0.01 * r.v[m.tlb_access];
    const hot = {worth: r => r.v[m.samples] >= 5 && r.v[m.cycles] >= 0.01 * r.all[m.cycles] && far(r),
        none: "None stands out: none with misses has five samples and 1% of the waiting."};
    const tables = {
        sources: make("data sources", [waited, name("data came from"), u.samples, u.mean, u.p50, u.p95, u.tlb], 16),
        data: make("variables", [waited, name("variable or mapping"), u.samples, u.mean, u.p50, u.p95, u.l1, u.llc, u.tlb, u.from], 12, {worth: r => r.v[m.cycles] >= 0.005 * r.all[m.cycles]}),
        pages: make("pages", [waited, name("page", true), u.samples, u.mean, u.l1, u.tlb, u.from], 8, hot),
        lines: make("cache lines", [waited, name("cache line", true), u.samples, u.mean, u.l1, u.tlb, u.from], 8, hot),
    };
    const map = stretches(app), left_out = app.profile.map.length - map.length + (app.profile.map_left_out || 0);
    const picture = map.length && app.profile.bins.count ? mapPicture(app, map) : null;
    const any = app.profile.sources.length > 0;
    const content = any ? [facts, h("h3", {}, "Where data came from"), tables.sources.element,
        picture && [h("h3", {}, "Addresses over time"), h("div", {class: "picture"}, picture.element)],
        left_out ? h("p", {class: "note"}, `${count(left_out)} more stretch${left_out > 1 ? "es" : ""} of addresses, with few samples, ${left_out > 1 ? "are" : "is"} left out`) : null,
        h("h3", {}, "Which data"), tables.data.element,
        h("div", {class: "pair"}, h("div", {}, h("h3", {}, "Hot pages"), tables.pages.element), h("div", {}, h("h3", {}, "Hot cache lines"), tables.lines.element))]
        : h("p", {}, "No sample has a data address: sample loads and stores (load_filter=1,store_filter=1, or no filter).");
    return {
        element: panel("memory", "Memory", any ? "Where loads, stores and atomics found their data, and how long that took." : null, content),
        update(what) {
            if (!any)
                return;
            const all = app.profile.sum("sources", app.range);
            facts.replaceChildren(h("li", {}, `${count(all[m.samples])} memory samples: ${percent(ratio(all[m.reads], all[m.samples]))} read, ${percent(ratio(all[m.writes], all[m.samples]))} write`),
                ...levels(app.profile, all).map(l => h("li", {}, `${l.name}: ${percent(ratio(l.misses, l.accesses))} of ${count(l.accesses)} accesses miss`)),
                all[m.translations] ? h("li", {}, `translation: ${(all[m.translation] / all[m.translations]).toFixed(1)} cycles on average`) : "");
            for (const [key, t] of Object.entries(tables))
                t.set(rowsOf(app, app.profile[key], all, row => nodesOf(row) ? `${row.name}, ${nodesOf(row)}` : row.name));
            if (picture)
                what === "range" ? picture.shade() : picture.paint();
        },
    };
}
