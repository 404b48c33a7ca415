"""What a disassembled A64 instruction is, read from its text alone.

Knows mnemonics and operand syntax (LLVM and GNU, aliases off) and nothing of
encodings, so that it can judge the classifier, which knows encodings only.
"""
import re

LOAD, STORE, ATOMIC, EXCL, ACQREL, FP, SIMD, SIMDREG, PRED, GATHER, COND, INDIRECT, LINK, RETURN, \
    GCS, CSYNC, PSB, PONLY, CONTIG, ZEROING, WHOLE = [1 << i for i in range(21)]
NAMES = ["load", "store", "atomic", "excl", "acqrel", "fp", "simd", "simdfp", "pred", "gather",
         "cond", "indirect", "link", "return", "gcs", "csync", "psb", "predicate-only",
         "contiguous", "zeroing", "whole-za"]


def flag_names(flags):
    return "+".join(n for i, n in enumerate(NAMES) if flags >> i & 1) or "none"


REG = re.compile(r"(?<![\w.#])(wzr|xzr|wsp|sp|lr|[xwbhsdqvzp]\d+|pn\d+|za\d*[hv]?|zt0)(?![\w])")
RANGE = re.compile(r"\b([zv])(\d+)((?:\.\w+)?)\s*-\s*[zv](\d+)")


def expand(text):
    """{z0.d-z3.d} -> {z0.d, z1.d, ...}; numbers wrap at 32."""
    def each(m):
        a, b = int(m.group(2)), int(m.group(4))
        return ", ".join(f"{m.group(1)}{(a + i) % 32}{m.group(3)}" for i in range((b - a) % 32 + 1))
    return RANGE.sub(each, text)


def regs(text):
    out = []
    for r in REG.findall(text):
        if r in ("wzr", "xzr"):
            continue
        if r in ("sp", "wsp"):
            out.append("sp")
        elif r == "lr":
            out.append("x30")
        elif r[0] in "xw":
            out.append("x" + r[1:])
        elif r.startswith("za"):
            out.append("za")
        elif r == "zt0":
            out.append("zt0")
        elif r.startswith("pn"):
            out.append("p" + r[2:])
        elif r[0] == "p":
            out.append(r)
        else:
            out.append("v" + r[1:])
    return out


def split(text):
    """Operands at the top level of brackets and braces."""
    parts, depth, cur = [], 0, ""
    for c in text:
        if c in "[{":
            depth += 1
        elif c in "]}":
            depth -= 1
        if c == "," and depth == 0:
            parts.append(cur.strip())
            cur = ""
        else:
            cur += c
    if cur.strip():
        parts.append(cur.strip())
    return parts


ALU_FLAGS = set("adds subs ands bics adcs sbcs subps".split())
LSE = re.compile(r"^(ld|st)t?(add|clr|eor|set|smax|smin|umax|umin)(a|l|al)?([bh])?$")
LSFE = re.compile(r"^(ld|st)b?f(add|max|min|maxnm|minnm)(a|l|al)?$")
SWPCAS = re.compile(r"^(swp|cas)(t?)(a|l|al)?(t?)([bh])?$")
CASP = re.compile(r"^casp(a|l|al)?t?$")
PAIR128 = re.compile(r"^(ldclrp|ldsetp|swpp)(a|l|al)?$")
RCW = re.compile(r"^rcws?(cas|casp|clr|clrp|swp|swpp|set|setp)(a|l|al)?$")
ORDERED = set(
    """ldar ldarb ldarh stlr stlrb stlrh ldlar ldlarb ldlarh stllr stllrb stllrh ldapr ldaprb
ldaprh stlur stlurb stlurh ldapur ldapurb ldapurh ldapursb ldapursh ldapursw ldiapp stilp ldap1 stl1
ldap ldapp stlp""".split())
# Advanced SIMD and scalar instructions that read their destination
ACC = re.compile(r"""^(([su]aba|[su]abal|[su]?ml[as]l?|sqr?dml[as][lh]|sqrdml[as]h|b?fml[as]l?[bt]?|
fmlall[bt][bt]|fcmla|[su]dot|usdot|sudot|b?fdot|b?fmmla|[su]mmla|usmmla|[su]adalp|suqadd|usqadd|
[su]r?sra|sri|sli|bsl|bit|bif|tbx|aes[ed]|sha1[cpm]|sha1su[01]|sha256h|sha256su[01]|sha512h|
sha512su[01]|sm3tt[12][ab]|sm3partw[12]|sm4e|ins|movk|bfm|bfi|bfxil|bfc)2?|
sha256h2|sha512h2|fmlal2|fmlsl2|
(addhn|subhn|raddhn|rsubhn|xtn|sqxtn|uqxtn|sqxtun|fcvtn|fcvtxn|bfcvtn|shrn|rshrn|sqshrn|sqrshrn|
uqshrn|uqrshrn|sqshrun|sqrshrun)2)$""".replace("\n", ""))
FP_WORD = re.compile(r"^(b?f(?!irstp)|[su]cvtf|bf|f1cvt|f2cvt)")
CRYPTO = re.compile(r"^(aes|sha|sm3|sm4)")


