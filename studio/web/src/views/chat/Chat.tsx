import { Empty } from "../../ui/States";

export default function Chat() {
  return <Empty title="Chat" />;
}
