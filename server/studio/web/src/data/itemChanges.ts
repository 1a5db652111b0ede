import { useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { useConnection } from "../app/connection";
import { storeKey, type StoredItem } from "./items";

/** useItemChanges writes and deletes items; item lists are reloaded afterward. */
export function useItemChanges() {
  const { client, url } = useConnection();
  const cache = useQueryClient();
  return useMemo(() => {
    const changed = () => cache.invalidateQueries({ queryKey: storeKey(url) });
    return {
      async put(item: Pick<StoredItem, "namespace" | "key" | "meta">, value: Record<string, unknown>) {
        await client.putItem(item, value);
        await changed();
      },
      async remove(item: Pick<StoredItem, "namespace" | "key">) {
        await client.store.deleteItem(item.namespace, item.key);
        await changed();
      },
    };
  }, [client, url, cache]);
}