class What:
    """What the text says. None: not judged."""

    def __init__(self):
        self.kind = "other"
        self.flags = 0
        self.dst, self.src = None, None
        self.size = None


def address(part):
    """Registers of the address, base written back?"""
    return regs(part), part.endswith("!")


def judge(mnemonic, operand_text):
    w = read(mnemonic, operand_text)
    if w.flags is not None and w.kind in ("ldst", "ldst-unspec", "ldst-tag"):
        w.flags |= CONTIG
    return w


# Instructions whose operands do not matter: mnemonic, kind, flags.
SIMPLE = [(re.compile(pattern), kind, flags) for pattern, kind, flags in (
    (r"eret", "eret", CSYNC),
    (r"(svc|hvc|smc)$", "exception", CSYNC),
    (r"(brk|hlt|udf)$|dcps", "exception", 0),
    (r"(wfe|wfi|wfet|wfit|yield)$", "wait", 0),
    (r"isb$", "isb", CSYNC),
    (r"(dmb|dsb|sb|csdb|esb|tsb|gcsb|ssbb|pssbb|dfb)$", "barrier", 0),
    (r"psb$", "barrier", PSB),
    (r"(nop|sev|sevl|dgh|clrbhb|bti|clrex|stshh|pacm|stcph|shuh|nops)$", "other", 0))]
# The kinds of hints that are not just "other".
HINTS = {1: "wait", 2: "wait", 3: "wait", 16: "barrier", 17: "barrier", 18: "barrier",
         19: "barrier", 20: "barrier"}
SYSTEM = set("""dc sys sysl at ic tlbi cfp dvp cpp cosp brb trcit gcspushm gcspopm gcsss1 gcsss2
gcspushx gcspopx gcspopcx apas gic gicr gsb mlbi plbi""".split())
REGISTERS = set("""mrs msr mrrs msrr sysp tlbip drps tstart ttest tcommit tcancel tchangef tchangeb
tenter smstart smstop""".split())


def plain(w, ops, kind="other", read_dst=False, flags_out=False, flags_in=False, ndst=1):
    """The first ndst operands are written, the others read."""
    w.kind = kind
    w.dst = [r for o in ops[:ndst] for r in regs(o)]
    w.src = [r for o in ops[ndst:] for r in regs(o)]
    if read_dst:
        w.src += w.dst
    if flags_out:
        w.dst.append("nzcv")
    if flags_in:
        w.src.append("nzcv")
    return w


