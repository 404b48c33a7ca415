// One axis of time for every picture that has one; a range chosen in any of them holds for the whole page.
import {bucketStart} from "./data.js";
import {count, percent, ratio, seconds} from "./format.js";
import {canvas, colour, forget, h, palette, panel, ramp, tip} from "./dom.js";

const LEFT = 64, RIGHT = 10, BOTTOM = 20;

/** Where intervals stand in a picture of this width. */
export function axis(profile, width) {
    const n = Math.max(1, profile.bins.count), inner = Math.max(1, width - LEFT - RIGHT);
    return {
        left: LEFT, right: LEFT + inner, inner,
        x: bin => LEFT + inner * bin / n,
        bin: x => Math.max(0, Math.min(n - 1, Math.floor((x - LEFT) / inner * n))),
    };
}

/** Ticks of 1, 2 or 5 times a power of ten, at most so many. */
function ticks(top, most) {
    if (!(top > 0))
        return [];
    const rough = top / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= rough);
    return Array.from({length: Math.floor(top / step + 1e-9) + 1}, (_, i) => i * step);
}

export function timeAxis(g, profile, width, y) {
    const a = axis(profile, width), span = profile.seconds(profile.bins.count);
    g.fillStyle = colour("dim");
    g.strokeStyle = colour("line");
    g.textAlign = "center";
    g.textBaseline = "top";
    for (const t of ticks(span, Math.max(2, Math.floor(a.inner / 90)))) {
        const x = a.left + a.inner * t / span;
        g.beginPath();
        g.moveTo(x, y);
        g.lineTo(x, y + 4);
        g.stroke();
        g.textAlign = x < a.left + 20 ? "left" : x > a.right - 20 ? "right" : "center";
        g.fillText(seconds(t), x, y + 6);
    }
    g.textBaseline = "middle";
}

/** What is not chosen is dimmed, the chosen range framed. */
export function shadeRange(g, app, width, top, bottom) {
    if (!app.range)
        return;
    const a = axis(app.profile, width), from = a.x(app.range.from), to = a.x(app.range.to + 1);
    g.save();
    g.globalAlpha = 0.6;
    g.fillStyle = colour("page");
    g.fillRect(a.left, top, from - a.left, bottom - top);
    g.fillRect(to, top, a.right - to, bottom - top);
    g.restore();
    g.strokeStyle = colour("accent");
    g.lineWidth = 2;
    g.strokeRect(from, top + 1, to - from, bottom - top - 2);
    g.lineWidth = 1;
}

/** Dragging over a picture chooses a range; a click without a drag, or Escape, chooses all again. */
export function brush(element, app, describe) {
    let start = -1;
    const at = event => axis(app.profile, element.clientWidth).bin(event.offsetX);
    element.classList.add("brush");
    element.addEventListener("pointerdown", event => {
        if (event.button || !app.profile.bins.count)
            return;
        start = at(event);
        element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointermove", event => {
        if (describe)
            tip(event, describe(at(event), event));
        if (start >= 0 && at(event) !== start)
            app.choose({from: Math.min(start, at(event)), to: Math.max(start, at(event))});
    });
    element.addEventListener("pointerup", event => {
        if (start >= 0 && at(event) === start)
            app.choose(app.range ? null : {from: start, to: start});
        start = -1;
    });
    element.addEventListener("pointerleave", event => tip(event, null));
}

/* ---- stacked area ---- */

const TOP = 7; /* as many as colours that can be told apart, and the others together */

/** A row's series as pictures show it. */
function shown(app, row) {
    const series = row.series(app.measure.metric);
    return app.measure.id !== "time" ? series : series.map((v, b) => v * (app.profile.scale ||= app.profile.scales())[b]);
}

/** The largest rows of a table by a metric, and by interval what each has. */
function layers(app, name) {
    const metric = app.measure.metric, rows = [...app.profile[name]];
    rows.sort((a, b) => (!!a.rest - !!b.rest) || b.total[metric] - a.total[metric]);
    const all = rows.reduce((sum, r) => sum + r.total[metric], 0);
    const out = rows.slice(0, TOP).filter(r => !r.rest && r.total[metric] > 0.005 * all)
        .map((row, i) => ({name: row.name, series: shown(app, row), colour: i}));
    const others = rows.slice(out.length);
    const rest = new Float64Array(app.profile.bins.count + 1);
    for (const row of others)
        shown(app, row).forEach((v, i) => { rest[i] += v; });
    if (rest.some(v => v > 0))
        out.push({name: "others", series: rest, colour: 8});
    return out;
}

