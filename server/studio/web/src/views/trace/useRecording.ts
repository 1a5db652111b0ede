import { useQuery } from "@tanstack/react-query";
import { useConnection, useServer } from "../../app/connection";
import type { RecordedSpan } from "../../data/recorded";

/**
 * useRecording loads the recorded calls of a run, again and again while it is running. version changes whenever more
 * calls may have been recorded.
 */
export function useRecording(thread: string | null, run: string, version: string, running: boolean) {
  const { client, url } = useConnection();
  const { info } = useServer();
  const ours = info?.flags?.spans === true;
  const q = useQuery({
    queryKey: [url, "spans", thread, run, version],
    queryFn: ({ signal }) => client.spans(thread!, run, signal),
    enabled: ours && !!thread && !!run,
    refetchInterval: running ? 1_500 : false,
    staleTime: running ? 0 : 60_000,
    // A run that has just been queued is not known yet.
    retry: running ? 3 : 1,
    placeholderData: (old, query) => (query?.queryKey[3] === run ? old : undefined),
  });
  return {
    ours,
    known: !!info,
    recording: q.data,
    error: q.error,
    isLoading: q.isLoading,
  };
}

/** useSpan loads a recorded call with its contents, if the server stores them. */
export function useSpan(thread: string, run: string, { span_id, status, has_content }: RecordedSpan) {
  const { client, url } = useConnection();
  return useQuery({
    queryKey: [url, "span", thread, run, span_id, status],
    queryFn: ({ signal }) => client.span(thread, run, span_id, signal),
    enabled: has_content,
    staleTime: Infinity,
  });
}
