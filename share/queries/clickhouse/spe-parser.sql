-- samples under the column names of Arm's spe-parser, for its notebooks
-- Its three files are one table here: op is LD, ST, B or OTHER. Values are in its form, too: addresses in hexadecimal, events as names with
-- colons between them.
SELECT cpu,
       multiIf(kind = 'branch', 'B', ifNull(op_class, 0) != 1 OR isNull(op), 'OTHER', bitAnd(ifNull(op_payload, 0), 1) = 1, 'ST', 'LD') AS op_kind,
       concat('0x', replaceRegexpOne(lower(hex(pc)), '^0', '')) AS pc_address, el,
       kind = 'atomic' AS atomic, position(ifNull(op, ''), 'excl') > 0 AS excl,
       position(ifNull(op, ''), 'acq') > 0 OR position(ifNull(op, ''), 'rel') > 0 AS ar,
       if(kind = 'branch', position(ifNull(op, ''), 'cond') > 0, NULL) AS condition,
       if(kind = 'branch', position(ifNull(op, ''), 'ind') > 0, NULL) AS indirect,
       arrayStringConcat(arrayFilter(name -> name != '', [
           if(bitTest(ifNull(event_bits, 0), 0), 'EXCEPTION-GEN', ''), if(bitTest(ifNull(event_bits, 0), 1), 'RETIRED', ''),
           if(bitTest(ifNull(event_bits, 0), 2), 'L1D-ACCESS', ''), if(bitTest(ifNull(event_bits, 0), 3), 'L1D-REFILL', ''),
           if(bitTest(ifNull(event_bits, 0), 4), 'TLB-ACCESS', ''), if(bitTest(ifNull(event_bits, 0), 5), 'TLB-REFILL', ''),
           if(bitTest(ifNull(event_bits, 0), 6), 'NOT-TAKEN', ''), if(bitTest(ifNull(event_bits, 0), 7), 'MISPRED', ''),
           if(bitTest(ifNull(event_bits, 0), 8), 'LLC-ACCESS', ''), if(bitTest(ifNull(event_bits, 0), 9), 'LLC-REFILL', ''),
           if(bitTest(ifNull(event_bits, 0), 10), 'REMOTE-ACCESS', ''), if(bitTest(ifNull(event_bits, 0), 11), 'ALIGNMENT', ''),
           if(bitTest(ifNull(event_bits, 0), 17), 'SVE-PARTIAL-PRED', ''), if(bitTest(ifNull(event_bits, 0), 18), 'SVE-EMPTY-PRED', '')]), ':') AS event,
       issue AS issue_lat, latency AS total_lat, concat('0x', replaceRegexpOne(lower(hex(va)), '^0', '')) AS vaddr, translation AS xlat_lat,
       concat('0x', replaceRegexpOne(lower(hex(pa)), '^0', '')) AS paddr,
       multiIf(isNull(data_source), NULL, data_source = 0, 'L1D', data_source = 8, 'L2D', data_source = 9, 'PEER-CPU', data_source = 10, 'LOCAL-CLUSTER',
           data_source = 11, 'LL-CACHE', data_source = 12, 'PEER-CLUSTER', data_source = 13, 'REMOTE', data_source = 14, 'DRAM',
           toString(data_source)) AS data_source_name,
       concat('0x', replaceRegexpOne(lower(hex(target)), '^0', '')) AS br_tgt, concat('0x', replaceRegexpOne(lower(hex(prev_target)), '^0', '')) AS pbt,
       concat('0x', replaceRegexpOne(lower(hex(if(isNull(context_el1), context_el2, context_el1))), '^0', '')) AS context, time AS ts
FROM samples
WHERE {where}
