// The items that graphs keep across threads.
import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useConnection } from "../../app/connection";
import { setParams, useLocation } from "../../app/location";
import { sameItem, storeKey, type StoredItem } from "../../data/items";
import { labelsOf, linkOf } from "../../data/labels";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { parseObject } from "../../ui/json";
import { Empty } from "../../ui/States";
import { useDebounced } from "../../ui/useDebounced";
import { CreateItem } from "./CreateItem";
import { ItemDetail } from "./ItemDetail";
import { Items } from "./Items";
import { Namespaces, pathOf } from "./Namespaces";
import "./store.css";

type Part = "tree" | "items" | "item";
const before: Record<Part, Part> = { tree: "tree", items: "tree", item: "items" };

export default function Store() {
  const { url } = useConnection();
  const cache = useQueryClient();
  const { params } = useLocation();
  const namespace = useMemo(() => labelsOf(params.namespace), [params.namespace]);
  // An item found by a search has a score, which the address bar lacks.
  const [found, setFound] = useState<StoredItem | null>(null);
  const item = useMemo(() => {
    const [key, ...labels] = labelsOf(params.item).reverse();
    if (key === undefined) return null;
    const linked = { namespace: labels.reverse(), key, value: {}, createdAt: "", updatedAt: "" };
    return sameItem(found, linked) ? found : linked;
  }, [params.item, found]);
  const open = (namespace: string[], to: StoredItem | null) => {
    setFound(to);
    setParams({ namespace: linkOf(namespace), item: to ? linkOf([...to.namespace, to.key]) : "" }, "push");
  };
  // On a narrow screen one part is shown at a time.
  const [part, setPart] = useState<Part>(item ? "item" : namespace.length ? "items" : "tree");
  const [creating, setCreating] = useState(false);
  const [query, setQuery] = useState("");
  const [filter, setFilter] = useState("");
  const wanted = filter.trim() ? parseObject(filter) : {};
  const settled = useDebounced(query.trim());
  const choose = (ns: string[]) => {
    open(ns, null);
    setPart("items");
  };
  return (
    <div className="store" data-part={part}>
      <nav className="panel store-tree-panel" aria-label="Namespaces of the store">
        <div className="panel-head">
          <h2 className="grow">Namespaces</h2>
          <Button
            kind="quiet"
            size="small"
            label="Reload"
            onClick={() => void cache.invalidateQueries({ queryKey: storeKey(url) })}
          >
            <Icon name="refresh" size={14} />
          </Button>
        </div>
        <div className="panel-body">
          <Namespaces chosen={namespace} onChoose={choose} />
        </div>
      </nav>
      <section className="panel store-items-panel" aria-label="Items of the namespace">
        <div className="panel-head">
          <Back part={part} onBack={setPart} />
          <h2 className="grow cut">{namespace.length ? namespace.join(" / ") : "All items"}</h2>
          <Button size="small" onClick={() => setCreating(true)}>
            <Icon name="plus" size={14} /> Create
          </Button>
        </div>
        <form className="store-search" role="search" onSubmit={(e) => e.preventDefault()}>
          <input
            className="input"
            type="search"
            placeholder="Search by meaning or words"
            aria-label="Search items"
            value={query}
            onChange={(e) => setQuery(e.target.value)}
          />
          <input
            className="input mono"
            placeholder='Filter: {"kind": "Memory"}'
            aria-label="Filter, as JSON"
            value={filter}
            onChange={(e) => setFilter(e.target.value)}
            aria-invalid={!!wanted.error}
            spellCheck={false}
          />
          {wanted.error ? <p className="store-wrong">{wanted.error}</p> : null}
        </form>
        <Items
          namespace={namespace}
          query={settled}
          filter={wanted.object}
          chosen={item}
          onChoose={(i) => (open(namespace, i), setPart("item"))}
        />
      </section>
      <section className="panel store-item-panel" aria-label="Item">
        <div className="panel-head store-back">
          <Back part={part} onBack={setPart} />
        </div>
        {item ? (
          <ItemDetail
            key={pathOf([...item.namespace, item.key])}
            item={item}
            onGone={() => (open(namespace, null), setPart("items"))}
          />
        ) : (
          <Empty title="No item selected">Select an item to view, edit, or delete it.</Empty>
        )}
      </section>
      {creating ? (
        <CreateItem
          namespace={namespace}
          onClose={() => setCreating(false)}
          onCreated={(ns, key) => {
            setCreating(false);
            open(ns, { namespace: ns, key, value: {}, createdAt: "", updatedAt: "" });
            setPart("item");
          }}
        />
      ) : null}
    </div>
  );
}

function Back({ part, onBack }: { part: Part; onBack(to: Part): void }) {
  return (
    <Button kind="quiet" size="small" className="store-back-button" onClick={() => onBack(before[part])}>
      <Icon name="left" size={14} /> {part === "item" ? "Items" : "Namespaces"}
    </Button>
  );
}
