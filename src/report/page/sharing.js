// Cache lines that threads contend for, each as a picture; and branches.
import {count, cycles, percent, ratio, wilson} from "./format.js";
import {bar, canvas, colour, h, palette, panel, table} from "./dom.js";
import {rowsOf, usual} from "./functions.js";

const TITLES = {false: "false sharing", true: "true sharing", mixed: "true and false sharing"};
const WORTH = 0.1; /* as spex c2c: a score below is not worth a person's time */

/**
 * Who takes the line from whom, as [to, from, loads]: loads that another core's cache answered, from the other threads
 * that write it; of several, by how much each writes.
 */
function takes(line) {
    const peer = new Map(), stores = new Map(), out = [];
    for (const u of line.uses) {
        peer.set(u.tid, (peer.get(u.tid) || 0) + u.peer);
        stores.set(u.tid, (stores.get(u.tid) || 0) + u.stores);
    }
    for (const [to, n] of peer) {
        const others = [...stores].filter(([from, s]) => from !== to && s), all = others.reduce((sum, [, s]) => sum + s, 0);
        for (const [from, s] of others)
            if (n * s / all >= 0.5)
                out.push([to, from, n * s / all, others.length > 1]);
    }
    return out.sort((a, b) => b[2] - a[2]);
}

/** Arrows from the thread that had the line to the one that takes it, beside the rows; more loads, thicker. */
function drawTakes(g, list, threads, x, high) {
    const most = Math.max(1, ...list.map(t => t[2]));
    list.slice(0, 12).forEach(([to, from, n], i) => {
        const y0 = threads.indexOf(from) * high + high / 2, y1 = threads.indexOf(to) * high + high / 2, out = x + 24 + 5 * (i % 6), down = y1 > y0 ? 3 : -3;
        if (y0 < 0 || y1 < 0)
            return;
        g.strokeStyle = g.fillStyle = colour("dim");
        g.lineWidth = 1 + 2 * n / most;
        g.beginPath();
        g.moveTo(x + 2, y0 + down);
        g.bezierCurveTo(out, y0 + down, out, y1 - down, x + 6, y1 - down);
        g.stroke();
        g.beginPath();
        g.moveTo(x + 1, y1 - down);
        g.lineTo(x + 8, y1 - down - 4);
        g.lineTo(x + 8, y1 - down + 4);
        g.fill();
    });
    g.lineWidth = 1;
}

/** 64 bytes across, threads down; upper half of a box loads, lower half stores. */
function linePicture(line, number) {
    const threads = [...new Set(line.uses.map(u => u.tid))].slice(0, 32), HIGH = 30, LEFT = 64, taken = takes(line), RIGHT = taken.length ? 44 : 8;
    const offsets = [...new Set(line.uses.map(u => u.offset))].sort((a, b) => a - b);
    const size = o => Math.min(8, (offsets.find(x => x > o) || 64) - o);
    const most = Math.max(1, ...line.uses.map(u => Math.max(u.loads, u.stores)));
    return canvas(`Cache line ${number}: ${threads.length} threads over its 64 bytes; the table has the numbers`, threads.length * HIGH + 20, (g, width) => {
        const x = o => LEFT + (width - LEFT - RIGHT) * o / 64;
        threads.forEach((tid, i) => {
            g.fillStyle = colour("strip");
            g.fillRect(LEFT, i * HIGH, width - LEFT - RIGHT, HIGH - 4);
            g.fillStyle = colour("text");
            g.textAlign = "right";
            g.fillText(String(tid), LEFT - 6, i * HIGH + HIGH / 2 - 2);
        });
        g.strokeStyle = colour("line");
        g.fillStyle = colour("dim");
        g.textAlign = "center";
        for (let o = 0; o <= 64; o += 8) {
            g.beginPath();
            g.moveTo(x(o), 0);
            g.lineTo(x(o), threads.length * HIGH);
            g.stroke();
            if (o < 64)
                g.fillText(`+${o.toString(16).padStart(2, "0")}`, (x(o) + x(o + 8)) / 2, threads.length * HIGH + 10);
        }
        const boxes = new Map();
        for (const u of line.uses) {
            const key = `${u.tid} ${u.offset}`, box = boxes.get(key) || {tid: u.tid, offset: u.offset, loads: 0, stores: 0, peer: 0};
            box.loads += u.loads;
            box.stores += u.stores;
            box.peer += u.peer;
            boxes.set(key, box);
        }
        for (const u of boxes.values()) {
            const y = threads.indexOf(u.tid) * HIGH, half = (HIGH - 4) / 2, wide = x(u.offset + size(u.offset)) - x(u.offset) - 1;
            if (y < 0)
                continue;
            for (const [n, dy, c, what] of [[u.loads, 0, 0, "loads"], [u.stores, half, 1, "stores"]]) {
                if (!n)
                    continue;
                const strong = 0.35 + 0.65 * Math.sqrt(n / most);
                g.globalAlpha = strong;
                g.fillStyle = palette(c);
                g.fillRect(x(u.offset) + 0.5, y + dy, wide, half);
                g.globalAlpha = 1;
                g.fillStyle = colour(strong > 0.6 ? "on" : "text");
                g.textAlign = "center";
                if (wide > 40)
                    g.fillText(`${count(n)}${wide > 84 ? ` ${what}` : ""}`, x(u.offset) + wide / 2, y + dy + half / 2 + 1, wide - 4);
            }
        }
        drawTakes(g, taken, threads, width - RIGHT, HIGH);
    });
}

