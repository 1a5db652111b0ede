import { Empty } from "../../ui/States";

export default function Store() {
  return <Empty title="Store" />;
}
