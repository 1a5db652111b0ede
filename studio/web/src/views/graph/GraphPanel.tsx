import { Empty } from "../../ui/States";

export function GraphPanel() {
  return <Empty title="Graph" />;
}
