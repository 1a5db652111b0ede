import { Empty } from "../../ui/States";

export function Threads() {
  return <Empty title="Threads" />;
}
