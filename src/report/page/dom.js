// Elements, tables and canvases. Text from the profile is always set as text, never read as HTML.

/** An element: attributes (on... are listeners, properties of style below style), then children. */
export function h(tag, attributes, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        if (value === undefined || value === null || value === false)
            continue;
        if (name.startsWith("on"))
            e.addEventListener(name.slice(2), value);
        else if (name === "style")
            Object.assign(e.style, value);
        else
            e.setAttribute(name, value === true ? "" : value);
    }
    e.append(...children.flat(Infinity).filter(c => c !== null && c !== undefined && c !== false));
    return e;
}

export function svg(tag, attributes, ...children) {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes || {}))
        e.setAttribute(name, value);
    e.append(...children);
    return e;
}

/** A panel with a heading; what is drawn comes below. */
export function panel(id, title, help, ...children) {
    return h("section", {id, "aria-labelledby": `${id}-title`},
        h("h2", {id: `${id}-title`}, title), help && h("p", {class: "help"}, help), children);
}

/** A bar of a share, with its number. */
export function bar(share, text) {
    return h("span", {class: "share"},
        h("span", {class: "track", "aria-hidden": "true"},
            h("span", {class: "fill", style: {width: `${Math.min(100, 100 * (share || 0)).toFixed(2)}%`}})),
        h("span", {class: "number"}, text));
}

/**
 * A table that sorts. Columns: {name, title, help, value(row) for the order, show(row), text: not a number}.
 * Options: sort (name of a column), filter(row) -> text to search in, open(row) -> element below a row, most rows,
 * quiet: no filter where there is little to filter, worth(row): shown without being asked for, none: what to say
 * where no row is (without it, all of them are shown then). A column marked bare has no room where it says nothing.
 */
export function table(label, columns, options = {}) {
    let rows = [], sort = options.sort || columns[0].name, down = true, words = "", all = false;
    const opened = new Set(), most = options.most || 25;
    const heads = columns.map(c => h("th", {scope: "col", class: c.text ? "text" : "", title: c.help},
        h("button", {onclick: () => order(c)}, c.title)));
    const body = h("tbody"), foot = h("p", {class: "more"});
    const input = options.filter && h("input", {type: "search", "aria-label": `Filter ${label}`, placeholder: "filter",
        oninput: () => { words = input.value.toLowerCase(); draw(); }});
    const box = h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label},
        h("table", {}, h("caption", {class: "hidden"}, label),
            h("thead", {}, h("tr", {}, options.open && h("th", {class: "opener"}, h("span", {class: "hidden"}, "Details")), heads)), body));
    const element = h("div", {class: "tablebox"}, input, box, foot);

    function order(column) {
        down = sort === column.name ? !down : !column.text;
        sort = column.name;
        draw();
    }

    function rowElements(row) {
        const open = options.open && !row.rest;
        const button = open && h("button", {class: "open", "aria-expanded": String(opened.has(row.key)),
            "aria-label": `Details of ${row.label}`,
            onclick: () => { opened.has(row.key) ? opened.delete(row.key) : opened.add(row.key); draw(); focusOn(row.key); }},
            opened.has(row.key) ? "−" : "+");
        const line = h("tr", {class: row.rest ? "rest" : "", "data-key": row.key}, options.open && h("td", {class: "opener"}, button),
            columns.map(c => h("td", {class: c.text ? "text" : ""}, c.show(row))));
        if (!open || !opened.has(row.key))
            return [line];
        return [line, h("tr", {class: "detail"}, h("td", {colspan: String(columns.length + 1)}, options.open(row)))];
    }

    function focusOn(key) {
        for (const line of body.children)
            if (line.dataset.key === String(key))
                line.querySelector("button")?.focus();
    }

    function draw() {
        const column = columns.find(c => c.name === sort);
        const shown = rows.filter(row => !words || options.filter(row).toLowerCase().includes(words));
        const rank = row => { const x = column.value(row); return Number.isNaN(x) ? -Infinity : x; };
        shown.sort((a, b) => {
            if (!a.rest !== !b.rest)
                return a.rest ? 1 : -1;
            const x = rank(a), y = rank(b);
            return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
        });
        heads.forEach((head, i) => head.setAttribute("aria-sort",
            columns[i].name !== sort ? "none" : down ? "descending" : "ascending"));
        const good = options.worth && !words ? shown.filter(row => !row.rest && options.worth(row)) : shown;
        const worth = good.length ? shown.filter(row => row.rest || good.includes(row)) : options.none ? [] : shown;
        const visible = all ? shown : worth.slice(0, most);
        if (input)
            input.hidden = options.quiet && rows.length <= 8 && !words;
        body.replaceChildren(...visible.flatMap(rowElements));
        columns.forEach((c, i) => {
            const nth = i + (options.open ? 1 : 0), cells = [...body.children].filter(line => !line.classList.contains("detail")).map(line => line.children[nth]);
            const hidden = !!c.bare && cells.every(cell => !cell.textContent);
            [heads[i], ...cells].forEach(cell => { cell.hidden = hidden; });
        });
        box.hidden = !visible.length;
        foot.replaceChildren();
        if (!shown.length)
            foot.append(words ? "nothing matches" : options.empty || "nothing here");
        else if (!worth.length && !all)
            foot.append(`${options.none} `);
        if (shown.length > Math.min(worth.length, most))
            foot.append(h("button", {onclick: () => { all = !all; draw(); }},
                all ? "show fewer" : `show all ${shown.length}`));
    }

    return {element, set(list) { rows = list; draw(); },
        open(key) { opened.add(key); all = true; words = ""; if (input) input.value = ""; draw(); focusOn(key); }};
}