def branch(m, text, ops, w):
    """Branches."""
    if re.match(r"^bc?\.", m):
        w.kind, w.flags, w.dst, w.src = "branch", COND, [], ["nzcv"]
        return w
    if m in ("cbz", "cbnz", "tbz", "tbnz") or re.match(r"^cb[bh]?(gt|ge|hi|hs|eq|ne|lt|lo)$", m):
        w.kind, w.flags, w.dst, w.src = "branch", COND, [], regs(text)
        return w
    if m == "b":
        w.kind, w.dst, w.src = "branch", [], []
        return w
    if m == "bl":
        w.kind, w.flags, w.dst, w.src = "branch", LINK | GCS, ["x30"], []
        return w
    if re.match(r"^br(aa|ab|aaz|abz)?$", m):
        w.kind, w.flags, w.dst, w.src = "branch", INDIRECT, [], regs(text)
        return w
    if re.match(r"^blr(aa|ab|aaz|abz)?$", m):
        w.kind, w.flags, w.dst, w.src = "branch", INDIRECT | LINK | GCS, ["x30"], regs(text)
        return w
    if re.match(r"^ret", m):
        w.kind, w.flags, w.dst = "branch", INDIRECT | RETURN | GCS, []
        w.src = (regs(text) or ["x30"]) if m == "ret" else None
        return w
    return None


def simple(m, text, ops, w):
    """Exceptions, barriers, waits and hints."""
    for pattern, kind, flags in SIMPLE:
        if pattern.match(m):
            w.kind, w.flags = kind, flags
            return w
    if m == "hint":
        number = int(text.lstrip("#"), 0)
        w.kind, w.flags = HINTS.get(number, "other"), PSB if number == 17 else 0
        return w
    return None


def system_word(m, text, ops, w):
    """System instructions, System registers, flags, pointer authentication."""
    if m in SYSTEM:
        return system(m, ops, w)
    if m in REGISTERS:
        w.kind = "system"
        if m == "mrs" and ops[1] != "nzcv":
            w.dst, w.src = regs(ops[0]), []
        if m == "msr" and ops[0] != "nzcv" and regs(ops[1]):
            w.dst, w.src = [], regs(ops[1])
        return w
    if m in ("cfinv", "xaflag", "axflag"):
        w.dst, w.src = ["nzcv"], ["nzcv"]
        return w
    if re.match(r"^(pac|aut|xpac|chkfeat)", m):
        if ops and m not in ("pacga",) and not m.endswith(("sppc", "sppcr")):
            w.dst = regs(ops[0])
            w.src = regs(text)
        elif m == "pacga":
            plain(w, ops)
        return w
    return None


def special_memory(m, text, ops, w):
    """Prefetches, memory copy and set, tags, 64 bytes, GCS."""
    if m in ("prfm", "prfum", "rprfm"):
        w.kind, w.dst, w.src = "prefetch", [], regs(text) if m != "rprfm" else None
        return w
    if re.match(r"^prf[bhwd]$", m):
        w.kind = "sve-prefetch"
        w.flags = GATHER if re.search(r"\[[^\]]*\bz\d", text) else CONTIG
        w.dst, w.src = [], regs(text)
        return w
    if re.match(r"^cpyf?[pme]", m):
        w.kind, w.flags = "memcpy", LOAD | STORE | CONTIG
        w.dst, w.src = regs(text), regs(text)
        return w
    if re.match(r"^setg?o?[pme](t|n|tn)?$", m):
        w.kind, w.flags = "memset", STORE | CONTIG
        w.dst, w.src = regs(ops[0]) + regs(ops[1]), regs(text)
        return w
    if m in ("stg", "st2g", "stgm", "ldg", "ldgm", "stzg", "stz2g", "stzgm"):
        w.kind = "ldst-unspec" if m.startswith("stz") else "ldst-tag"
        w.flags = LOAD if m.startswith("ld") else STORE
        memory(w, ops, m.startswith("ld"))
        if m == "ldg":
            w.src += w.dst
        return w
    if m in ("ld64b", "st64b", "st64bv", "st64bv0"):
        w.kind, w.flags, w.size = "ldst-unspec", LOAD if m == "ld64b" else STORE, 64
        return w
    if m in ("gcsstr", "gcssttr"):
        w.kind, w.flags, w.dst, w.src = "gcs", STORE | GCS, [], regs(text)
        return w
    return None


