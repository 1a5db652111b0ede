import { useCallback } from "react";
import { bytes } from "../../ui/format";
import { useTell } from "../../ui/Toast";
import { getDraft, setDraft } from "./drafts";

/** Larger images are rejected, because they are saved in every checkpoint. */
const limit = 5_000_000;

/** useAttach adds images to the draft message. */
export function useAttach(thread: string | null) {
  const tell = useTell();
  return useCallback(
    (files: File[]) =>
      tell.attempt(async () => {
        for (const file of files) {
          if (!file.type.startsWith("image/")) throw new Error(`${file.name} is not an image.`);
          if (file.size > limit) throw new Error(`${file.name} is ${bytes(file.size)}; the limit is ${bytes(limit)}.`);
          const src = await dataUrl(file);
          setDraft(thread, { images: [...getDraft(thread).images, { name: file.name || "image", src }] });
        }
      }),
    [tell, thread],
  );
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(new Error(`Cannot read ${file.name}.`));
    reader.readAsDataURL(file);
  });
}