/* ---- canvases ---- */

const drawn = new Set();
let round = 0; /* of measuring how wide pictures may be */

const colours = new Map();

/** Colours of the theme, as CSS has them; asking for one makes the browser lay out, so each is asked for once. */
export function colour(name) {
    if (!colours.has(name))
        colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
    return colours.get(name);
}

/** Eight colours that people who see fewer colours tell apart, then grey. */
export const palette = i => colour(i < 8 ? `c${i}` : "other");

/** A ramp from the background to the strongest colour; x from 0 to 1. */
export function ramp(x) {
    const stops = ["r0", "r1", "r2", "r3", "r4"].map(n => colour(n).match(/\w\w/g).map(v => parseInt(v, 16)));
    return t => {
        const at = Math.min(0.9999, Math.max(0, t)) * 4, i = Math.floor(at), f = at - i;
        return `rgb(${stops[i].map((v, k) => Math.round(v + (stops[i + 1][k] - v) * f)).join(",")})`;
    };
}

/**
 * A canvas that is as wide as there is room; draw(context, width, height) draws it. What changes often is drawn over it
 * by over(context, width, height), if there is one: then shade() is enough.
 */
export function canvas(label, height, draw, attributes = {}, over = null) {
    const element = h("canvas", {role: "img", "aria-label": label, ...attributes});
    let below = null, width = 0, measured = -1;
    const shade = () => {
        if (!over || !below)
            return;
        const context = element.getContext("2d"), dense = below.dense;
        context.setTransform(1, 0, 0, 1, 0, 0);
        context.clearRect(0, 0, element.width, element.height);
        context.drawImage(below.picture, 0, 0);
        context.scale(dense, dense);
        over(context, element.width / dense, element.height / dense);
    };
    const paint = () => {
        if (measured !== round || !width)
            width = element.parentNode ? Math.floor(element.parentNode.clientWidth) : 0;
        measured = round;
        const tall = typeof height === "function" ? height() : height;
        if (!width)
            return;
        const dense = Math.min(3, window.devicePixelRatio || 1), context = element.getContext("2d");
        if (element.width !== Math.round(width * dense) || element.height !== Math.round(tall * dense)) { /* setting them costs */
            element.width = Math.round(width * dense);
            element.height = Math.round(tall * dense);
            element.style.width = `${width}px`;
            element.style.height = `${tall}px`;
        }
        context.setTransform(1, 0, 0, 1, 0, 0);
        context.clearRect(0, 0, element.width, element.height);
        context.scale(dense, dense);
        context.font = "12px system-ui, sans-serif";
        context.textBaseline = "middle";
        draw(context, width, tall);
        if (!over || !element.width || !element.height)
            return;
        below = {picture: new OffscreenCanvas(element.width, element.height), dense};
        below.picture.getContext("2d").drawImage(element, 0, 0);
        over(context, width, tall);
    };
    drawn.add(paint);
    return {element, paint, shade};
}

/** Everything anew: the theme or the width is another. */
export function paintAll() {
    colours.clear();
    round++;
    for (const paint of drawn)
        paint();
}

/** A picture that is no longer shown. */
export function forget(picture) {
    drawn.delete(picture.paint);
}

export function forgetCanvases() {
    drawn.clear();
}

/* ---- the line that follows the pointer ---- */

export function tip(event, lines) {
    const e = document.getElementById("tip");
    e.hidden = !lines;
    if (!lines)
        return;
    e.replaceChildren(...lines.map(l => h("div", {}, l)));
    const right = event.clientX > window.innerWidth / 2;
    e.style.left = right ? "auto" : `${event.clientX + 14}px`;
    e.style.right = right ? `${window.innerWidth - event.clientX + 14}px` : "auto";
    e.style.top = `${Math.min(event.clientY + 12, window.innerHeight - e.offsetHeight - 8)}px`;
}