def atomic(m, text, ops, w):
    """LSE and its kin."""
    match = LSE.match(m) or LSFE.match(m)
    if match and not VECTOR.search(text):
        ld = m.startswith("ld")
        w.kind = "ldst"
        w.flags = STORE | ATOMIC | (ACQREL if match.group(3) else 0)
        fp = bool(LSFE.match(m))
        w.flags |= FP | SIMDREG if fp else 0
        result = regs(ops[1]) if ld else []
        zero = ld and not fp and re.match(r"^[wx]zr", ops[1])
        if ld and not (zero and (match.group(3) or "") in ("", "l")):
            w.flags |= LOAD
        w.dst, w.src = result, regs(ops[0]) + regs(ops[-1])
        return w
    match = SWPCAS.match(m)
    if match:
        w.kind = "ldst"
        w.flags = LOAD | STORE | ATOMIC | (ACQREL if match.group(3) else 0)
        if m.startswith("swp"):
            w.dst, w.src = regs(ops[1]), regs(ops[0]) + regs(ops[2])
        else:
            w.dst, w.src = regs(ops[0]), regs(text)
        return w
    if CASP.match(m):
        w.kind = "ldst"
        w.flags = LOAD | STORE | ATOMIC | (ACQREL if re.match(r"^casp(a|l|al)t?$", m) else 0)
        w.dst, w.src = regs(ops[0]) + regs(ops[1]), regs(text)
        return w
    match = PAIR128.match(m) or RCW.match(m)
    if match:
        w.kind = "ldst"
        w.flags = LOAD | STORE | ATOMIC | (ACQREL if match.group(2) else 0)
        return w
    return None


def load_store(m, text, ops, w):
    """Exclusives, ordered and all other loads and stores of general and SIMD&FP registers."""
    if re.match(r"^(ldl?a?t?xr|ldaxp|ldxp|ldatxr)[bh]?$", m):
        w.kind, w.flags = "ldst", LOAD | EXCL | (ACQREL if m.startswith("lda") else 0)
        memory(w, ops, True)
        return w
    if re.match(r"^(stl?t?x[rp]|sttxr|stltxr)[bh]?$", m):
        w.kind, w.flags = "ldst", STORE | EXCL | (ACQREL if m.startswith("stl") else 0)
        w.dst, w.src = regs(ops[0]), [r for o in ops[1:] for r in regs(o)]
        return w
    if m in ORDERED:
        w.kind, w.flags = "ldst", (LOAD if m.startswith("ld") else STORE) | ACQREL
        register_flags(w, ops, m)
        memory(w, ops, m.startswith("ld"))
        if m == "ldap1":
            w.src += [r for r in w.dst if r[0] == "v"]
        return w
    if re.match(r"^(ld[1234]r?|st[1234])$", m):
        w.kind = "ldst"
        w.flags = (LOAD if m.startswith("ld") else STORE) | SIMD | SIMDREG
        memory(w, ops, m.startswith("ld"))
        if "]" in ops[0] and m.startswith("ld"):
            w.src += [r for r in w.dst if r[0] == "v"]
        return w
    if re.match(r"^(ldr|ldur|ldtr|ldp|ldnp|ldpsw|ldtp|ldtnp|ldraa|ldrab|str|stur|sttr|stp|"
                r"stnp|stgp|sttp|sttnp)", m) and ("[" in text or m.startswith("ldr")):
        w.kind, w.flags = "ldst", LOAD if m.startswith("ld") else STORE
        register_flags(w, ops, m)
        memory(w, ops, m.startswith("ld"))
        return w
    return None


