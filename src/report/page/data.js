// The data of the page: docs/html.md has its form. A row of a table has totals, and cells by interval of time.

const BUCKETS = 32;

/** The first latency of a bucket, in cycles. */
export function bucketStart(bucket) {
    return bucket < 4 ? bucket : (2 + bucket % 2) * 2 ** ((bucket >> 1) - 1);
}

class Row {
    constructor(profile, raw) {
        Object.assign(this, raw);
        this.profile = profile;
        this.total = profile.vector();
        for (let i = 0; i < (raw.total || []).length; i += 2)
            this.total[raw.total[i]] = raw.total[i + 1];
        this.cells = Float64Array.from(raw.cells || []);
        if (raw.rest)
            this.name = `(${raw.rest} more)`;
    }

    /** Calls use(interval, first, end): the numbers of a cell are metric, value, ... in cells[first..end). */
    each(use) {
        const cells = this.cells;
        for (let i = 0; i < cells.length;) {
            const end = i + 2 + cells[i + 1];
            use(cells[i], i + 2, end);
            i = end;
        }
    }

    /** The row's vector in a range of intervals, null for all; that of the last range is kept. */
    sum(range) {
        if (!range)
            return this.total;
        if (this.summed?.range === range)
            return this.summed.v;
        const v = this.profile.vector(), cells = this.cells;
        for (let i = 0; i < cells.length && cells[i] <= range.to;) {
            const end = i + 2 + cells[i + 1];
            if (cells[i] >= range.from)
                for (let k = i + 2; k < end; k += 2)
                    v[cells[k]] += cells[k + 1];
            i = end;
        }
        this.summed = {range, v};
        return v;
    }

    /** One metric in a range; where the cells are of 2^coarse intervals each, a part of those that are partly in it. */
    one(metric, range, coarse = 0) {
        const cells = this.cells, size = 2 ** coarse, count = this.profile.bins.count;
        if (!range)
            return this.total[metric];
        let sum = 0;
        for (let i = 0; i < cells.length;) {
            const end = i + 2 + cells[i + 1], first = cells[i] * size, behind = Math.min(count, first + size);
            if (first > range.to)
                break;
            const inside = Math.min(behind, range.to + 1) - Math.max(first, range.from);
            for (let k = i + 2; inside > 0 && k < end; k += 2)
                if (cells[k] === metric)
                    sum += cells[k + 1] * inside / (behind - first);
            i = end;
        }
        return sum;
    }

    /** One metric by interval. */
    series(metric) {
        const out = new Float64Array(this.profile.bins.count + 1);
        this.each((bin, first, end) => {
            for (let i = first; i < end; i += 2)
                if (this.cells[i] === metric)
                    out[bin] += this.cells[i + 1];
        });
        return out;
    }

    /** A percentile of latency: exact for all of the run, else the start of its bucket; -1 unknown. */
    percentile(q, range) {
        const exact = {50: 0, 95: 1, 99: 2}[q];
        if (!range && this.p)
            return this.p[exact];
        const v = this.sum(range), first = this.profile.bucket;
        let count = 0, seen = 0;
        for (let b = 0; b < BUCKETS; b++)
            count += v[first + b];
        for (let b = 0; count && b < BUCKETS; b++) {
            seen += v[first + b];
            if (seen >= Math.max(1, Math.ceil(count * q / 100 - 1e-9)))
                return bucketStart(b);
        }
        return -1;
    }
}

export class Profile {
    constructor(raw) {
        Object.assign(this, raw);
        this.metric = Object.fromEntries(raw.metrics.map((name, i) => [name, i]));
        this.source = raw.metrics.length;
        this.bucket = this.source + raw.source_names.length;
        this.size = this.bucket + BUCKETS;
        this.summed = new Map();
        for (const table of ["functions", "sources", "threads", "cpus", "data", "lines", "pages", "branches", "targets"])
            this[table] = raw[table].map(row => new Row(this, row));
        for (const code of this.code)
            code.instructions = code.instructions.map(row => new Row(this, row));
        if (this.stacks) {
            const index = new Map(this.functions.map((f, i) => [`${f.name}\n${f.dso}`, i]));
            this.stacks.nodes = this.stacks.nodes.map(n => Object.assign(new Row(this, n), {function: index.get(`${n.name}\n${n.dso}`)}));
        }
    }

    vector() {
        return new Float64Array(this.size);
    }

    /** Whether there is time: else shares are of samples. */
    timed() {
        return this.sum("functions", null)[this.metric.time] > 0;
    }

    /** All rows of a table together. */
    sum(table, range) {
        const kept = this.summed.get(table);
        if (kept?.range === range)
            return kept.out;
        const out = this.vector();
        for (const row of this[table]) {
            const v = row.sum(range);
            for (let i = 0; i < out.length; i++)
                out[i] += v[i];
        }
        this.summed.set(table, {range, out});
        return out;
    }

    /**
     * By interval, what the time of samples is multiplied with in pictures, so that an interval shows the time that its CPUs
     * were at work, which is exact: which sample has how much of it is an estimate, and some of it is of a neighbour.
     */
    scales() {
        const given = this.functions.reduce((sum, row) => { row.series(this.metric.time).forEach((v, b) => { sum[b] += v; }); return sum; }, new Float64Array(this.bins.count + 1));
        return given.map((v, b) => !this.filters.length && v > 0 && b < this.bins.count ? this.at_work[b] * 1000 / v : 1);
    }

    /** The time that CPUs were at work in a range, in ns: exact, where that of samples is an estimate; 0 of all, or of some samples. */
    work(range) {
        return range && !this.filters.length ? this.at_work.slice(range.from, range.to + 1).reduce((sum, ns) => sum + ns, 0) : 0;
    }

    /** The time at which an interval begins, in ns. */
    time(bin) {
        return (BigInt(this.bins.first) + BigInt(bin)) << BigInt(this.bins.shift);
    }

    /** Seconds since the first interval. */
    seconds(bin) {
        return bin * 2 ** this.bins.shift / 1e9;
    }

    /** A range as the option --time of the other commands takes it. */
    timeOption(range) {
        const text = ns => `${ns / 1000000000n}.${String(ns % 1000000000n).padStart(9, "0")}`;
        return `${text(this.time(range.from))},${text(this.time(range.to + 1) - 1n)}`;
    }

    /** Where most data came from: [name, share] of the largest; null without any. */
    from(v) {
        let best = -1, total = 0;
        for (let s = 0; s < this.source_names.length; s++) {
            const n = v[this.source + s];
            total += n;
            if (n > 0 && (best < 0 || n > v[this.source + best]))
                best = s;
        }
        return best < 0 ? null : [this.source_names[best], v[this.source + best] / total];
    }
}

export function load() {
    const raw = JSON.parse(document.getElementById("profiles").textContent);
    return {raw, profiles: raw.profiles.map(p => new Profile(p))};
}
