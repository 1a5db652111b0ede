import { Empty } from "../../ui/States";

export function Timeline() {
  return <Empty title="Timeline" />;
}
