/** A Call waits for the value of an ID. */
interface Call<T> {
  resolve(value: T | undefined): void;
  reject(reason: unknown): void;
}

/**
 * batched returns a function that loads the value of an ID. Calls made within a moment share a request, with at most
 * size IDs. A value missing from the response is undefined.
 */
export function batched<T>(load: (ids: string[]) => Promise<Map<string, T>>, size: number, moment = 10) {
  let waiting = new Map<string, Call<T>[]>();
  const send = async (part: [string, Call<T>[]][]) => {
    try {
      const found = await load(part.map(([id]) => id));
      for (const [id, calls] of part) for (const c of calls) c.resolve(found.get(id));
    } catch (err) {
      for (const [, calls] of part) for (const c of calls) c.reject(err);
    }
  };
  const flush = () => {
    const all = [...waiting];
    waiting = new Map();
    for (let at = 0; at < all.length; at += size) void send(all.slice(at, at + size));
  };
  return (id: string): Promise<T | undefined> =>
    new Promise((resolve, reject) => {
      if (waiting.size === 0) setTimeout(flush, moment);
      waiting.set(id, [...(waiting.get(id) ?? []), { resolve, reject }]);
    });
}