def conditional(m, text, ops, w):
    """Conditional select and compare."""
    if m in ("csel", "csinc", "csinv", "csneg"):
        return plain(w, ops, m, flags_in=True)
    if m == "fcsel":
        plain(w, ops, "csel", flags_in=True)
        w.flags = FP
        return w
    if m in ("ccmp", "ccmn"):
        w.kind, w.dst, w.src = m, ["nzcv"], regs(text) + ["nzcv"]
        return w
    if m in ("fccmp", "fccmpe"):
        w.kind, w.flags, w.dst, w.src = "ccmp", FP, ["nzcv"], regs(text) + ["nzcv"]
        return w
    if m in ("fcmp", "fcmpe"):
        w.flags, w.dst, w.src = FP, ["nzcv"], regs(text)
        return w
    return None


def float_simd(m, text, ops, w):
    """Scalar FP and Advanced SIMD."""
    if not re.search(r"\b[bhsdqv]\d+", text):
        return None
    simd = re.search(r"\bv\d+", text)
    scalar_fp = not simd and re.match(r"^(fmov|fabs|fneg|fsqrt|fcvt|bfcvt|frint|fadd|fsub|fmul|"
                                      r"fdiv|fmax|fmin|fnmul|fmadd|fmsub|fnmadd|fnmsub|"
                                      r"scvtf|ucvtf|fcvtn|fjcvtzs)",
                                      m) and m not in ("fmulx", "fcvtxn")
    plain(w, ops, read_dst=bool(ACC.match(m)))
    if m == "fjcvtzs":
        w.dst.append("nzcv")
    if re.match(r"^(orr|bic)$", m) and len(ops) > 1 and "#" in ops[1]:
        w.src += w.dst
    if m == "fmov" and simd and re.match(r"^v\d+\.d?\[1\]", ops[0]):
        w.src += w.dst
    w.flags = None if scalar_fp is None else 0
    if scalar_fp:
        ambiguous = m in ("scvtf", "ucvtf") or m.startswith("fcvt")
        w.flags = None if ambiguous and not re.search(r"\b[xw]\d+|\b[xw]zr", text) and \
            m != "fcvt" else FP
    else:
        w.flags = SIMD | (FP if FP_WORD.match(m) and m not in ("fmov",) else 0)
        if m == "fmov" and re.search(r"\bx", text):
            w.flags = FP
    return w


def vector_memory(m, text, ops, w):
    """Loads and stores of SVE and SME registers."""
    if (ZA.search(text) or "zt0" in text) and re.match(r"^(ld1|st1|ldr|str)", m):
        w.kind = "ldst-sme"
        w.flags = (LOAD if m.startswith("ld") else STORE) | CONTIG
        if PREDICATE.search(text):
            w.flags |= PRED | (ZEROING if m.startswith("ld") else 0)
        return w
    if ((VECTOR.search(text) or PREDICATE.search(text)) and ", [" in text and
            re.match(r"^(ld|st)", m)):
        return sve_memory(m, text, ops, w)
    return None


def vector_data(m, text, ops, w):
    """SVE and SME data processing, and what counts elements."""
    za = bool(ZA.search(text))
    if (za or "zt0" in text or VECTOR.search(text) or PREDICATE.search(text) or
            m in ("setffr", "wrffr", "rdffr")):
        return sve_data(m, text, ops, w, za)
    if m in ("addvl", "addpl", "addsvl", "addspl", "rdvl", "rdsvl") or \
            re.match(r"^([su]q)?(cnt|inc|dec)[bhwd]$", m):
        return plain(w, ops, read_dst=m[:3] in ("inc", "dec") or m[0] in "su")
    if m in ("ctermeq", "ctermne"):
        w.dst, w.src = ["nzcv"], regs(text) + ["nzcv"]
        return w
    return None