function lineBox(app, line, number, most) {
    const picture = linePicture(line, number), p = app.profile, all = p.sharing, taken = takes(line);
    const uses = h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": `Uses of line ${number}`}, h("table", {}, h("thead", {}, h("tr", {},
        ["offset", "thread", "loads", "stores", "p50", "p95", "from peers", "line", "code"].map((t, i) => h("th", {scope: "col", class: i > 6 || i === 1 ? "text" : ""}, t)))),
        h("tbody", {}, line.uses.slice(0, 16).map(u => h("tr", {}, h("td", {}, `+0x${u.offset.toString(16).padStart(2, "0")}`), h("td", {class: "text"}, `${u.comm || ""} ${u.tid}`),
            h("td", {}, count(u.loads)), h("td", {}, count(u.stores)), h("td", {}, cycles(u.p50, most)), h("td", {}, cycles(u.p95, most)),
            h("td", {}, all.by_source ? percent(ratio(u.peer, u.loads)) : "-"), h("td", {class: "text"}, u.srcline), h("td", {class: "text"}, u.symbol))))));
    return {element: h("article", {class: "line"}, h("h3", {}, `${number}. ${line.name || ""} `, h("code", {}, line.address), `: ${line.lock ? "contended lock" : TITLES[line.kind]}, score ${line.score.toFixed(2)}`),
        h("p", {}, line.text), h("div", {class: "picture"}, picture.element),
        taken.length ? h("p", {class: "note"}, `Who takes it from whom: ${taken.slice(0, 6).map(([to, from, n]) => `${to} from ${from} ${count(n)} loads`).join(", ")}${taken.length > 6 ? ` and ${taken.length - 6} more pairs` : ""}.${taken.some(t => t[3]) ? " Records do not say which core answered, so loads are divided by how much each thread writes." : ""}`) : null, uses, h("p", {class: "do"}, h("b", {}, "do: "), line.do)), paint: picture.paint};
}