function drawStack(g, width, height, app, list) {
    const a = axis(app.profile, width), n = app.profile.bins.count, bottom = height - BOTTOM;
    let most = 0;
    for (let b = 0; b < n; b++)
        most = Math.max(most, list.reduce((sum, l) => sum + l.series[b], 0));
    g.strokeStyle = colour("line");
    g.textAlign = "right";
    const cpu = app.measure.id === "time" ? 1000 * 2 ** app.profile.bins.shift : 0; /* time of one that was always at work */
    for (const tick of ticks(most / (cpu || 1), 4)) {
        const t = tick * (cpu || 1), y = bottom - (bottom - 8) * t / most;
        g.fillStyle = colour("dim");
        g.fillText(cpu ? `${Number(tick.toFixed(3))} CPU${tick > 1 ? "s" : ""}` : Intl.NumberFormat("en", {notation: "compact"}).format(t), a.left - 6, Math.max(8, y));
        g.beginPath();
        g.moveTo(a.left, y);
        g.lineTo(a.right, y);
        g.stroke();
    }
    for (let b = 0; b < n && most; b++) {
        let y = bottom;
        const x = Math.floor(a.x(b)), wide = Math.max(1, Math.ceil(a.x(b + 1)) - x);
        for (const layer of list) {
            const tall = (bottom - 8) * layer.series[b] / most;
            g.fillStyle = layer.paint;
            g.fillRect(x, y - tall, wide, tall);
            y -= tall;
        }
    }
    drawMarks(g, a, app.profile, bottom);
    timeAxis(g, app.profile, width, bottom);
}

const MARKS = ["events lost", "buffer full: data cut off", "collisions"];

/** What was not recorded, as triangles where it happened. */
function drawMarks(g, a, profile, bottom) {
    const marks = profile.marks || [];
    for (let i = 0; i < marks.length; i += 3) {
        const x = (a.x(marks[i]) + a.x(marks[i] + 1)) / 2;
        g.fillStyle = colour("text");
        g.beginPath();
        g.moveTo(x, 9);
        g.lineTo(x - 5, 1);
        g.lineTo(x + 5, 1);
        g.fill();
        g.fillRect(x - 0.5, 9, 1, bottom - 9);
    }
}

function marksAt(profile, bin) {
    const out = [], marks = profile.marks || [];
    for (let i = 0; i < marks.length; i += 3)
        if (marks[i] === bin)
            out.push(`▾ ${MARKS[marks[i + 1]]}: ${count(marks[i + 2])}`);
    return out;
}

/* ---- latency over time ---- */

function latencies(profile) {
    const n = profile.bins.count, grid = new Float64Array((n + 1) * 32);
    for (const row of profile.functions)
        row.each((bin, first, end) => {
            for (let i = first; i < end; i += 2)
                if (row.cells[i] >= profile.bucket)
                    grid[bin * 32 + row.cells[i] - profile.bucket] += row.cells[i + 1];
        });
    let top = 0, most = 0;
    grid.forEach((v, i) => {
        if (v > 0) {
            top = Math.max(top, i % 32);
            most = Math.max(most, v);
        }
    });
    return {grid, top, most};
}

function drawLatencies(g, width, height, app, map) {
    const a = axis(app.profile, width), n = app.profile.bins.count, bottom = height - BOTTOM;
    const paint = ramp(), tall = (bottom - 4) / (map.top + 1);
    for (let b = 0; b < n; b++)
        for (let k = 0; k <= map.top; k++) {
            const v = map.grid[b * 32 + k];
            if (!v)
                continue;
            g.fillStyle = paint(0.15 + 0.85 * Math.log1p(v) / Math.log1p(map.most));
            const x = Math.floor(a.x(b)), y = Math.floor(bottom - (k + 1) * tall);
            g.fillRect(x, y, Math.max(1, Math.ceil(a.x(b + 1)) - x), Math.ceil(bottom - k * tall) - y);
        }
    g.fillStyle = colour("dim");
    g.textAlign = "right";
    let last = bottom + 14;
    for (let k = 0; k <= map.top; k += 2) {
        const y = bottom - (k + 0.5) * tall;
        if (last - y < 14)
            continue;
        g.fillText(count(bucketStart(k)), a.left - 6, y);
        last = y;
    }
    timeAxis(g, app.profile, width, bottom);
}

