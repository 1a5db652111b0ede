(() => {
  const { apply, construct, ownKeys, getPrototypeOf, defineProperty } = Reflect;
  const { isArray } = Array;
  const { stringify, parse } = JSON;
  const { imul } = Math;
  const host = globalThis.__host;
  const names = parse(host("names"));
  let [now, seed] = parse(host("start"));
  const none = [];
  const hidden = (object, key, value) => defineProperty(object, key, { value, writable: true, configurable: true, enumerable: false });
  const text = String, RealDate = Date, RealError = Error, RealRegExp = RegExp, RealProxy = Proxy, RealPromise = Promise;

  /* The engine checks the time limit at calls and loops of the script, but not within its own functions. So these must not run long: they get no array-likes of any length, no sparse arrays, and no long patterns. */
  const most = 4194304;
  const guard = (a) => {
    if (!isArray(a)) throw new TypeError("array methods work only on arrays: convert the value with Array.from");
    if (a.length > most) throw new RangeError("array is too long: at most " + most + " elements");
  };
  const wrap = (object, key, make) => {
    const f = object[key];
    if (typeof f === "function") hidden(object, key, make(f));
  };
  const ap = Array.prototype;
  for (const key of ownKeys(ap)) {
    if (key === "constructor") continue;
    wrap(ap, key, (f) => ({ [key](...args) { guard(this); return apply(f, this, args); } })[key]);
  }
  const byText = (a, b) => { a = text(a); b = text(b); return a < b ? -1 : a > b ? 1 : 0; };
  for (const key of ["sort", "toSorted"]) {
    wrap(ap, key, (f) => ({ [key](by) { return apply(f, this, [by === undefined ? byText : by]); } })[key]);
  }
  const flatten = (out, a, depth) => {
    guard(a);
    for (let i = 0; i < a.length; i++) {
      if (!(i in a)) continue;
      const v = a[i];
      if (depth > 0 && isArray(v)) flatten(out, v, depth - 1);
      else out[out.length] = v;
    }
    return out;
  };
  hidden(ap, "flat", { flat(depth = 1) { return flatten([], this, +depth || 0); } }.flat);
  wrap(ap, "flatMap", (f) => ({ flatMap(g, self) {
    return flatten([], apply(ap.map, this, [g, self]), 1);
  } }).flatMap);
  hidden(ap, "concat", { concat(...items) {
    const out = flatten([], this, 0);
    for (let i = 0; i < items.length; i++) {
      if (isArray(items[i])) flatten(out, items[i], 0);
      else out[out.length] = items[i];
    }
    return out;
  } }.concat);
  const iterator = getPrototypeOf(ap[Symbol.iterator].call(none));
  wrap(iterator, "next", (f) => ({ next() { return apply(f, this, none); } }).next);

  const sp = String.prototype;
  const pattern = (a) => {
    if (typeof a === "string" && a.length > 10000) throw new RangeError("pattern is too long: at most 10000 characters");
  };
  const receiver = (v) => {
    if (v === undefined || v === null) throw new TypeError("string method called on " + v);
    return text(v);
  };
  const isRegExp = (a) => typeof a === "object" && a !== null && getPrototypeOf(a) === RealRegExp.prototype;
  for (const key of ["indexOf", "lastIndexOf", "includes", "split", "replace", "replaceAll"]) {
    wrap(sp, key, (f) => ({ [key](a, ...rest) {
      const s = receiver(this);
      if (a !== undefined && !isRegExp(a)) {
        a = text(a);
        if (a.length > 1 && a.length * s.length > 1e9) throw new RangeError("text and pattern are too long");
      }
      return apply(f, s, [a, ...rest]);
    } })[key]);
  }
  for (const key of ["match", "matchAll", "search"]) {
    wrap(sp, key, (f) => ({ [key](a) {
      if (a !== undefined && !isRegExp(a)) pattern(a = text(a));
      return apply(f, receiver(this), [a]);
    } })[key]);
  }
  for (const key of ["normalize", "localeCompare"]) {
    wrap(sp, key, (f) => ({ [key](...args) {
      const s = receiver(this);
      if (key === "localeCompare") args[0] = text(args[0]);
      if (s.length > 30000 || key === "localeCompare" && args[0].length > 30000) throw new RangeError(key + ": text is too long: at most 30000 characters");
      return apply(f, s, args);
    } })[key]);
  }
  function SafeRegExp(a, flags) {
    if (!isRegExp(a) && a !== undefined) pattern(a = text(a));
    return construct(RealRegExp, [a, flags], new.target || SafeRegExp);
  }
  SafeRegExp.prototype = RealRegExp.prototype;
  if (RealRegExp.escape) hidden(SafeRegExp, "escape", RealRegExp.escape);
  defineProperty(SafeRegExp, Symbol.species, { get() { return this; }, configurable: true });
  hidden(RealRegExp.prototype, "constructor", SafeRegExp);
  delete RealRegExp.prototype.compile;
  hidden(globalThis, "RegExp", SafeRegExp);
  hidden(JSON, "stringify", { stringify(v, replacer, space) {
    if (isArray(replacer)) guard(replacer);
    return stringify(v, replacer, space);
  } }.stringify);

  /* Code from strings would escape the limit of the source. */
  const noCode = function () { throw new TypeError("code cannot be made from a string"); };
  for (const f of [function () {}, async function () {}, function* () {}, async function* () {}]) {
    hidden(getPrototypeOf(f), "constructor", noCode);
  }
  noCode.prototype = Function.prototype;
  hidden(globalThis, "Function", noCode);
  for (const key of ["__host", "eval", "Proxy", "WeakRef", "FinalizationRegistry", "SharedArrayBuffer", "Atomics", "performance", "std", "os", "bjson", "gc", "navigator", "print", "scriptArgs"]) {
    delete globalThis[key];
  }

  /* The engine reads a text without a time zone in the zone of the machine. A script may be replayed on another machine, so such a text is in UTC. */
  const { exec } = RealRegExp.prototype, realParse = RealDate.parse;
  const isoTime = /^[+-]?\d{4,6}-\d\d-\d\dT[\d:.,]+$/, isoDay = /^[+-]?\d{4,6}(-\d\d){0,2}$/;
  const zoned = /(z|utc?|gmt|[ecmp][sd]t|\d\s*[+-]\d\d:?\d\d|(utc|gmt)\s*[+-]\d\d?:?(\d\d)?)\s*(\([^()]*\))?$/i;
  const matches = (re, s) => apply(exec, re, [s]) !== null;
  const inUTC = (s) => {
    s = apply(sp.trim, text(s), none);
    return matches(isoTime, s) ? s + "Z" : s === "" || matches(isoDay, s) || matches(zoned, s) ? s : s + " UTC";
  };
  function SafeDate(...a) {
    if (!new.target) return text(construct(RealDate, [now]));
    if (a.length === 0) a = [now];
    else if (a.length > 1) a = [apply(RealDate.UTC, RealDate, a)];
    else if (typeof a[0] === "string" || a[0] instanceof text) a = [realParse(inUTC(a[0]))];
    return construct(RealDate, a, new.target);
  }
  SafeDate.prototype = RealDate.prototype;
  hidden(SafeDate, "now", { now() { return now; } }.now);
  hidden(SafeDate, "parse", { parse(s) { return realParse(inUTC(s)); } }.parse);
  hidden(SafeDate, "UTC", RealDate.UTC);
  const dp = RealDate.prototype;
  for (const key of ownKeys(dp)) {
    const utc = typeof key === "string" && key.length > 3 && key.slice(0, 3) + "UTC" + key.slice(3);
    if (utc && typeof dp[utc] === "function") hidden(dp, key, dp[utc]);
  }
  hidden(dp, "constructor", SafeDate);
  hidden(dp, "getTimezoneOffset", { getTimezoneOffset() { return 0; } }.getTimezoneOffset);
  for (const key of ["toString", "toLocaleString"]) hidden(dp, key, dp.toUTCString);
  for (const key of ["toDateString", "toLocaleDateString"]) hidden(dp, key, { [key]() { return this.toISOString().slice(0, 10); } }[key]);
  for (const key of ["toTimeString", "toLocaleTimeString"]) hidden(dp, key, { [key]() { return this.toISOString().slice(11, 19); } }[key]);
  hidden(globalThis, "Date", SafeDate);
  hidden(Math, "random", { random() {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  } }.random);

  class ToolError extends RealError {}
  hidden(ToolError.prototype, "name", "ToolError");
  hidden(globalThis, "ToolError", ToolError);
  const describe = (e) => {
    try {
      if (typeof e === "object" && e !== null) {
        const { name, message, stack } = e;
        if (name !== undefined || message !== undefined) {
          return [text(name === undefined ? "Error" : name) + (message === undefined || message === "" ? "" : ": " + text(message)), typeof stack === "string" ? stack : ""];
        }
      }
      return ["Error: the script threw " + show(e), ""];
    } catch (_) {
      return ["Error: the script threw a value that cannot be read", ""];
    }
  };
  const show = (v) => {
    try {
      switch (typeof v) {
        case "string": return v;
        case "bigint": return text(v) + "n";
        case "symbol": return text(v);
        case "function": return "[function]";
        case "undefined": return "undefined";
      }
      if (v instanceof RealError) return describe(v)[0];
      const t = stringify(v);
      return t === undefined ? "undefined" : t;
    } catch (e) {
      return "[" + describe(e)[0] + "]";
    }
  };
  const log = (...args) => {
    let line = "";
    for (let i = 0; i < args.length; i++) line += (i > 0 ? " " : "") + show(args[i]);
    host("log", line);
  };
  hidden(globalThis, "console", { log, info: log, warn: log, error: log, debug: log });

  const pending = { __proto__: null };
  const failed = [];
  class Call extends RealPromise {
    static get [Symbol.species]() { return RealPromise; }
    #handled = false;
    then(a, b) { this.#handled = true; return super.then(a, b); }
    static handled(p) { return p.#handled; }
  }
  const handled = Call.handled;
  delete Call.handled;
  const start = (name, args) => {
    const given = args.length === 0 || args[0] === undefined ? "{}" : stringify(args[0]);
    if (args.length > 1 || typeof given !== "string" || given[0] !== "{") throw new TypeError("call tools." + name + " with one object");
    let settle;
    const p = new Call((resolve, reject) => { settle = { resolve, reject, name }; });
    settle.p = p;
    pending[host("call", name, given)] = settle;
    return p;
  };
  const byName = { __proto__: null };
  for (const name of names) byName[name] = { [name](...args) {
    try { return start(name, args); } catch (e) { return RealPromise.reject(e); }
  } }[name];
  const refuse = () => { throw new TypeError("tools cannot be changed"); };
  hidden(globalThis, "tools", new RealProxy(byName, {
    get(_, key) {
      if (typeof key !== "string" || key === "then" || key === "toJSON") return undefined;
      if (!(key in byName)) throw new TypeError(host("unknown", key));
      return byName[key];
    },
    set: refuse, defineProperty: refuse, deleteProperty: refuse, setPrototypeOf: refuse, preventExtensions: refuse,
  }));

  const main = async (p) => {
    try {
      const v = await p;
      if (typeof v === "function" || typeof v === "symbol") throw new TypeError("the script returned a " + typeof v + ": return a value that JSON can represent");
      if (v === undefined) host("done", "");
      else host("done", typeof v === "string" ? v : stringify(v));
    } catch (e) {
      const d = describe(e);
      host("fail", d[0], d[1]);
    }
  };
  return (op, a, ok, isJSON, value, at) => {
    if (op === "main") { main(a); return; }
    if (op === "end") {
      for (let i = 0; i < failed.length; i++) {
        if (!handled(failed[i].p)) host("log", "Unhandled error of tools." + failed[i].name + ": " + failed[i].message);
      }
      return;
    }
    now = at;
    const { resolve, reject, name, p } = pending[a];
    delete pending[a];
    if (!ok) { failed[failed.length] = { p, name, message: value }; reject(new ToolError(value)); return; }
    let v = value;
    if (isJSON) { try { v = parse(value); } catch (_) { v = value; } }
    resolve(v);
  };
})()
