// Where it is spent, from the outside in: by call paths, where samples have call stacks, and by file, function, source line.
import {count} from "./format.js";
import {h, panel} from "./dom.js";
import {treePicture} from "./tree.js";

function finish(children) {
    children.sort((a, b) => b.value - a.value);
    return {key: "", name: "all", value: children.reduce((s, c) => s + c.value, 0), children};
}

/** File, function, line. */
function growFiles(app) {
    const metric = app.measure.metric, files = new Map(), code = new Map(app.profile.code.map(c => [c.function, c]));
    app.profile.functions.forEach((row, index) => {
        const value = row.sum(app.range)[metric];
        if (!value)
            return;
        const file = row.rest ? "others" : row.dso;
        if (!files.has(file))
            files.set(file, {key: file, name: file, value: 0, children: []});
        const node = {key: index, name: row.name, value, children: [], function: row.rest ? undefined : index}, lines = new Map();
        for (const i of code.get(index)?.instructions || []) {
            const v = i.one(metric, app.range), line = i.line ? `${(i.file || "").split("/").pop()}${i.file ? ":" : "line "}${i.line}` : "no line";
            if (v)
                lines.set(line, (lines.get(line) || 0) + v);
        }
        node.children = lines.size === 1 && lines.has("no line") ? [] : [...lines].map(([name, v]) => ({key: name, name, value: v, children: []})).sort((a, b) => b.value - a.value);
        files.get(file).value += value;
        files.get(file).children.push(node);
    });
    for (const file of files.values())
        file.children.sort((a, b) => b.value - a.value);
    return finish([...files.values()]);
}

/** Call paths: a function under what calls it. Callers stand before what they call. */
function growCalls(app) {
    const p = app.profile, metric = app.measure.metric, roots = [];
    const nodes = p.stacks.nodes.map((n, i) => {
        const self = n.one(metric, app.range, p.stacks.coarse);
        return {key: i, name: n.folded ? `(${count(n.folded)} smaller)` : n.name, value: self, self, children: [], function: n.function};
    });
    for (let i = nodes.length - 1; i >= 0; i--) {
        const n = nodes[i], caller = nodes[p.stacks.nodes[i].parent];
        if (!n.value)
            continue;
        n.about = [`${app.measure.show(n.self)} in itself`];
        n.children.sort((a, b) => b.value - a.value);
        if (caller)
            caller.value += n.value;
        (caller ? caller.children : roots).push(n);
    }
    return finish(roots);
}

export function iciclePanel(app, openFunction) {
    const stacks = app.profile.stacks, note = h("p", {class: "note"});
    let calls = !!stacks;
    const ways = [["calls", "call paths"], ["files", "files, functions, lines"]];
    const choice = stacks && h("div", {class: "tabs", role: "group", "aria-label": "What stands inside what"}, ways.map(([id, name]) =>
        h("button", {id: `tree-${id}`, "aria-pressed": String(calls === (id === "calls")), onclick: event => {
            calls = id === "calls";
            for (const b of event.target.parentNode.children)
                b.setAttribute("aria-pressed", String(b === event.target));
            picture.reset();
            update();
        }}, name)));
    const picture = treePicture(app, stacks ? "Call paths, or files, functions and lines," : "Files, functions and lines", openFunction, choice);
    const about = () => calls ? [
        stacks.exact ? "" : `Call stacks come from a second event, ${stacks.event}: a function's samples are divided among its callers in that event's proportions. `,
        stacks.nodes.some(n => n.folded) ? "Small functions are folded into one below their caller. " : "",
        app.range && stacks.coarse ? `This chart counts a range in steps of ${2 ** stacks.coarse} intervals; a step that is only partly selected counts in part.` : ""].join("") : app.profile.code.some(c => c.instructions.some(i => i.line)) ? "Only the functions with most samples have lines." : "";

    function update() {
        note.textContent = about();
        picture.set(calls ? growCalls(app) : growFiles(app));
    }

    return {
        element: panel("icicle", stacks ? "Flame graph" : "Files, functions, lines", "Width is the share. Click to zoom in, click the top row to zoom out, double-click to open a function.",
            picture.element, note, stacks ? null : h("p", {class: "note"}, h("code", {}, "spex record -g"), " records call stacks, which this chart then shows.")),
        update,
    };
}