/* ---- the panel ---- */

function rangeInputs(app) {
    const n = app.profile.bins.count;
    const input = (label, value, use) => h("label", {}, label,
        h("input", {type: "range", min: "0", max: String(n - 1), value: String(value), oninput: e => use(Number(e.target.value))}));
    const from = input("from ", 0, v => app.choose({from: v, to: Math.max(v, app.range ? app.range.to : n - 1)}));
    const to = input("to ", n - 1, v => app.choose({from: Math.min(v, app.range ? app.range.from : 0), to: v}));
    return {element: h("div", {class: "ranges"}, from, to), update() {
        for (const [e, v] of [[from, app.range ? app.range.from : 0], [to, app.range ? app.range.to : n - 1]]) {
            e.lastChild.value = String(v);
            e.lastChild.setAttribute("aria-valuetext", seconds(app.profile.seconds(v)));
        }
    }};
}

export function timePanel(app) {
    const profile = app.profile;
    if (!profile.bins.count)
        return {element: panel("time", "Time", null, h("p", {}, "The records have no timestamps: nothing can be shown over time. ",
            h("code", {}, "-e arm_spe/ts_enable=1/"), " records them.")), update() {}};
    let by = "functions", list = [], map = latencies(profile);
    const legend = h("ul", {class: "legend"});
    const describe = bin => [`${seconds(profile.seconds(bin))} to ${seconds(profile.seconds(bin + 1))}`,
        ...marksAt(profile, bin), ...list.filter(l => l.series[bin] > 0).map(l => `${l.name}: ${app.measure.show(l.series[bin])}`)];
    const stack = canvas("Share of functions or data sources over time; the table of functions has the numbers", 220,
        (g, width, height) => drawStack(g, width, height, app, list), {}, (g, width, height) => shadeRange(g, app, width, 4, height - BOTTOM));
    const heat = canvas("Latency of operations over time: how many took how long, in cycles, on a logarithmic scale", 180,
        (g, width, height) => drawLatencies(g, width, height, app, map), {}, (g, width, height) => shadeRange(g, app, width, 2, height - BOTTOM));
    brush(stack.element, app, describe);
    brush(heat.element, app, (bin, event) => {
        const tall = (180 - BOTTOM - 4) / (map.top + 1), k = Math.floor((180 - BOTTOM - event.offsetY) / tall);
        if (k < 0 || k > map.top)
            return null;
        return [`${seconds(profile.seconds(bin))}`, `${count(map.grid[bin * 32 + k])} operations of ${count(bucketStart(k))} to ${count(bucketStart(k + 1) - 1)} cycles`];
    });
    const inputs = rangeInputs(app);
    const select = h("select", {id: "stack-by", onchange: e => { by = e.target.value; relayer(); }},
        h("option", {value: "functions"}, "function"), h("option", {value: "sources"}, "data source"),
        h("option", {value: "threads"}, "thread"), h("option", {value: "data"}, "variable"));

    function relayer() {
        list = layers(app, by);
        if (by === "functions") /* they have these colours elsewhere too */
            app.tints = new Map(list.map(l => [l.name, l.colour]));
        for (const layer of list)
            layer.paint = palette(layer.colour);
        legend.replaceChildren(...list.map(l => h("li", {}, h("span", {class: "swatch", style: {background: l.paint}}), l.name)));
        stack.paint();
    }

    return {
        element: panel("time", "Time", "Drag across a chart to select a time range; the whole page follows. Click, or press Escape, to select the whole run.",
            h("div", {class: "row"}, h("label", {for: "stack-by"}, "by "), select),
            legend, (profile.marks || []).length ? h("p", {class: "note"}, "▾ marks where data was lost, cut off or collided.") : null,
            h("div", {class: "picture"}, stack.element), inputs.element,
            h("h3", {}, "Latency over time", h("small", {}, " cycles, logarithmic; stronger is more")), h("div", {class: "picture"}, heat.element)),
        update(what) {
            inputs.update();
            if (what === "range") {
                stack.shade();
                heat.shade();
            } else {
                relayer();
                heat.paint();
            }
        },
    };
}