def integer(m, text, ops, w):
    """What is left: data processing of general registers."""
    if m in ALU_FLAGS:
        return plain(w, ops, flags_out=True, flags_in=m in ("adcs", "sbcs"))
    if m in ("adc", "sbc"):
        return plain(w, ops, flags_in=True)
    if m in ("rmif", "setf8", "setf16"):
        w.dst, w.src = ["nzcv"], regs(text) + ["nzcv"]
        return w
    return plain(w, ops, read_dst=m in ("movk", "bfm", "bfi", "bfxil", "bfc"))


VECTOR, PREDICATE, ZA = re.compile(r"\bz\d+"), re.compile(r"\b(p\d+|pn\d+)\b"), re.compile(r"\bza")
# Each says what the instruction is, or None: the first that knows it counts.
STEPS = (branch, simple, system_word, special_memory, vector_memory, atomic, load_store,
         vector_data, conditional, float_simd, integer)


def read(mnemonic, operand_text):
    m, text = mnemonic.lower(), expand(operand_text.lower())
    ops = split(text)
    return next(w for w in (step(m, text, ops, What()) for step in STEPS) if w is not None)


def system(m, ops, w):
    w.kind = "system"
    op = ops[0] if ops else ""
    if m == "dc":
        if op in ("zva", "gva", "gzva"):
            w.kind, w.flags = "dc-zva", STORE
        elif "va" in op and not op.endswith("ps"):
            w.kind = "cache"
        w.dst, w.src = [], regs(ops[1]) if len(ops) > 1 else []
    elif m == "ic" and op == "ivau":
        w.kind = "cache"
    elif m == "at":
        w.kind = "at"
    elif m.startswith("gcs"):
        w.kind = "gcs"
        w.flags = GCS | {"gcspushm": STORE, "gcspushx": STORE, "gcspopm": LOAD, "gcspopx": LOAD,
                         "gcspopcx": LOAD}.get(m, LOAD | STORE)
    elif m in ("sys", "sysl"):
        w.kind = None  # the text does not name it
        w.flags = None
    return w


def memory(w, ops, load):
    data, at = ops[:], None
    for i, o in enumerate(ops):
        if o.startswith("["):
            at = i
            break
    if at is None:  # literal
        w.dst, w.src = [r for o in ops[:-1] for r in regs(o)], []
        return
    base, pre = address(ops[at])
    post = at + 1 < len(ops)
    back = base[:1] if pre or post else []
    registers = [r for o in ops[:at] for r in regs(o)]
    later = [r for o in ops[at + 1:] for r in regs(o)]
    if load:
        w.dst, w.src = registers + back, base + later
    else:
        w.dst, w.src = back, registers + base + later


SIZE = {"b": 1, "h": 2, "s": 4, "d": 8, "q": 16}


def register_flags(w, ops, m):
    first = ops[0].lstrip("{ ")
    pair = m[2:].startswith(("p", "np", "tp", "tnp", "iapp", "ilp", "lp",
                             "ap")) and m not in ("ldapr",)
    if first[0] in "bhsdq" and first[1:2].isdigit():
        w.flags |= SIMDREG | (SIMD if first[0] == "q" else FP)
        w.size = SIZE[first[0]]
    elif first[0] == "v":
        w.flags |= SIMDREG | SIMD
        w.size = 8
    elif m.endswith("sw"):
        w.size = 4
    elif m.endswith("b") and m not in ("ldrab",):
        w.size = 1
    elif m.endswith("h"):
        w.size = 2
    elif m == "stgp":
        w.size = 16
    else:
        w.size = 4 if first[0] == "w" else 8


def sve_memory(m, text, ops, w):
    load = m.startswith("ld")
    w.kind = "ldst-sve"
    w.flags = LOAD if load else STORE
    if m in ("ldr", "str"):
        w.flags |= CONTIG | (PONLY if re.match(r"^p\d", ops[0]) else 0)
    else:
        w.flags |= PRED | (ZEROING if load else 0)
        bracket = text[text.index("["):]
        if m.startswith("ld1r") and not m.startswith(("ld1rq", "ld1ro")):
            pass
        elif re.search(r"\bz\d", bracket):
            w.flags |= GATHER
        else:
            w.flags |= CONTIG
    data = regs(ops[0])
    others = [r for o in ops[1:] for r in regs(o)]
    if load:
        w.dst, w.src = data, others
    else:
        w.dst, w.src = [], data + others
    if m.startswith(("ldff1", "ldnf1")):
        w.dst, w.src = None, None
    return w


