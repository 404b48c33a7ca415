// Where it is spent, from the outside in: file, function, source line. Samples of SPE have no call stacks.
import {count, percent, ratio} from "./format.js";
import {canvas, colour, h, palette, panel, tip} from "./dom.js";

const HIGH = 24;

/** The tree of what is shown: {name, value, children, function}. Levels are sorted by value. */
function grow(app) {
    const metric = app.measure.metric, files = new Map();
    app.profile.functions.forEach((row, index) => {
        const value = row.sum(app.range)[metric];
        if (!value)
            return;
        const file = row.rest ? "others" : row.dso;
        if (!files.has(file))
            files.set(file, {name: file, value: 0, children: []});
        const node = {name: row.name, value, children: [], function: row.rest ? -1 : index}, lines = new Map();
        for (const i of app.profile.code.find(c => c.function === index)?.instructions || []) {
            const v = i.sum(app.range)[metric], line = i.line ? `${(i.file || "").split("/").pop()}${i.file ? ":" : "line "}${i.line}` : "no line";
            if (v)
                lines.set(line, (lines.get(line) || 0) + v);
        }
        node.children = [...lines].map(([name, v]) => ({name, value: v, children: []})).sort((a, b) => b.value - a.value);
        files.get(file).value += value;
        files.get(file).children.push(node);
    });
    const children = [...files.values()].sort((a, b) => b.value - a.value);
    for (const file of children)
        file.children.sort((a, b) => b.value - a.value);
    return {name: "all", value: children.reduce((s, c) => s + c.value, 0), children};
}

export function iciclePanel(app, openFunction) {
    let root = {name: "all", value: 0, children: []}, path = [], focus = [], words = "", boxes = [];
    const spoken = h("p", {class: "note", "aria-live": "polite"});
    const node = steps => steps.reduce((n, i) => n && n.children[i], root);
    const find = h("input", {type: "search", placeholder: "search", "aria-label": "Search in the picture", oninput: () => { words = find.value.toLowerCase(); picture.paint(); }});
    const picture = canvas("Files, functions and lines by share; arrow keys move, Enter zooms, Escape goes back", 4 * HIGH + 2, draw,
        {tabindex: "0", role: "application"});

    function place(g, n, steps, x, width, depth, index) {
        if (width < 0.5)
            return;
        const y = depth * HIGH, hit = words && n.name.toLowerCase().includes(words);
        g.fillStyle = hit ? colour("accent") : depth === 0 ? colour("strip") : palette((index + 3 * (depth - 1)) % 8);
        g.globalAlpha = words && !hit ? 0.35 : 1;
        g.fillRect(x, y, Math.max(0.5, width - 1), HIGH - 1);
        g.globalAlpha = 1;
        if (steps.join() === focus.join() && document.activeElement === picture.element) {
            g.strokeStyle = colour("text");
            g.lineWidth = 2;
            g.strokeRect(x + 1, y + 1, Math.max(1, width - 3), HIGH - 3);
            g.lineWidth = 1;
        }
        if (width > 28) {
            g.save();
            g.beginPath();
            g.rect(x, y, width - 4, HIGH);
            g.clip();
            g.fillStyle = depth === 0 ? colour("text") : colour("on");
            g.textAlign = "left";
            g.fillText(`${n.name} ${percent(ratio(n.value, root.value))}`, x + 5, y + HIGH / 2);
            g.restore();
        }
        boxes.push({n, steps, x, y, width});
        let at = x;
        n.children.forEach((c, i) => {
            const wide = width * c.value / n.value;
            place(g, c, [...steps, i], at, wide, depth + 1, i);
            at += wide;
        });
    }

    function draw(g, width) {
        boxes = [];
        if (root.value)
            place(g, node(path), path, 0, width, path.length ? 1 : 0, path[path.length - 1] || 0);
        if (path.length) {
            g.fillStyle = colour("strip");
            g.fillRect(0, 0, width, HIGH - 1);
            g.fillStyle = colour("text");
            g.textAlign = "left";
            g.fillText(`◂ all${path.map((_, i) => ` ▸ ${node(path.slice(0, i + 1)).name}`).join("")}`, 5, HIGH / 2);
        }
    }

    const say = n => {
        spoken.textContent = n ? `${n.name}: ${percent(ratio(n.value, root.value))}, ${app.measure.show(n.value)}` : "";
    };
    const zoom = steps => {
        path = focus = node(steps) && node(steps).children.length ? steps : path;
        picture.paint();
        say(node(focus));
    };
    const hit = event => boxes.find(b => event.offsetX >= b.x && event.offsetX < b.x + b.width && event.offsetY >= b.y && event.offsetY < b.y + HIGH);

    picture.element.addEventListener("click", event => {
        const box = hit(event);
        if (path.length && event.offsetY < HIGH)
            zoom([]);
        else if (box)
            zoom(box.steps);
    });
    picture.element.addEventListener("dblclick", event => {
        const box = hit(event);
        if (box && box.n.function >= 0)
            openFunction(box.n.function);
    });
    picture.element.addEventListener("pointermove", event => {
        const box = hit(event);
        tip(event, box ? [box.n.name, `${percent(ratio(box.n.value, root.value))}, ${app.measure.show(box.n.value)}`] : null);
    });
    picture.element.addEventListener("pointerleave", event => tip(event, null));
    picture.element.addEventListener("focus", () => { picture.paint(); say(node(focus)); });
    picture.element.addEventListener("blur", () => picture.paint());
    picture.element.addEventListener("keydown", event => {
        const last = focus[focus.length - 1], beside = step => {
            const to = [...focus.slice(0, -1), last + step];
            return focus.length > path.length && node(to) ? to : focus;
        };
        const moves = {ArrowDown: () => node([...focus, 0]) ? [...focus, 0] : focus, ArrowUp: () => focus.length > path.length ? focus.slice(0, -1) : focus,
            ArrowRight: () => beside(1), ArrowLeft: () => last > 0 ? beside(-1) : focus};
        if (moves[event.key]) {
            focus = moves[event.key]();
        } else if (event.key === "Enter") {
            if (focus.length === 2 && focus.join() === path.join() && node(focus).function >= 0)
                openFunction(node(focus).function);
            zoom(focus);
        } else if (event.key === "Escape" && path.length) {
            path = focus = path.slice(0, -1);
            event.stopPropagation();
        } else {
            return;
        }
        event.preventDefault();
        picture.paint();
        say(node(focus));
    });

    return {
        element: panel("icicle", "Files, functions, lines", "A click zooms in, the line at the top goes back; a double click opens a function. Lines are known of the functions with most samples.",
            find, h("div", {class: "picture"}, picture.element), spoken),
        update() {
            root = grow(app);
            if (!node(path))
                path = focus = [];
            picture.paint();
        },
    };
}