/** Rows of strips over time: one row per item, its strength by a metric. Items: {name, series}. */
export function strips(app, label, items, describe) {
    const HIGH = 20;
    const most = () => items.reduce((m, i) => i.series.slice(0, app.profile.bins.count).reduce((x, y) => Math.max(x, y), m), 0);
    const picture = canvas(label, () => items.length * HIGH + BOTTOM, (g, width, height) => {
        const a = axis(app.profile, width), paint = ramp(), top = most();
        items.forEach((item, i) => {
            const y = i * HIGH;
            g.fillStyle = colour("strip");
            g.fillRect(a.left, y + 2, a.inner, HIGH - 4);
            for (let b = 0; b < app.profile.bins.count; b++) {
                if (!item.series[b])
                    continue;
                const x = Math.floor(a.x(b));
                g.fillStyle = paint(0.15 + 0.85 * Math.sqrt(item.series[b] / top));
                g.fillRect(x, y + 2, Math.max(1, Math.ceil(a.x(b + 1)) - x), HIGH - 4);
            }
            g.fillStyle = colour("text");
            g.textAlign = "right";
            g.fillText(item.short, a.left - 6, y + HIGH / 2, a.left - 8);
        });
        timeAxis(g, app.profile, width, height - BOTTOM);
    }, {}, (g, width, height) => shadeRange(g, app, width, 0, height - BOTTOM));
    brush(picture.element, app, (bin, event) => {
        const item = items[Math.floor(event.offsetY / HIGH)];
        return item ? [item.name, `${seconds(app.profile.seconds(bin))}: ${describe(item, bin)}`] : null;
    });
    return picture;
}

export function threadsPanel(app) {
    const holder = h("div", {class: "picture"}), cpus = h("div", {class: "picture"}), list = h("div", {});
    const unit = (item, bin) => `${app.measure.show(item.series[bin])}`;
    const [only, more] = app.profile.threads, alone = only && !more && app.profile.cpus.length === 1 && !only.rest && `${only.name} ${only.tid}`;
    let pictures = [];
    const draw = (into, label, rows, short, name) => {
        if (!app.profile.bins.count || !rows.length)
            return;
        const order = [...rows].sort((a, b) => (!!a.rest - !!b.rest) || (a.pid || 0) - (b.pid || 0) || (a.tid || a.name) - (b.tid || b.name));
        const picture = strips(app, label, order.map(r => ({name: name(r), short: short(r), series: shown(app, r)})), unit);
        into.replaceChildren(picture.element);
        picture.paint();
        pictures.push(picture);
    };
    return {
        element: alone ? panel("threads", "Threads and CPUs", `One thread, ${alone}, on one CPU.`)
            : panel("threads", "Threads and CPUs", "Which thread and which CPU was sampled when; stronger is more.", holder, h("h3", {}, "CPUs"), cpus, list),
        update(what) {
            if (alone)
                return;
            const threads = app.profile.threads, total = app.profile.sum("functions", app.range)[app.measure.metric];
            if (what === "range") {
                pictures.forEach(p => p.shade());
            } else {
                pictures.forEach(p => forget(p));
                pictures = [];
                draw(holder, "Threads over time", threads, r => r.rest ? "others" : r.tid, r => r.rest ? r.name : `${r.name} ${r.tid} of process ${r.pid}`);
                draw(cpus, "CPUs over time", app.profile.cpus, r => r.rest ? "others" : `CPU ${r.name}`, r => `CPU ${r.name}`);
            }
            list.replaceChildren(h("ul", {class: "facts"}, threads.slice(0, 16).map(r => {
                const v = r.sum(app.range)[app.measure.metric];
                return h("li", {}, `${r.rest ? r.name : `${r.name} ${r.tid}`}: ${percent(ratio(v, total))}`);
            })));
        },
    };
}
