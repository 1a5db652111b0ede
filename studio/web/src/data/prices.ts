// What models cost. The list is that of prices.json, with what people have changed in this browser.
import listed from "./prices.json";

/** A Price is in US dollars for a million tokens. */
export interface Price {
  input: number;
  output: number;
  /** Of input that the provider had in its cache, and of input that it put there. */
  cached?: number;
  written?: number;
}

export type Prices = Record<string, Price>;

/** When prices.json was made. */
export const listedIn = "2025";

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
  const own = Object.entries(all).filter(([model, p]) => JSON.stringify(p) !== JSON.stringify((listed as Prices)[model]));
  if (own.length > 0) localStorage.setItem(place, JSON.stringify(Object.fromEntries(own)));
  else localStorage.removeItem(place);
}

/** pricesIn reads prices, or says what is wrong with them. */
export function pricesIn(value: unknown): Prices | string {
  const is = (n: unknown) => typeof n === "number" && n >= 0;
  for (const [model, p] of Object.entries(value as Record<string, Partial<Price> | null>))
    if (!is(p?.input) || !is(p?.output) || [p?.cached, p?.written].some((n) => n !== undefined && !is(n))) return `${model} needs an input and an output price, as numbers.`;
  return value as Prices;
}

/** priceOf finds the price of a model. Providers add a version to the name, and gateways the provider. */
export function priceOf(model: string | undefined, all: Prices): Price | undefined {
  const name = (model ?? "").toLowerCase().replace(/^.*[/:]/, "");
  const found = Object.keys(all)
    .filter((known) => name === known || (name.startsWith(known) && /[-@.]/.test(name[known.length]!)))
    .sort((a, b) => b.length - a.length)[0];
  return found === undefined ? undefined : all[found];
}
