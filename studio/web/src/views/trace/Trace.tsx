import { Empty } from "../../ui/States";

export default function Trace() {
  return <Empty title="Trace" />;
}
