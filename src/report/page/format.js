// Numbers as people read them, and intervals of shares.

const whole = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});

export const count = n => whole.format(Math.round(n));

export function percent(x) {
    return Number.isFinite(x) ? `${(100 * x).toFixed(1)}%` : "-";
}

export const ratio = (a, b) => (b > 0 ? a / b : NaN);

export function seconds(s) {
    const [scale, unit] = s >= 1 || s === 0 ? [1, "s"] : s >= 1e-3 ? [1e3, "ms"] : s >= 1e-6 ? [1e6, "µs"] : [1e9, "ns"];
    return `${Number((s * scale).toPrecision(4))} ${unit}`;
}

export function bytes(n) {
    let unit = 0;
    for (; n >= 1024 && unit < 4; unit++)
        n /= 1024;
    return `${n < 10 && unit ? n.toFixed(1) : Math.round(n)} ${["B", "KB", "MB", "GB", "TB"][unit]}`;
}

/** Cycles, with what the counter ends at as "at least". */
export function cycles(n, most) {
    return n < 0 || !Number.isFinite(n) ? "-" : (n >= most ? "≥" : "") + count(n);
}

const Z = 1.959963984540054;

/** 95% Wilson interval of k out of n. */
export function wilson(k, n) {
    if (!n)
        return [0, 1];
    const p = k / n, z2 = Z * Z, centre = (p + z2 / (2 * n)) / (1 + z2 / n);
    const half = Z / (1 + z2 / n) * Math.sqrt(p * (1 - p) / n + z2 / (4 * n * n));
    return [Math.max(0, centre - half), Math.min(1, centre + half)];
}

/** Variance of a row's time, ns²: of sampling, and of the weights where rows take turns, or of that part of it at least (rows.c). v, all: vectors of it and of all rows. */
function timeVariance({metric: m, weights_off}, v, all, turns) {
    const time = v[m.time] / 1000, f = v[m.time] / all[m.time], chance = v[m.samples] / all[m.samples];
    const stays = chance > 0 && chance < 1 ? Math.max(0, (v[m.repeats] / v[m.samples] - chance) / (1 - chance)) : 1;
    const off = weights_off * Math.max(1 - stays, turns) * time * (1 - f);
    return Math.max(0, (1 - 2 * f) * v[m.time_square] + f * f * all[m.time_square]) + off * off;
}

/** 95% interval of the share that a row's time has of all. */
export function timeInterval(profile, v, all) {
    const whole = all[profile.metric.time], f = v[profile.metric.time] / whole, half = Z * Math.sqrt(timeVariance(profile, v, all, 0.5)) * 1000 / whole;
    return [Math.max(0, f - half), Math.min(1, f + half)];
}

/** Variance of a row's time in another run by what lies before the first sample and after the last in each thread (rows.c). */
function timeEnds({metric: m, thread_count}, v) {
    const n = v[m.samples], gap = n ? v[m.time] / 1000 / n : 0;
    return 2 * Math.min(thread_count, n) * gap * gap;
}

/** 95% interval of a change of time, as a share of A's time, as diff has it; v, all: of each side. */
export function timeDifference(profiles, v, all) {
    const variances = profiles.map((p, i) => timeVariance(p, v[i], all[i], 0) + timeEnds(p, v[i])), [a, b] = profiles.map((p, i) => v[i][p.metric.time]);
    const half = Z * Math.sqrt(variances[0] + variances[1]) * 1000, whole = all[0][profiles[0].metric.time];
    return [(b - a - half) / whole, (b - a + half) / whole];
}

/** 95% interval of k1/n1 - k0/n0 (Newcombe). */
export function difference(k0, n0, k1, n1) {
    const p0 = n0 ? k0 / n0 : 0, p1 = n1 ? k1 / n1 : 0, a = wilson(k0, n0), b = wilson(k1, n1), d = p1 - p0;
    return [d - Math.hypot(p1 - b[0], a[1] - p0), d + Math.hypot(b[1] - p1, p0 - a[0])];
}
