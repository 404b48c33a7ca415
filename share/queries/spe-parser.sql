-- samples under the column names of Arm's spe-parser, for its notebooks (a view: FROM spe_parser)
-- Its three files are one table here: op is LD, ST, B or OTHER. Values are in its form, too: addresses in hexadecimal, events as names with
-- colons between them.
SELECT cpu::BIGINT AS cpu,
       CASE WHEN kind = 'branch' THEN 'B' WHEN op_class <> 1 OR op IS NULL THEN 'OTHER' WHEN op_payload & 1 = 1 THEN 'ST' ELSE 'LD' END AS op,
       printf('0x%x', pc) AS pc, el::BIGINT AS el,
       kind = 'atomic' AS atomic, op LIKE '%excl%' AS excl, op LIKE '%acq%' OR op LIKE '%rel%' AS ar,
       CASE WHEN kind = 'branch' THEN op LIKE '%cond%' END AS condition,
       CASE WHEN kind = 'branch' THEN op LIKE '%ind%' END AS indirect,
       concat_ws(':',
           CASE WHEN ev_exception THEN 'EXCEPTION-GEN' END, CASE WHEN ev_retired THEN 'RETIRED' END,
           CASE WHEN ev_l1d_access THEN 'L1D-ACCESS' END, CASE WHEN ev_l1d_miss THEN 'L1D-REFILL' END,
           CASE WHEN ev_tlb_access THEN 'TLB-ACCESS' END, CASE WHEN ev_tlb_walk THEN 'TLB-REFILL' END,
           CASE WHEN ev_not_taken THEN 'NOT-TAKEN' END, CASE WHEN ev_mispredicted THEN 'MISPRED' END,
           CASE WHEN ev_llc_access THEN 'LLC-ACCESS' END, CASE WHEN ev_llc_miss THEN 'LLC-REFILL' END,
           CASE WHEN ev_remote_access THEN 'REMOTE-ACCESS' END, CASE WHEN ev_misaligned THEN 'ALIGNMENT' END,
           CASE WHEN ev_partial_predicate THEN 'SVE-PARTIAL-PRED' END, CASE WHEN ev_empty_predicate THEN 'SVE-EMPTY-PRED' END) AS event,
       issue::BIGINT AS issue_lat, latency::BIGINT AS total_lat, printf('0x%x', va) AS vaddr, translation::BIGINT AS xlat_lat,
       printf('0x%x', pa) AS paddr,
       CASE data_source WHEN 0 THEN 'L1D' WHEN 8 THEN 'L2D' WHEN 9 THEN 'PEER-CPU' WHEN 10 THEN 'LOCAL-CLUSTER'
           WHEN 11 THEN 'LL-CACHE' WHEN 12 THEN 'PEER-CLUSTER' WHEN 13 THEN 'REMOTE' WHEN 14 THEN 'DRAM'
           ELSE data_source::VARCHAR END AS data_source,
       printf('0x%x', target) AS br_tgt, printf('0x%x', prev_target) AS pbt,
       printf('0x%x', coalesce(context_el1, context_el2)) AS context, time::BIGINT AS ts
FROM samples
