import { Empty } from "../../ui/States";

export default function Memory() {
  return <Empty title="Memory" />;
}