NOT_PRED = set(
    """sel compact splice lasta lastb clasta clastb cntp expand firstp lastp psel""".split())
FLAG_P = re.compile(r"^(cmp|while|ptest|pfirst|pnext|match|nmatch)|^(and|bic|eor|orr|orn|nor|nand|"
                    r"brkpa|brkpb|brka|brkb|brkn|"
                    r"rdffr|ptrue)s$")
TILE = re.compile(r"^(fmop|bfmop|smop|umop|usmop|sumop|bmop|addha|addva|ftmop|bftmop|stmop|"
                  r"utmop|sutmop|ustmop)")


def sve_data(m, text, ops, w, za):
    w.kind = "sve"
    if za:
        w.kind = "sme-tile" if TILE.match(m) or (m == "zero" and text.startswith("{") and
                                                 "[" not in text) else "sme-vector"
    governing = re.search(r"\bp\d+/[mz]|\bpn\d+/z", text)
    first = regs(ops[0]) if ops else []
    to_vector = bool(first) and (first[0][0] == "v" and re.match(r"^[{ ]*z", ops[0]) or
                                 first[0] == "za")
    if governing and to_vector and m not in NOT_PRED:
        w.flags |= PRED
    if FP_WORD.match(m) and m not in ("fcpy", "fdup") and w.kind != "sme-vector":
        w.flags |= FP
    if m == "zero" and w.kind == "sme-tile" and re.fullmatch(r"\{\s*za\s*\}", text):
        w.flags |= WHOLE
    if not za and not re.search(r"\bz\d+|\bv\d+|\bzt0|\b[bhsdq]\d+", text):
        w.flags |= PONLY
    # operands
    if za or "zt0" in text:
        return w
    w.dst = list(first)
    w.src = [r for o in ops[1:] for r in regs(o)]
    read = False
    if re.search(r"\bp\d+/m", text) and m not in ("add",):
        read = True
    if m in ("ptest", "wrffr", "setffr", "rdffr", "rdffrs"):
        w.dst, w.src = None, None
        return w
    if FLAG_P.match(m) and not m.startswith("fcm"):
        w.dst.append("nzcv")
    if m in ("insr", "tbx", "tbxq", "eorbt", "eortb", "pmlal", "incp", "decp") or \
            re.match(r"^[su]q(inc|dec)p$|^(inc|dec|[su]qinc|[su]qdec)[hwd]$", m):
        read = True
    if re.match(r"^([su]q?ml[as]|ml[as]|sqr?dml[as]|sqrdcmlah|cmla|cdot|[su]dot|usdot|sudot|"
                r"b?fml[as]l?l?|b?fdot|"
                r"fcmla|[su]?mmla|usmmla|b?fmmla|[su]abal?|[su]aba[lb]|adcl|sbcl|"
                r"[su]r?sra|sri|sli|[su]clamp|"
                r"b?fclamp|mlapt|madpt|mad$|msb$)", m):
        read = True
    if re.match(r"^(add|sub|radd|rsub)hnt$|^(sq|uq|sq)?r?shru?nt$|^[su]qxtu?nt$|^sq(r?)shrunt$|"
                r"^b?fcvtx?nt$|^fcvtnt$", m):
        read = True
    if m == "pmov" and first and first[0][0] == "v":
        read = True
    if m in ("fcvtnb",):
        read = False
    if read:
        w.src += w.dst
        w.src = [r for r in w.src if r != "nzcv"]
    return w
