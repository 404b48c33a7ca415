// A tree as a picture: what is inside or below a thing stands under it, as wide as its share. Search, zoom, keyboard; and as text.
import {percent, ratio} from "./format.js";
import {canvas, colour, h, palette, tip} from "./dom.js";

const HIGH = 21, DEEPEST = 26; /* rows that are shown at once; a zoom shows what is below */

/** The same name has the same colour everywhere: that of the picture over time, if it has one there. */
function tint(app, name) {
    let hash = 7;
    for (let i = 0; i < name.length; i++)
        hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
    return palette(app.tints?.get(name) ?? (hash ^ hash >>> 7) % 8);
}

/** How deep it goes, as far as one would see it. */
function depth(root) {
    let deepest = 0;
    for (const walk = [[root, 1]]; walk.length;) {
        const [n, d] = walk.pop();
        deepest = Math.max(deepest, d);
        for (const c of n.children)
            if (c.value > 0.0005 * root.value)
                walk.push([c, d + 1]);
    }
    return deepest;
}

/** The share of what matches; what is in a match counts once. */
function found(root, words) {
    let sum = 0;
    for (const walk = [root]; walk.length;) {
        const n = walk.pop();
        if (n.name.toLowerCase().includes(words))
            sum += n.value;
        else
            walk.push(...n.children);
    }
    return sum;
}

/**
 * A tree of {key, name, value, children, function}: keys are different among the children of one; function is the
 * number of a function that can be opened, or undefined. Set a new one with set().
 */
