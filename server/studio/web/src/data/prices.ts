// Model prices: those of package catalog, and those that people have changed in this browser.
import table from "../../../../../llm/catalog/catalog.json";

/** A Rate is in US dollars for a million tokens. */
interface Rate {
  input: number;
  output: number;
  /** Prices of input read from the provider's cache and of input written to it. */
  cache_read?: number;
  cache_creation?: number;
}

/** A Price may have another rate for calls with a long input. */
export interface Price extends Rate {
  long?: Rate & { above: number };
}

export type Prices = Record<string, Price>;

const listed: Prices = Object.fromEntries(
  Object.entries(table.models as Record<string, { price?: Price }>).flatMap(([name, m]) =>
    m.price ? [[name, m.price]] : [],
  ),
);

/** The date of the list. */
export const listedIn = table.date;

const place = "treadle-studio-prices";

function changed(): Prices {
  try {
    const stored = pricesIn(JSON.parse(localStorage.getItem(place) ?? "{}"));
    return typeof stored === "string" ? {} : stored;
  } catch {
    return {};
  }
}

export const prices = (): Prices => ({ ...listed, ...changed() });

/** keep stores the prices that differ from the list. */
export function keep(all: Prices) {
  const own = Object.entries(all).filter(([model, p]) => JSON.stringify(p) !== JSON.stringify(listed[model]));
  if (own.length > 0) localStorage.setItem(place, JSON.stringify(Object.fromEntries(own)));
  else localStorage.removeItem(place);
}

/** pricesIn parses prices, or returns their problem. */
export function pricesIn(value: unknown): Prices | string {
  const is = (n: unknown) => typeof n === "number" && n >= 0;
  for (const [model, p] of Object.entries(value as Record<string, Partial<Price> | null>))
    if (!is(p?.input) || !is(p?.output) || [p?.cache_read, p?.cache_creation].some((n) => n !== undefined && !is(n)))
      return `${model} requires an input price and an output price, as numbers.`;
  return value as Prices;
}

/**
 * priceOf finds the price of a model. Providers add a version to the name, and gateways the provider. A changed price
 * also applies to versions that the list contains.
 */
export function priceOf(model: string | undefined): Price | undefined {
  const name = (model ?? "").toLowerCase().replace(/^.*[/:]/, "");
  const family = name.replace(/[-@](\d{4}-\d{2}-\d{2}|\d{8}|\d{3}|latest)$/, "");
  const own = changed();
  return own[name] ?? own[family] ?? listed[name] ?? listed[family];
}

/** costOf returns the cost of a call. Its input includes tokens read from or written to the provider's cache. */
export function costOf(price: Price, input: number, output: number, read: number, created: number): number {
  const rate = price.long && input > price.long.above ? price.long : price;
  const fresh = Math.max(0, input - read - created);
  return (
    (fresh * rate.input +
      read * (rate.cache_read ?? rate.input) +
      created * (rate.cache_creation ?? rate.input) +
      output * rate.output) /
    1_000_000
  );
}