export function sharingPanel(app) {
    const s = app.profile.sharing, bad = s.lines.filter(l => l.score >= WORTH), range = h("p", {class: "note"});
    const boxes = bad.slice(0, 12).map((l, i) => lineBox(app, l, i + 1, app.profile.sampling.counter_most));
    const cost = bad.length ? `${bad.length} of them cost${bad.length > 1 ? "" : "s"} time` : "none of them costs much";
    const answer = s.memory ? `${count(s.lines_seen)} cache lines were seen, ${s.lines_shared ? `${count(s.lines_shared)} used by several threads and written; ${cost}` : "none used by several threads and written"}.`
        : "No sample has a data address.";
    return {
        element: panel("sharing", "Sharing", answer, !s.memory || s.by_source ? null : h("p", {class: "note"}, "This CPU does not tell where data came from: judged by addresses, threads and times."),
            boxes.length ? h("ul", {class: "legend"}, h("li", {}, h("span", {class: "swatch c0"}), "loads"), h("li", {}, h("span", {class: "swatch c1"}), "stores")) : null, range, boxes.map(b => b.element)),
        update(what) {
            range.textContent = app.range && boxes.length ? `These numbers are of the whole run. In the chosen range: ${bad.slice(0, 12).map(l => {
                const row = app.profile.lines.find(r => r.name === l.address);
                return `${l.address} ${row ? count(row.sum(app.range)[app.profile.metric.samples]) : "?"} samples`;
            }).join(", ")}.` : "";
            if (what !== "range")
                boxes.forEach(b => b.paint());
        },
    };
}

export function branchesPanel(app) {
    const u = usual(app), m = app.profile.metric, any = app.profile.branches.length > 0, facts = h("p", {});
    const missed = {name: "missed", title: "of all mispredicts", help: "share of all mispredicts", value: r => r.v[m.mispredicted],
        show: r => bar(ratio(r.v[m.mispredicted], r.all[m.mispredicted]), percent(ratio(r.v[m.mispredicted], r.all[m.mispredicted])))};
    const number = {name: "number", title: "mispredicts", value: r => r.v[m.mispredicted], show: r => count(r.v[m.mispredicted])};
    const error = {name: "error", title: "± 95%", help: "half of the 95% interval of the ratio", value: r => r.v[m.mispredicted],
        show: r => { const [a, b] = wilson(r.v[m.mispredicted], r.v[m.samples]); return percent((b - a) / 2); }};
    const taken = {name: "taken", title: "taken", help: "share that was taken", value: r => ratio(r.v[m.branches] - r.v[m.not_taken], r.v[m.branches]),
        show: r => percent(ratio(r.v[m.branches] - r.v[m.not_taken], r.v[m.branches]))};
    const text = (name, title, show) => ({name, title, text: true, value: show, show: r => h("span", {class: "name", title: show(r)}, show(r))});
    const where = {...text("where", "line", r => r.row.file ? `${r.row.file.split("/").pop()}:${r.row.line}` : ""), bare: true};
    const branches = table("branches", [missed, text("pc", "branch", r => r.row.pc), text("in", "in", r => r.row.symbol), where, number, u.mispredict, error, u.samples, taken, u.p50, u.p95],
        {sort: "missed", most: 15, quiet: true, filter: r => `${r.row.pc} ${r.row.symbol}`, worth: r => r.v[m.mispredicted] >= 3,
            none: "No branch has three mispredicted samples."});
    const targets = table("targets", [{...u.samples, name: "share"}, u.mispredict, text("pc", "branch", r => r.row.pc || ""), text("in", "in", r => r.row.symbol || ""), text("to", "target", r => r.row.target || r.label)],
        {sort: "share", most: 12});
    return {
        element: panel("branches", "Branches", any ? "The branches that cause the mispredicts, and where indirect ones go." : null,
            any ? [facts, branches.element, app.profile.targets.length ? [h("h3", {}, "Targets of indirect branches"), targets.element] : null]
                : h("p", {}, "No sample is of a branch: sample them (branch_filter=1, or no filter).")),
        update() {
            if (!any)
                return;
            const all = app.profile.sum("functions", app.range);
            facts.textContent = `${count(all[m.branches])} branches sampled: ${percent(ratio(all[m.mispredicted], all[m.branches]))} mispredicted, ${percent(ratio(all[m.branches] - all[m.not_taken], all[m.branches]))} taken.`;
            branches.set(rowsOf(app, app.profile.branches, all, r => r.pc));
            targets.set(rowsOf(app, app.profile.targets, all, r => r.target));
        },
    };
}