export function treePicture(app, label, openFunction, tools) {
    let root = {key: "", name: "all", value: 0, children: []}, path = [], focus = [], words = "", boxes = [], tall = 4;
    const spoken = h("p", {class: "note spoken", "aria-live": "polite"}), text = h("div", {class: "tree"});
    const at = keys => keys.reduce((n, key) => n && n.children.find(c => c.key === key), root);
    const find = h("input", {type: "search", placeholder: "search", "aria-label": `Search in ${label}`, oninput: () => { words = find.value.toLowerCase(); picture.paint(); say(); }});
    const picture = canvas(`${label} by share; arrow keys move, Enter zooms, Escape goes back; below the same as text`, () => tall * HIGH + 2, draw, {tabindex: "0", role: "application"});
    const outline = h("details", {class: "outline", ontoggle: () => fill()}, h("summary", {}, "the same as text"), text);

    const amount = n => `${percent(ratio(n.value, root.value))}, ${app.measure.show(n.value)}`;
    const same = (a, b) => a.length === b.length && a.every((key, i) => key === b[i]);

    function place(g, n, keys, x, width, row) {
        if (width < 0.5)
            return;
        const y = row * HIGH, hit = words && n.name.toLowerCase().includes(words), deeper = row === tall - 1 && n.children.length;
        g.fillStyle = hit ? colour("accent") : keys.length ? tint(app, n.name) : colour("strip");
        g.globalAlpha = words && !hit ? 0.3 : 1;
        g.fillRect(x, y, Math.max(0.5, width - 1), HIGH - 1);
        g.globalAlpha = 1;
        if (same(keys, focus) && document.activeElement === picture.element) {
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
            g.fillStyle = hit ? colour("page") : keys.length && !words ? colour("on") : colour("text");
            g.textAlign = "left";
            g.fillText(`${deeper ? "▾ " : ""}${n.name} ${percent(ratio(n.value, root.value))}`, x + 5, y + HIGH / 2);
            g.restore();
        }
        boxes.push({n, keys, x, y, width});
        if (row === tall - 1)
            return;
        let left = x;
        for (const c of n.children) {
            const wide = width * c.value / n.value;
            place(g, c, [...keys, c.key], left, wide, row + 1);
            left += wide;
        }
    }

    function draw(g, width) {
        boxes = [];
        if (!root.value) {
            g.fillStyle = colour("dim");
            g.textAlign = "left";
            g.fillText("nothing here", 5, HIGH / 2);
            return;
        }
        place(g, at(path), path, 0, width, path.length ? 1 : 0);
        if (!path.length)
            return;
        g.fillStyle = colour("strip");
        g.fillRect(0, 0, width, HIGH - 1);
        g.fillStyle = colour("text");
        g.textAlign = "left";
        let first = 0;
        const line = () => `◂ ${first ? "…" : "all"}${path.slice(first, -1).map((_, i) => ` ▸ ${at(path.slice(0, first + i + 1)).name}`).join("")}`;
        while (first < path.length - 1 && g.measureText(line()).width > width - 10)
            first++;
        g.fillText(line(), 5, HIGH / 2);
    }

    function say() {
        const n = at(focus), match = words ? `“${find.value}”: ${percent(ratio(found(root, words), root.value))} of all` : "";
        spoken.textContent = match || (n && document.activeElement === picture.element ? `${n.name}: ${amount(n)}` : "");
    }

    function zoom(keys) {
        const n = at(keys);
        if (n && n.children.length)
            path = focus = keys;
        picture.paint();
        say();
    }

    /** What is below a thing as a list, made when it is opened. */
    function list(n, keys, open) {
        const items = n.children.map(c => {
            const inner = [...keys, c.key], name = `${c.name}: ${amount(c)}`;
            if (!c.children.length)
                return h("li", {}, name);
            const key = inner.join("\n"), box = h("details", {open: open.has(key), ontoggle: () => box.open && box.children.length < 2 && box.append(list(c, inner, open))}, h("summary", {}, name));
            box.dataset.key = key;
            return h("li", {}, box);
        });
        return h("ul", {}, items);
    }

    function fill() {
        const open = new Set([...text.querySelectorAll("details[open]")].map(e => e.dataset.key));
        text.replaceChildren(...(outline.open ? [list(root, [], open)] : []));
    }

    const hit = event => boxes.find(b => event.offsetX >= b.x && event.offsetX < b.x + b.width && event.offsetY >= b.y && event.offsetY < b.y + HIGH);
    const listen = (name, use) => picture.element.addEventListener(name, use);
    listen("click", event => {
        const box = hit(event);
        if (path.length && event.offsetY < HIGH)
            zoom(path.slice(0, -1));
        else if (box)
            zoom(box.keys);
    });
    listen("dblclick", event => {
        const box = hit(event);
        if (box && box.n.function !== undefined)
            openFunction(box.n.function);
    });
    listen("pointermove", event => {
        const box = hit(event);
        tip(event, box ? [box.n.name, ...(box.n.about || []), amount(box.n)] : null);
    });
    listen("pointerleave", event => tip(event, null));
    listen("focus", () => { picture.paint(); say(); });
    listen("blur", () => { picture.paint(); say(); });
    listen("keydown", event => {
        const inside = focus.length > path.length, around = at(focus.slice(0, -1)), i = inside ? around.children.findIndex(c => c.key === focus[focus.length - 1]) : -1;
        const to = n => n ? [...focus.slice(0, -1), n.key] : focus;
        const moves = {ArrowDown: () => at(focus)?.children.length ? [...focus, at(focus).children[0].key] : focus, ArrowUp: () => inside ? focus.slice(0, -1) : focus,
            ArrowRight: () => inside ? to(around.children[i + 1]) : focus, ArrowLeft: () => inside ? to(around.children[i - 1]) : focus};
        if (moves[event.key]) {
            focus = moves[event.key]();
            if (focus.length - path.length >= tall - (path.length ? 1 : 0)) /* it would stand below the picture */
                path = focus.slice(0, path.length + 1);
        } else if (event.key === "Enter") {
            const n = at(focus);
            if (n?.function !== undefined && (same(focus, path) || !n.children.length))
                openFunction(n.function);
            zoom(focus);
        } else if (event.key === "Escape" && path.length) {
            path = focus = path.slice(0, -1);
            event.stopPropagation();
        } else {
            return;
        }
        event.preventDefault();
        picture.paint();
        say();
    });

    return {
        element: h("div", {}, h("div", {class: "row tools"}, tools, find), h("div", {class: "picture"}, picture.element), spoken, outline),
        set(tree) {
            root = tree;
            while (path.length && !at(path))
                path = path.slice(0, -1);
            if (!at(focus))
                focus = path;
            tall = Math.max(tall, Math.min(DEEPEST, depth(root)));
            picture.paint();
            say();
            if (outline.open)
                fill();
        },
        reset() { path = focus = []; tall = 4; },
    };
}
