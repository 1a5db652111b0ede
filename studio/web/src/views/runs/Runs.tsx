import { Empty } from "../../ui/States";

export default function Runs() {
  return <Empty title="Runs" />;
}
