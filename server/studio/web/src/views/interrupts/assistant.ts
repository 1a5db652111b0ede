import { useAssistant } from "../../app/connection";
import { useSessionPart } from "../../data/session";

/**
 * useThreadAssistant returns the ID of the assistant that continues the thread: the selected one, unless the thread
 * belongs to another graph.
 */
export function useThreadAssistant(): string | undefined {
  const chosen = useAssistant();
  return useSessionPart(({ run, graph, steps }) => {
    if (chosen && (!graph || graph === chosen.graph_id)) return chosen.assistant_id;
    return (
      run?.assistant ??
      ((steps[0]?.metadata as Record<string, unknown> | null)?.assistant_id as string | undefined) ??
      graph ??
      chosen?.assistant_id
    );
  });
}
