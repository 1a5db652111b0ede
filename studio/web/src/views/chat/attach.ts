import { useCallback } from "react";
import { bytes } from "../../ui/format";
import { useTell } from "../../ui/Toast";
import { getDraft, setDraft } from "./drafts";

/** Larger images are refused: they are stored in every checkpoint. */
const limit = 5_000_000;

/** useAttach adds images to the message that is written. */
export function useAttach(thread: string | null) {
  const tell = useTell();
  return useCallback(
    (files: File[]) =>
      tell.attempt(async () => {
        for (const file of files) {
          if (!file.type.startsWith("image/")) throw new Error(`${file.name} is not an image.`);
          if (file.size > limit) throw new Error(`${file.name} has ${bytes(file.size)}; ${bytes(limit)} is the limit.`);
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
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}
