import { Empty } from "../../ui/States";

export function RunPanel() {
  return <Empty title="Run" />;
}
